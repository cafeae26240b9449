//! From a request's head to whether it passes, and the response if it does not.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};
use tollgate_kernel::{Micros, Source, StoreError};
use tollgate_permits::{Acquisition, Concurrency, Permit, PermitRefusal};

use crate::admission::write_source;
use crate::key::{self, Key, KeyBuf, KeyError};
use crate::layer::SkipFn;
use crate::log::FailureLog;
use crate::refusal::{GateRefusal, RefusalReason};
use crate::verdict::{CustomDecision, LimiterVerdict};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const NAME: &str = "concurrency";
/// It is unknown when a permit becomes free, but requests rarely take long.
const SOON: HeaderValue = HeaderValue::from_static("1");

type ConcurrencyRespondFn = dyn Fn(&ConcurrencyRefusal<'_>) -> Response<Bytes> + Send + Sync;

/// Whether a request passes, with its permit or the response that refuses it.
pub(crate) enum ConcurrencyAdmission {
    Pass(RequestPermit),
    Refuse(Response<Bytes>),
}

/// The rules of a layer.
#[derive(Clone)]
pub(crate) struct ConcurrencyRules {
    pub(crate) concurrency: Concurrency,
    pub(crate) key: Arc<dyn Key>,
    name: Arc<str>,
    pub(crate) unavailable: bool,
    /// The policy field of responses and the limit field of refusals; `None` if they are not set.
    pub(crate) policy: Option<(HeaderValue, HeaderValue)>,
    pub(crate) respond: Option<Arc<ConcurrencyRespondFn>>,
    pub(crate) skip: Vec<Arc<SkipFn>>,
    pub(crate) enabled: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    pub(crate) log: FailureLog,
    pub(crate) pass_without_key: bool,
    pub(crate) tell_service: bool,
}

/// The permit of a request that passed, held until this and its response's body are dropped. Clones share it.
#[derive(Clone, Debug)]
pub struct RequestPermit(Arc<Permit>);

impl RequestPermit {
    /// Returns whether the permit may have been given to another request: see [`Permit::is_lost`].
    pub fn is_lost(&self) -> bool {
        self.0.is_lost()
    }

    /// Returns the source that granted the permit.
    pub fn source(&self) -> Source {
        self.0.source()
    }
}

/// A request for which there is no permit, as input for the response function. The layer adds its header fields to
/// the response.
#[derive(Debug)]
#[non_exhaustive]
pub struct ConcurrencyRefusal<'a> {
    /// The request's head.
    pub parts: &'a Parts,
    /// The number of permits, and the source that reports that they are taken.
    pub full: PermitRefusal,
    /// The name of the limit.
    pub name: &'a str,
    unavailable: bool,
}

impl ConcurrencyRefusal<'_> {
    /// Returns the status of the default response: 429 or 503, and 503 if the permits could not be counted.
    pub fn status(&self) -> StatusCode {
        if self.unavailable || self.full.source == Source::Closed {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::TOO_MANY_REQUESTS
        }
    }

    /// Returns the default response: a problem document of RFC 9457, or a status for gRPC.
    pub fn response(&self) -> Response<Bytes> {
        let custom = CustomDecision {
            retry_after: Some(Micros::from_secs(1)),
            source: self.full.source,
            ..CustomDecision::default()
        };
        let verdict = LimiterVerdict::Custom(custom);
        let closed = self.full.source == Source::Closed;
        if closed || crate::grpc::content_type(self.parts).is_some() {
            let reason = if closed { RefusalReason::Closed(&verdict) } else { RefusalReason::Limit(&verdict) };
            return GateRefusal { parts: self.parts, reason, policy: None }.response();
        }
        let detail = format!("{} requests are in flight, and no more may be", self.full.most);
        let body = tollgate_http::quota_exceeded(self.status(), &detail, &[self.name.to_owned()]);
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

impl ConcurrencyRules {
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
            log: FailureLog::default(),
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
            self.log.report("a request has no key", error);
        }
        let refusal = || GateRefusal { parts, reason: RefusalReason::Key(error), policy: None }.response();
        (!self.pass_without_key).then(refusal)
    }

    /// Returns what the answer about a key means: a permit, or the response to a request without a permit.
    pub(crate) fn admission_of(
        &self,
        parts: &mut Parts,
        key: &[u8],
        answer: Result<Acquisition, StoreError>,
    ) -> ConcurrencyAdmission {
        let acquired = answer.unwrap_or_else(|error| {
            self.log.report("a limit could not be checked", &error);
            self.concurrency.stand_in(key)
        });
        match acquired {
            Acquisition::Held(permit) => {
                self.report_source(permit.source());
                let permit = RequestPermit(Arc::new(permit));
                if self.tell_service {
                    parts.extensions.insert(permit.clone());
                }
                ConcurrencyAdmission::Pass(permit)
            }
            Acquisition::Full(full) => {
                self.report_source(full.source);
                ConcurrencyAdmission::Refuse(self.refuse(parts, full))
            }
        }
    }

    fn refuse(&self, parts: &Parts, full: PermitRefusal) -> Response<Bytes> {
        let refusal = ConcurrencyRefusal { parts, full, name: &self.name, unavailable: self.unavailable };
        let mut response = self.respond.as_ref().map_or_else(|| refusal.response(), |respond| respond(&refusal));
        let headers = response.headers_mut();
        self.write_fields(full.source, headers);
        if let Some((_, none)) = &self.policy {
            headers.append(LIMIT, none.clone());
        }
        if !headers.contains_key(RETRY_AFTER) {
            headers.insert(RETRY_AFTER, SOON);
        }
        response
    }

    /// Writes the header fields of a response. Fields of other layers are kept, since these fields are lists.
    pub(crate) fn write_fields(&self, source: Source, headers: &mut HeaderMap) {
        if let Some((policy, _)) = &self.policy {
            headers.append(POLICY, policy.clone());
        }
        write_source(source, headers);
    }

    fn report_source(&self, source: Source) {
        if source != Source::Home {
            self.log.report("a limit was not decided by its store", &source.name());
        }
    }
}
