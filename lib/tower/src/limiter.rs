//! The limiter of a layer: a gate in process, a policy over any store, or a custom limiter.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use http::request::Parts;
use tollgate::Gate;
use tollgate_kernel::{
    Cost, Decision, Micros, Mode, OnError, Policy, Request, Source, Store, StoreError, Timestamp, Wait,
};

use crate::verdict::{CustomDecision, Details, LimiterVerdict};

/// A pending decision of a custom limiter.
pub type DecisionFuture = Pin<Box<dyn Future<Output = Result<CustomDecision, StoreError>> + Send>>;

/// A custom limiter: a script, another service, or anything else that allows or refuses requests.
pub trait CustomLimiter: Send + Sync + 'static {
    /// Decides the request with this head, key and cost, and charges what it grants.
    fn decide(&self, parts: &Parts, key: &[u8], cost: Cost) -> DecisionFuture;
}

/// The limiter of a layer: a gate, a policy over a store, or a custom one. Clones share their state.
#[derive(Clone)]
pub struct Limiter(LimiterKind);

#[derive(Clone)]
enum LimiterKind {
    /// In process: the answer is known immediately.
    Gate(Gate),
    Store(Arc<StoreLimiter>),
    Custom(Arc<dyn CustomLimiter>),
}

struct StoreLimiter {
    store: Arc<dyn Store>,
    policy: Policy,
    /// Decides while the store does not answer, if the policy says so. Shared by all users of this limiter, so that
    /// they are counted together.
    local: Arc<OnceLock<Option<Gate>>>,
    /// Whether the store was checked for the permission to refund.
    refund_checked: Arc<AtomicBool>,
}

/// The key of the zero-unit refund that checks the permission to refund.
const UNUSED_KEY: &[u8] = b"tollgate--unused";

/// A question to a limiter: the units, and whether they are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimiterQuestion {
    Charge(Cost),
    Look(Cost),
    /// Counts the units whether they fit or not, because they are already used.
    Count(Cost),
}

impl Limiter {
    /// Creates a limiter that applies this policy over any store: Redis, a cluster, a Tollgate server, or the
    /// embedded one.
    pub fn over(store: impl Store + 'static, policy: Policy) -> Self {
        Self::shared(Arc::new(store), policy)
    }

    /// Like [`Limiter::over`], with a store that is shared with other users.
    pub fn shared(store: Arc<dyn Store>, policy: Policy) -> Self {
        Self(LimiterKind::Store(Arc::new(StoreLimiter {
            store,
            policy,
            local: Arc::default(),
            refund_checked: Arc::default(),
        })))
    }

    /// Creates a custom limiter.
    pub fn custom(decide: impl CustomLimiter) -> Self {
        Self(LimiterKind::Custom(Arc::new(decide)))
    }

    /// Returns the policy, or `None` for a custom limiter.
    pub fn policy(&self) -> Option<&Policy> {
        match &self.0 {
            LimiterKind::Gate(gate) => Some(gate.current()),
            LimiterKind::Store(over) => Some(&over.policy),
            LimiterKind::Custom(_) => None,
        }
    }

    /// Returns the limiter with another `on_error`, which says what decides when the store fails. Stores that
    /// handle failures themselves use the `on_error` of the policy that is passed to them.
    pub(crate) fn with_on_error(self, on_error: OnError) -> Self {
        let LimiterKind::Store(over) = &self.0 else { return self };
        let policy = over.policy.clone().with_on_error(on_error);
        let (local, refund_checked) = (over.local.clone(), over.refund_checked.clone());
        Self(LimiterKind::Store(Arc::new(StoreLimiter { store: over.store.clone(), policy, local, refund_checked })))
    }

    /// Returns the answer, if it is known without waiting.
    #[inline]
    pub(crate) fn verdict_now(
        &self,
        key: &[u8],
        question: LimiterQuestion,
    ) -> Option<Result<LimiterVerdict, StoreError>> {
        let LimiterKind::Gate(gate) = &self.0 else { return None };
        Some(decide_in_process(gate, key, question))
    }

    /// Like [`Limiter::verdict_now`], but returns only the decision; `None` unless this is a gate whose policy has one
    /// limit.
    #[inline]
    pub(crate) fn decision_now(&self, key: &[u8], question: LimiterQuestion) -> Option<Decision> {
        let LimiterKind::Gate(gate) = &self.0 else { return None };
        let policy = gate.current();
        if policy.limits().len() != 1 {
            return None;
        }
        gate.decide(key, &question.request(policy)).ok()
    }

