//! From a request's head to whether it passes, and the response if it does not.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};
use tollgate_kernel::{Micros, Source, StoreError};
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
/// It is unknown when a place becomes free, but requests rarely take long.
const SOON: HeaderValue = HeaderValue::from_static("1");

type Responding = dyn Fn(&Busy<'_>) -> Response<Bytes> + Send + Sync;

/// The result for a request.
pub(crate) enum Judged {
    Pass(InFlight),
    Refuse(Response<Bytes>),
}

/// The rules of a layer.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) concurrency: Concurrency,
    pub(crate) key: Arc<dyn Key>,
    name: Arc<str>,
    pub(crate) unavailable: bool,
    /// The policy field of responses and the limit field of refusals; `None` if they are not set.
    pub(crate) policy: Option<(HeaderValue, HeaderValue)>,
    pub(crate) respond: Option<Arc<Responding>>,
    pub(crate) skip: Vec<Arc<Test>>,
    pub(crate) enabled: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    pub(crate) log: Log,
    pub(crate) pass_without_key: bool,
    pub(crate) tell_service: bool,
}

/// The place of a request that passed, held until this and its response's body are dropped. Clones share the place.
#[derive(Clone, Debug)]
pub struct InFlight(Arc<Permit>);

impl InFlight {
    /// Returns whether the place may have been given to another request: see [`Permit::is_lost`].
    pub fn is_lost(&self) -> bool {
        self.0.is_lost()
    }

    /// Returns the source that granted the place.
    pub fn source(&self) -> Source {
        self.0.source()
    }
}

/// A request for which there is no place, as input for the response function. The layer adds its header fields to
/// the response.
#[derive(Debug)]
#[non_exhaustive]
pub struct Busy<'a> {
    /// The request's head.
    pub parts: &'a Parts,
    /// The number of places, and the source that reports that they are taken.
    pub full: Full,
    /// The name of the limit.
    pub name: &'a str,
    unavailable: bool,
}

impl Busy<'_> {
    /// Returns the status of the default response: 429 or 503, and 503 if the places could not be counted.
    pub fn status(&self) -> StatusCode {
        if self.unavailable || self.full.source == Source::Closed {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::TOO_MANY_REQUESTS
        }
    }

    /// Returns the default response: a problem document of RFC 9457, or a status for gRPC.
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

    /// Sets the name. Law: `name` is a word, so it needs no escapes in a header field.
    pub(crate) fn name(&mut self, name: &str) {
        self.name = name.into();
        if self.policy.is_some() {
            let all = format!("\"{name}\";q={};qu=\"concurrent-requests\"", self.concurrency.most());
            let none = format!("\"{name}\";r=0");
            self.policy = HeaderValue::try_from(all).ok().zip(HeaderValue::try_from(none).ok());
        }
    }

    /// Returns whether a request passes unchanged.
    pub(crate) fn skips(&self, parts: &Parts) -> bool {
        self.enabled.as_ref().is_some_and(|enabled| !enabled()) || self.skip.iter().any(|skip| skip(parts))
    }

    pub(crate) fn key_of(&self, parts: &Parts) -> Result<KeyBuf, KeyError> {
        let mut key = KeyBuf::new();
        key::write(&*self.key, parts, &mut key)?;
        Ok(key)
    }

    /// Returns the response to a request without a key, or `None` if it passes unchanged.
    pub(crate) fn refuse_without_key(&self, parts: &Parts, error: &KeyError) -> Option<Response<Bytes>> {
        if self.pass_without_key || matches!(error, KeyError::Setup(_)) {
            self.log.tell("a request has no key", error);
        }
        let refusal = || Refusal { parts, why: Why::Key(error), policy: None }.response();
        (!self.pass_without_key).then(refusal)
    }

    /// Returns what the answer about a key means: a place, or the response to a request without one.
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

    /// Writes the header fields of a response. Fields of other layers are kept, since these fields are lists.
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
