//! The layer and its settings.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tollgate_kernel::{PolicyError, is_word};
use tollgate_permits::Concurrency;
use tower_layer::Layer;

use super::rules::{ConcurrencyRefusal, ConcurrencyRules};
use super::service::ConcurrencyService;
use crate::key::{ClientIp, Key};
use crate::log::FailureLog;

/// A layer that limits how many requests of a key are in flight.
///
/// ```
/// use tollgate_permits::Concurrency;
/// use tollgate_tower::{HeaderKey, concurrency::ConcurrencyLayer, skip};
///
/// let layer = ConcurrencyLayer::new(Concurrency::memory(4)?)
///     .key(HeaderKey::new("x-api-key")?)
///     .skip(skip::paths(["/healthz"]))
///     .unavailable();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a layer limits nothing by itself"]
pub struct ConcurrencyLayer {
    rules: ConcurrencyRules,
}

impl ConcurrencyLayer {
    /// Creates a layer that applies this limit to the requests of each peer's address.
    pub fn new(concurrency: Concurrency) -> Self {
        Self { rules: ConcurrencyRules::new(concurrency, Arc::new(ClientIp::peer())) }
    }

    /// Sets the key under which a request is counted. The default is the peer's address.
    pub fn key(mut self, key: impl Key) -> Self {
        self.rules.key = Arc::new(key);
        self
    }

    /// Sets the name of the limit in header fields and refusals. The default is `concurrency`.
    pub fn name(mut self, name: &str) -> Result<Self, PolicyError> {
        if !is_word(name) {
            return Err(PolicyError::Name);
        }
        self.rules.name(name);
        Ok(self)
    }

    /// Answers 503 instead of 429 when all permits are taken: for limits that protect an overloaded service rather
    /// than restrict a single client.
    pub fn unavailable(mut self) -> Self {
        self.rules.unavailable = true;
        self
    }

    /// Omits the `RateLimit` and `RateLimit-Policy` fields.
    pub fn without_headers(mut self) -> Self {
        self.rules.policy = None;
        self
    }

    /// Sets the response when all permits are taken. The default is [`ConcurrencyRefusal::response`].
    pub fn respond(
        mut self,
        respond: impl Fn(&ConcurrencyRefusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.rules.respond = Some(Arc::new(respond));
        self
    }

    /// Lets requests for which `test` returns true pass unchanged.
    pub fn skip(mut self, test: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.rules.skip.push(Arc::new(test));
        self
    }

    /// Sets a switch that is called for each request: while it returns false, all requests pass unchanged.
    pub fn enabled(mut self, enabled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.rules.enabled = Some(Arc::new(enabled));
        self
    }

    /// Sets the level at which failures are logged; `None` turns logging off. The default is error.
    pub fn log(mut self, level: impl Into<Option<tracing::Level>>) -> Self {
        self.rules.log = FailureLog::at(level.into());
        self
    }

    /// Lets requests without a key pass and logs them, instead of answering 400 or 500.
    pub fn pass_without_key(mut self) -> Self {
        self.rules.pass_without_key = true;
        self
    }

    /// Puts a [`RequestPermit`](super::RequestPermit) into the extensions of requests that pass, for services that
    /// continue after their response, or need to know whether the permit is lost.
    pub fn tell_service(mut self) -> Self {
        self.rules.tell_service = true;
        self
    }
}

impl<S> Layer<S> for ConcurrencyLayer {
    type Service = ConcurrencyService<S>;

    fn layer(&self, service: S) -> ConcurrencyService<S> {
        ConcurrencyService::new(service, Arc::new(self.rules.clone()))
    }
}

impl std::fmt::Debug for ConcurrencyLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConcurrencyLayer").field("concurrency", &self.rules.concurrency).finish_non_exhaustive()
    }
}
