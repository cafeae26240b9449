//! The rules of one route: its limiter and how it is applied, everything that may differ between routes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use tollgate_http::{HeaderFields, PreparedFields};
use tollgate_kernel::{Cost, EXACT, OnError};

use crate::key::{ClientIp, Key};
use crate::limiter::{Limiter, LimiterQuestion};
use crate::line::WaitLine;
use crate::log::FailureLog;
use crate::refusal::GateRefusal;
use crate::settle::{SettleFn, Settlement};

pub(crate) type CostFn = dyn Fn(&Parts) -> u64 + Send + Sync;
pub(crate) type RefusalRespondFn = dyn Fn(&GateRefusal<'_>) -> Response<Bytes> + Send + Sync;

/// The rules of a route: a limiter, a key, a cost, and the fields of the response.
///
/// See [`GateLayer`](crate::GateLayer), which has the same methods for all routes, and
/// [`GateLayer::route`](crate::GateLayer::route), which changes them for one.
#[derive(Clone)]
#[must_use = "rules limit nothing until a layer applies them"]
pub struct RouteRules {
    pub(crate) limiter: Limiter,
    /// Distinguishes its limiter from those of other rules that share its line.
    pub(crate) number: u64,
    pub(crate) key: Arc<dyn Key>,
    pub(crate) cost: Option<Arc<CostFn>>,
    pub(crate) settle: Option<Arc<SettleFn>>,
    pub(crate) look: bool,
    pub(crate) fields: HeaderFields,
    pub(crate) respond: Option<Arc<RefusalRespondFn>>,
    pub(crate) on_error: Option<OnError>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) line: Option<WaitLine>,
    pub(crate) log: FailureLog,
    pub(crate) tell_service: bool,
    pub(crate) pass_without_key: bool,
    /// Prepared from the fields and the policy when the layer is applied to a service; `None` if there is nothing
    /// to write.
    pub(crate) prepared: Option<PreparedFields>,
}

impl RouteRules {
    /// Creates rules that charge this limiter one unit for each request, by the client's address, with the header
    /// fields of draft-10.
    pub fn new(limiter: impl Into<Limiter>) -> Self {
        Self {
            limiter: limiter.into(),
            number: next_number(),
            key: Arc::new(ClientIp::peer()),
            cost: None,
            settle: None,
            look: false,
            fields: HeaderFields::default(),
            respond: None,
            on_error: None,
            deadline: None,
            line: None,
            log: FailureLog::default(),
            tell_service: false,
            pass_without_key: false,
            prepared: None,
        }
    }

    /// Sets the limiter that decides.
    pub fn limiter(self, limiter: impl Into<Limiter>) -> Self {
        let limiter = limiter.into();
        let limiter = match self.on_error {
            Some(on_error) => limiter.with_on_error(on_error),
            None => limiter,
        };
        Self { limiter, number: next_number(), ..self }
    }

    /// Sets the key under which a request is counted. The default is the peer's address.
    pub fn key(self, key: impl Key) -> Self {
        Self { key: Arc::new(key), ..self }
    }

    /// Sets the number of units that a request costs. The default is 1. A request of cost 0 passes, and its
    /// response reports what is left.
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        Self { cost: Some(Arc::new(cost)), ..self }
    }

    /// Sets how a response changes the charge, by its status and header fields. Without a response, because the
    /// service fails or the client disconnects first, the charge is kept.
    pub fn settle(self, settle: impl Fn(StatusCode, &HeaderMap) -> Settlement + Send + Sync + 'static) -> Self {
        Self { settle: Some(Arc::new(settle)), ..self }
    }

    /// Charges nothing before the response: a request passes if there is room, and [`RouteRules::settle`] charges by
    /// the response. Concurrent requests all see the same room. A custom limiter always charges when it decides, so
    /// it is not called at all.
    pub fn look_first(self) -> Self {
        Self { look: true, ..self }
    }

    /// Sets the header fields of responses. The default is draft-10 with Retry-After.
    pub fn headers(self, fields: HeaderFields) -> Self {
        Self { fields, ..self }
    }

    /// Sets the response to refused requests. The default is [`GateRefusal::response`].
    pub fn respond(self, respond: impl Fn(&GateRefusal<'_>) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        Self { respond: Some(Arc::new(respond)), ..self }
    }

    /// Sets what decides when the limiter fails, regardless of its policy. The default is the policy's `on_error`.
    pub fn on_error(self, on_error: OnError) -> Self {
        Self { limiter: self.limiter.with_on_error(on_error), on_error: Some(on_error), ..self }
    }

    /// Sets how long to wait for a store before `on_error` decides. The default is the store's own deadline. This
    /// needs the timer of the tokio runtime.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Makes requests that do not fit wait in this line until they do.
    pub fn wait(self, line: WaitLine) -> Self {
        Self { line: Some(line), ..self }
    }

    /// Sets the level at which failures are logged; `None` turns logging off. The default is error.
    pub fn log(self, level: impl Into<Option<tracing::Level>>) -> Self {
        Self { log: FailureLog::at(level.into()), ..self }
    }

    /// Puts the [`LimiterVerdict`](crate::LimiterVerdict) into the extensions of requests that pass, for the service
    /// to read.
    pub fn tell_service(self) -> Self {
        Self { tell_service: true, ..self }
    }

    /// Lets requests without a key pass and logs them, instead of answering 400 or 500.
    pub fn pass_without_key(self) -> Self {
        Self { pass_without_key: true, ..self }
    }

    /// Prepares what is the same for all responses.
    pub(crate) fn prepare(mut self) -> Self {
        if let Some(on_error) = self.on_error {
            self.limiter = self.limiter.with_on_error(on_error);
        }
        let policy = self.limiter.policy().filter(|_| !self.fields.is_none());
        self.prepared = policy.map(|policy| self.fields.prepare(policy));
        self
    }

    pub(crate) fn on_failure(&self) -> OnError {
        let own = || self.limiter.policy().map_or(OnError::Allow, tollgate_kernel::Policy::on_error);
        self.on_error.unwrap_or_else(own)
    }

    /// Returns the question to the limiter about a request with this head.
    pub(crate) fn question(&self, parts: &Parts) -> LimiterQuestion {
        // A cost above the maximum can be granted as little as the maximum itself.
        let units = self.cost.as_ref().map_or(1, |cost| cost(parts)).min(EXACT - 1);
        let cost = Cost::new(units).unwrap_or(Cost::ONE);
        if self.look { LimiterQuestion::Look(cost) } else { LimiterQuestion::Charge(cost) }
    }
}

fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl std::fmt::Debug for RouteRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouteRules")
            .field("limiter", &self.limiter)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}
