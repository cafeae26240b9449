//! From a request's head to whether it passes, and what is answered if not.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};
use tollgate_core::{Micros, Source, StoreError};
use tollgate_permits::{Acquired, Concurrency, Full, Permit};

use crate::judge::label;
use crate::key::{self, Key, KeyBuf, KeyError};
use crate::layer::Test;
use crate::log::Log;
use crate::refusal::{Refusal, Why};
use crate::verdict::{Custom, Verdict};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const NAME: &str = "concurrency";
/// Nobody knows when a place gets free: what takes a place rarely takes long.
const SOON: HeaderValue = HeaderValue::from_static("1");

type Responding = dyn Fn(&Busy<'_>) -> Response<Bytes> + Send + Sync;

/// What became of a request.
pub(crate) enum Judged {
    Pass(InFlight),
    Refuse(Response<Bytes>),
}

/// What a layer does to requests.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) concurrency: Concurrency,
    pub(crate) key: Arc<dyn Key>,
    name: Arc<str>,
    pub(crate) unavailable: bool,
    /// Of responses, and of refusals, unless none are set.
    pub(crate) policy: Option<(HeaderValue, HeaderValue)>,
    pub(crate) respond: Option<Arc<Responding>>,
    pub(crate) skip: Vec<Arc<Test>>,
    pub(crate) enabled: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    pub(crate) log: Log,
    pub(crate) pass_without_key: bool,
    pub(crate) tell_service: bool,
}

/// A request that passed takes a place until this and its response's body are gone. Clones share the place.
#[derive(Clone, Debug)]
pub struct InFlight(Arc<Permit>);

impl InFlight {
    /// Whether the place may be another's by now: see [`Permit::is_lost`].
    pub fn is_lost(&self) -> bool {
        self.0.is_lost()
    }

    /// Who granted it.
    pub fn source(&self) -> Source {
        self.0.source()
    }
}

/// A request for which there is no place, for the function that answers it. The layer adds its header fields to the
/// answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Busy<'a> {
    /// The request's head.
    pub parts: &'a Parts,
    /// How many places there are, and who says that they are taken.
    pub full: Full,
    /// What the limit is called.
    pub name: &'a str,
    unavailable: bool,
}

impl Busy<'_> {
    /// The status of the usual answer: 429 or 503, and 503 if nobody could count.
    pub fn status(&self) -> StatusCode {
        if self.unavailable || self.full.source == Source::Closed {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::TOO_MANY_REQUESTS
        }
    }

    /// The usual answer: a problem of RFC 9457, and in gRPC a status.
    pub fn response(&self) -> Response<Bytes> {
        let custom = Custom { retry_after: Some(Micros::from_secs(1)), source: self.full.source, ..Custom::default() };
        let verdict = Verdict::Custom(custom);
        let closed = self.full.source == Source::Closed;
        if closed || crate::grpc::kind(self.parts).is_some() {
            let why = if closed { Why::Closed(&verdict) } else { Why::Limit(&verdict) };
            return Refusal { parts: self.parts, why, policy: None }.response();
        }
        let detail = format!("{} requests are in flight, and no more may be", self.full.most);
        let body = tollgate_http::quota_exceeded(self.status(), &detail, &[self.name.to_owned()]);
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

impl Rules {
    pub(crate) fn new(concurrency: Concurrency, key: Arc<dyn Key>) -> Self {
        let policy = Some((HeaderValue::from_static(""), HeaderValue::from_static("")));
        let mut rules = Self {
            concurrency,
            key,
            name: NAME.into(),
            unavailable: false,
            policy,
            respond: None,
            skip: Vec::new(),
            enabled: None,
            log: Log::default(),
            pass_without_key: false,
            tell_service: false,
        };
        rules.name(NAME);
        rules
    }

    /// Law: `name` is a word, so it needs no escapes in a header field.
    pub(crate) fn name(&mut self, name: &str) {
        self.name = name.into();
        if self.policy.is_some() {
            let all = format!("\"{name}\";q={};qu=\"concurrent-requests\"", self.concurrency.most());
            let none = format!("\"{name}\";r=0");
            self.policy = HeaderValue::try_from(all).ok().zip(HeaderValue::try_from(none).ok());
        }
    }

    /// Whether a request passes untouched.
    pub(crate) fn skips(&self, parts: &Parts) -> bool {
        self.enabled.as_ref().is_some_and(|enabled| !enabled()) || self.skip.iter().any(|skip| skip(parts))
    }

    pub(crate) fn key_of(&self, parts: &Parts) -> Result<KeyBuf, KeyError> {
        let mut key = KeyBuf::new();
        key::write(&*self.key, parts, &mut key)?;
        Ok(key)
    }

    /// The answer to a request without a key; `None` if it passes untouched.
    pub(crate) fn refuse_without_key(&self, parts: &Parts, error: &KeyError) -> Option<Response<Bytes>> {
        if self.pass_without_key || matches!(error, KeyError::Setup(_)) {
            self.log.tell("a request has no key", error);
        }
        let refusal = || Refusal { parts, why: Why::Key(error), policy: None }.response();
        (!self.pass_without_key).then(refusal)
    }

    /// What the answer about a key means: a place, or the response to one who gets none.
    pub(crate) fn judge(&self, parts: &mut Parts, key: &[u8], answer: Result<Acquired, StoreError>) -> Judged {
        let acquired = answer.unwrap_or_else(|error| {
            self.log.tell("a limit could not be checked", &error);
            self.concurrency.stand_in(key)
        });
        match acquired {
            Acquired::Held(permit) => {
                self.tell_source(permit.source());
                let in_flight = InFlight(Arc::new(permit));
                if self.tell_service {
                    parts.extensions.insert(in_flight.clone());
                }
                Judged::Pass(in_flight)
            }
            Acquired::Full(full) => {
                self.tell_source(full.source);
                Judged::Refuse(self.refuse(parts, full))
            }
        }
    }

    fn refuse(&self, parts: &Parts, full: Full) -> Response<Bytes> {
        let busy = Busy { parts, full, name: &self.name, unavailable: self.unavailable };
        let mut response = self.respond.as_ref().map_or_else(|| busy.response(), |respond| respond(&busy));
        let headers = response.headers_mut();
        self.tell(full.source, headers);
        if let Some((_, none)) = &self.policy {
            headers.append(LIMIT, none.clone());
        }
        if !headers.contains_key(RETRY_AFTER) {
            headers.insert(RETRY_AFTER, SOON);
        }
        response
    }

    /// Writes the header fields of a response. Fields of another layer stay: theirs are lists.
    pub(crate) fn tell(&self, source: Source, headers: &mut HeaderMap) {
        if let Some((policy, _)) = &self.policy {
            headers.append(POLICY, policy.clone());
        }
        label(source, headers);
    }

    fn tell_source(&self, source: Source) {
        if source != Source::Home {
            self.log.tell("a limit was not decided by its store", &source.name());
        }
    }
}