    /// Returns the answer as a future.
    pub(crate) fn verdict_later(
        &self,
        parts: &Parts,
        key: &[u8],
        question: LimiterQuestion,
    ) -> Pin<Box<dyn Future<Output = Result<LimiterVerdict, StoreError>> + Send>> {
        match &self.0 {
            LimiterKind::Gate(gate) => Box::pin(std::future::ready(decide_in_process(gate, key, question))),
            LimiterKind::Store(over) => {
                let (over, key) = (over.clone(), key.to_vec());
                Box::pin(async move { over.ask(&key, question).await })
            }
            LimiterKind::Custom(custom) => match question {
                LimiterQuestion::Charge(cost) | LimiterQuestion::Count(cost) => {
                    let deciding = custom.decide(parts, key, cost);
                    Box::pin(async move { Ok(LimiterVerdict::Custom(deciding.await?)) })
                }
                // A custom limiter always charges when it decides, so it is not called for a look.
                LimiterQuestion::Look(_) => Box::pin(std::future::ready(Ok(LimiterVerdict::Custom(CustomDecision {
                    allowed: true,
                    ..CustomDecision::default()
                })))),
            },
        }
    }

    /// Asks again about a request whose response is known. This is an error for a custom limiter, which decides
    /// once.
    pub(crate) async fn ask_again(&self, key: &[u8], question: LimiterQuestion) -> Result<LimiterVerdict, StoreError> {
        match &self.0 {
            LimiterKind::Gate(gate) => decide_in_process(gate, key, question),
            LimiterKind::Store(over) => over.ask(key, question).await,
            LimiterKind::Custom(_) => {
                let why = "expected a policy: a limiter of one's own is not charged by responses";
                Err(StoreError::Refused(why.to_owned()))
            }
        }
    }

    /// Refunds units that were charged at `at`.
    pub(crate) async fn refund(&self, key: &[u8], units: Cost, at: Timestamp) -> Result<u64, StoreError> {
        match &self.0 {
            LimiterKind::Gate(gate) => gate.refund(key, units.get(), at),
            LimiterKind::Store(over) => over.store.refund(&over.policy, key, units, at).await,
            LimiterKind::Custom(_) => Ok(0),
        }
    }

    /// Returns true once for a limiter over a store; the caller then checks whether the store permits refunds.
    pub(crate) fn begins_refund_check(&self) -> bool {
        matches!(&self.0, LimiterKind::Store(over)
            if !over.refund_checked.load(Ordering::Relaxed) && !over.refund_checked.swap(true, Ordering::Relaxed))
    }

    /// Returns the error with which the store refuses refunds, if it does. The check is a refund of zero units,
    /// which changes nothing. If the store does not answer, the check is repeated later.
    pub(crate) async fn refund_refused(&self) -> Option<StoreError> {
        let LimiterKind::Store(over) = &self.0 else { return None };
        let at = Timestamp::saturating(0);
        match over.store.refund(&over.policy, UNUSED_KEY, Cost::new(0)?, at).await {
            Ok(_) => None,
            Err(StoreError::Away { .. }) => {
                over.refund_checked.store(false, Ordering::Relaxed);
                None
            }
            Err(error) => Some(error),
        }
    }

    /// Returns the verdict on a request that the limiter could not decide, as `on_error` says.
    pub(crate) fn without_store(&self, on_error: OnError, key: &[u8], question: LimiterQuestion) -> LimiterVerdict {
        let local = match (&self.0, on_error) {
            (LimiterKind::Store(over), OnError::Local) => over.local(key, question),
            (LimiterKind::Custom(_), OnError::Local | OnError::Allow) => {
                return LimiterVerdict::Custom(CustomDecision {
                    allowed: true,
                    source: Source::Open,
                    ..CustomDecision::default()
                });
            }
            (LimiterKind::Custom(_), OnError::Deny) => {
                return LimiterVerdict::Custom(CustomDecision { source: Source::Closed, ..CustomDecision::default() });
            }
            _ => None,
        };
        local.unwrap_or_else(|| fallback_verdict(on_error == OnError::Allow, self.policy(), question))
    }
}

impl From<Gate> for Limiter {
    fn from(gate: Gate) -> Self {
        Self(LimiterKind::Gate(gate))
    }
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Limiter").field(&self.policy()).finish()
    }
}

impl StoreLimiter {
    async fn ask(&self, key: &[u8], question: LimiterQuestion) -> Result<LimiterVerdict, StoreError> {
        let request = question.request(&self.policy);
        if let [only] = self.policy.limits() {
            let decision = self.store.check(&self.policy, key, request).await?;
            return Ok(LimiterVerdict::Decided(decision, Details::of_one(&decision, only.count())));
        }
        let (decision, details) = self.store.check_full(&self.policy, key, request).await?;
        Ok(LimiterVerdict::Decided(decision, Details::Many(details)))
    }

