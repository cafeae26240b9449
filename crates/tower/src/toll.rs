//! What one route is limited by, and how: everything that a route may have differently.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use tollgate_core::{Cost, EXACT, OnError};
use tollgate_http::{Fields, PreparedFields};

use crate::key::{ClientIp, Key};
use crate::limiter::{Limiter, Question};
use crate::line::Line;
use crate::log::Log;
use crate::refusal::Refusal;
use crate::settle::{Settle, Settling};

pub(crate) type Costing = dyn Fn(&Parts) -> u64 + Send + Sync;
pub(crate) type Responding = dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync;

/// What limits a route: a limiter, a key, a cost, and what is told.
///
/// See [`GateLayer`](crate::GateLayer), which has the same methods for all routes, and
/// [`GateLayer::route`](crate::GateLayer::route), which changes them for one.
#[derive(Clone)]
#[must_use = "a toll limits nothing by itself"]
pub struct Toll {
    pub(crate) limiter: Limiter,
    /// Tells its limiter from those of other tolls that share its line.
    pub(crate) number: u64,
    pub(crate) key: Arc<dyn Key>,
    pub(crate) cost: Option<Arc<Costing>>,
    pub(crate) settle: Option<Arc<Settling>>,
    pub(crate) look: bool,
    pub(crate) fields: Fields,
    pub(crate) respond: Option<Arc<Responding>>,
    pub(crate) on_error: Option<OnError>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) line: Option<Line>,
    pub(crate) log: Log,
    pub(crate) tell_service: bool,
    pub(crate) pass_without_key: bool,
    /// Made of fields and policy when the layer is put on a service; nothing if there is nothing to write.
    pub(crate) prepared: Option<PreparedFields>,
}

impl Toll {
    /// One unit of this limiter for each request of a client's address, told as draft-10 has it.
    pub fn new(limiter: impl Into<Limiter>) -> Self {
        Self {
            limiter: limiter.into(),
            number: next_number(),
            key: Arc::new(ClientIp::peer()),
            cost: None,
            settle: None,
            look: false,
            fields: Fields::default(),
            respond: None,
            on_error: None,
            deadline: None,
            line: None,
            log: Log::default(),
            tell_service: false,
            pass_without_key: false,
            prepared: None,
        }
    }

    /// What decides.
    pub fn limiter(self, limiter: impl Into<Limiter>) -> Self {
        let limiter = limiter.into();
        let limiter = match self.on_error {
            Some(on_error) => limiter.with_on_error(on_error),
            None => limiter,
        };
        Self { limiter, number: next_number(), ..self }
    }

    /// Who is limited; the peer's address if not given.
    pub fn key(self, key: impl Key) -> Self {
        Self { key: Arc::new(key), ..self }
    }

    /// How many units a request costs; 1 if not given. A cost of 0 passes, and is told what is left.
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        Self { cost: Some(Arc::new(cost)), ..self }
    }

    /// What becomes of the charge, by the status and header fields of the response. Only of a response that there is:
    /// where the service fails without one, or the client goes away before, the charge stays as it was.
    pub fn settle(self, settle: impl Fn(StatusCode, &HeaderMap) -> Settle + Send + Sync + 'static) -> Self {
        Self { settle: Some(Arc::new(settle)), ..self }
    }

    /// Charges nothing on the way in: whoever has room passes, and [`Toll::settle`] charges by the response. Requests
    /// that are under way together all see the same room. A limiter of one's own cannot be asked without being charged,
    /// so it is not asked at all then.
    pub fn look_first(self) -> Self {
        Self { look: true, ..self }
    }

    /// The header fields of responses; draft-10 with Retry-After if not given.
    pub fn headers(self, fields: Fields) -> Self {
        Self { fields, ..self }
    }

    /// What refused requests are answered; [`Refusal::response`] if not given.
    pub fn respond(self, respond: impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        Self { respond: Some(Arc::new(respond)), ..self }
    }

    /// Who decides where the limiter fails, whatever its policy says; what that says if not given.
    pub fn on_error(self, on_error: OnError) -> Self {
        Self { limiter: self.limiter.with_on_error(on_error), on_error: Some(on_error), ..self }
    }

    /// The longest time to wait for a store, after which `on_error` decides; that of the store if not given. Needs the
    /// timer of the tokio runtime.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Lets requests that do not fit wait in this line until they do.
    pub fn wait(self, line: Line) -> Self {
        Self { line: Some(line), ..self }
    }

    /// At which level failures are logged, or not at all; as errors if not given.
    pub fn log(self, level: impl Into<Option<tracing::Level>>) -> Self {
        Self { log: Log::at(level.into()), ..self }
    }

    /// Puts the [`Verdict`](crate::Verdict) into the extensions of requests that pass, for the service to see.
    pub fn tell_service(self) -> Self {
        Self { tell_service: true, ..self }
    }

    /// Lets requests pass that have no key, and logs it, instead of answering 400 or 500.
    pub fn pass_without_key(self) -> Self {
        Self { pass_without_key: true, ..self }
    }

    /// Ready to be asked: what is the same for all responses is made.
    pub(crate) fn prepare(mut self) -> Self {
        if let Some(on_error) = self.on_error {
            self.limiter = self.limiter.with_on_error(on_error);
        }
        let policy = self.limiter.policy().filter(|_| !self.fields.is_none());
        self.prepared = policy.map(|policy| self.fields.prepare(policy));
        self
    }

    pub(crate) fn on_failure(&self) -> OnError {
        let own = || self.limiter.policy().map_or(OnError::Allow, tollgate_core::Policy::on_error);
        self.on_error.unwrap_or_else(own)
    }

    /// What is asked of a request with this head.
    pub(crate) fn question(&self, parts: &Parts) -> Question {
        // More than any cost is as little to be had as the greatest one.
        let units = self.cost.as_ref().map_or(1, |cost| cost(parts)).min(EXACT - 1);
        let cost = Cost::new(units).unwrap_or(Cost::ONE);
        if self.look { Question::Look(cost) } else { Question::Charge(cost) }
    }
}

fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl std::fmt::Debug for Toll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toll").field("limiter", &self.limiter).field("fields", &self.fields).finish_non_exhaustive()
    }
}