    /// Decides in this process by the full limits. Stores that are shared with other processes apply their own
    /// share; this is for stores that have no such share.
    fn local(&self, key: &[u8], question: LimiterQuestion) -> Option<LimiterVerdict> {
        let gate = self.local.get_or_init(|| Gate::builder().value(self.policy.clone()).build().ok()).as_ref()?;
        let verdict = decide_in_process(gate, key, question).ok()?;
        let LimiterVerdict::Decided(decision, details) = verdict else { return None };
        Some(LimiterVerdict::Decided(Decision { source: Source::Local, ..decision }, details))
    }
}

impl LimiterQuestion {
    /// Returns the number of units.
    pub(crate) fn cost(self) -> Cost {
        let (Self::Charge(cost) | Self::Look(cost) | Self::Count(cost)) = self;
        cost
    }

    /// Returns the request to the store. An HTTP request passes whole or not at all, so `nary` becomes `binary`.
    fn request(self, policy: &Policy) -> Request {
        let mode = if policy.mode() == Mode::Nary { Mode::Binary } else { policy.mode() };
        match self {
            Self::Charge(cost) => Request::cost(cost).mode(mode),
            Self::Look(cost) => Request::cost(cost).mode(mode).peek(),
            Self::Count(cost) => Request::cost(cost).mode(Mode::Uniform),
        }
    }
}

#[inline]
fn decide_in_process(gate: &Gate, key: &[u8], question: LimiterQuestion) -> Result<LimiterVerdict, StoreError> {
    let policy = gate.current();
    let request = question.request(policy);
    if let [only] = policy.limits() {
        let decision = gate.decide(key, &request)?;
        return Ok(LimiterVerdict::Decided(decision, Details::of_one(&decision, only.count())));
    }
    let (decision, details) = gate.decide_full(key, &request)?;
    Ok(LimiterVerdict::Decided(decision, Details::Many(details)))
}

/// Returns a verdict that no store made: allowed with the full limits left, or refused for one second.
fn fallback_verdict(allowed: bool, policy: Option<&Policy>, question: LimiterQuestion) -> LimiterVerdict {
    let at = Timestamp::saturating(0);
    let (granted, closed) = (question.cost().get(), Decision::closed(Micros::from_secs(1), at));
    let decision = match policy {
        _ if !allowed => closed,
        Some(policy) => Decision::open(policy, granted, at),
        None => Decision {
            allowed,
            granted,
            retry_after: Wait::NONE,
            next_after: Wait::NONE,
            reset_after: Micros::ZERO,
            source: Source::Open,
            ..closed
        },
    };
    LimiterVerdict::Decided(decision, Details::Many(policy.map(|policy| decision.details(policy)).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route_rules::RouteRules;
    use tollgate_kernel::KeyState;

    /// A store that uses `on_error`, as that of Redis does, gets the layer's setting.
    #[test]
    fn on_error_of_route_rules_is_that_of_their_policy() {
        let gate = Gate::memory("1/min").unwrap();
        let limiter = || Limiter::over(gate.store().clone(), gate.current().clone());
        let on_error = |route: RouteRules| route.limiter.policy().map(Policy::on_error);
        assert_eq!(on_error(RouteRules::new(limiter())), Some(OnError::Local));
        assert_eq!(on_error(RouteRules::new(limiter()).on_error(OnError::Deny)), Some(OnError::Deny));
        let later = RouteRules::new(limiter()).on_error(OnError::Allow).limiter(limiter());
        assert_eq!(on_error(later), Some(OnError::Allow));
    }

    /// The detail derived from a decision equals the one that the kernel reports.
    #[test]
    fn the_part_of_an_only_limit_is_told_by_the_decision() {
        for text in ["3/min", "3/min gcra", "3/min fixed", "5/min bucket burst=2", "3/min slots resolution=10s"] {
            let policy: Policy = text.parse().unwrap();
            let mut key = KeyState::default();
            for step in 0..12 {
                let now = Timestamp::saturating(1_700_000_000_000_000 + step * 7_000_000);
                let question = match step % 3 {
                    0 => LimiterQuestion::Charge(Cost::new(2).unwrap()),
                    1 => LimiterQuestion::Charge(Cost::ONE),
                    _ => LimiterQuestion::Look(Cost::new(9).unwrap()),
                };
                let told = tollgate_kernel::explain(&mut key, &policy, now, &question.request(&policy));
                let detail = told.limits[0].detail;
                let Details::One(of_one) = Details::of_one(&told.decision, detail.count) else { panic!() };
                assert_eq!(of_one, detail, "{text}, step {step}");
            }
        }
    }
}
