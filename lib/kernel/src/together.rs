//! Decides several keys under several policies together: all are charged or none is.

use crate::combine::{ask, assess, settle, wait_from};
use crate::decision::Decision;
use crate::limit::Cell;
use crate::policy::Policy;
use crate::request::{Cost, Mode, Request};
use crate::units::{Timestamp, Wait};

/// One key's part: its cells under a policy, and the units requested.
#[derive(Debug)]
pub struct JointRequest<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The cells of the policy, one per limit in policy order.
    pub cells: &'a mut [Cell],
    /// The number of units.
    pub cost: Cost,
    /// The time, by the clock that decides the policy.
    pub t: Timestamp,
}

/// The answer to several parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointDecision {
    /// Whether every part fits. If not, nothing is charged.
    pub allowed: bool,
    /// Zero if allowed; else the least time after which all parts fit if there are no other requests.
    pub retry_after: Wait,
    /// The decision of each part, in order. If not all parts fit, `allowed` says which ones do, and nothing is granted.
    pub decisions: Vec<Decision>,
}

/// Decides `parts`, which must have different keys or policy names. Modes do not matter, since the parts are decided
/// all or nothing.
///
/// ```
/// use tollgate_kernel::{decide_all, Cost, JointRequest, Policy, Timestamp};
/// let (user, team): (Policy, Policy) = ("2/s".parse().unwrap(), "3/s".parse().unwrap());
/// let mut cells = [[user.limits()[0].fresh()], [team.limits()[0].fresh()]];
/// let t = Timestamp::new(1_700_000_000_000_000).unwrap();
/// let [mine, ours] = &mut cells;
/// let mut parts = [
///     JointRequest { policy: &user, cells: mine, cost: Cost::ONE, t },
///     JointRequest { policy: &team, cells: ours, cost: Cost::new(4).unwrap(), t },
/// ];
/// let refused = decide_all(&mut parts);
/// assert!(!refused.allowed && refused.decisions[0].charged == 0);
/// ```
pub fn decide_all(parts: &mut [JointRequest<'_>]) -> JointDecision {
    let asks: Vec<_> =
        parts.iter().map(|part| ask(part.policy, &Request::cost(part.cost).mode(Mode::Binary))).collect();
    let assessed: Vec<_> =
        parts.iter_mut().zip(&asks).map(|(part, ask)| assess(part.policy.limits(), part.cells, part.t, *ask)).collect();
    let allowed = assessed.iter().all(|part| part.allowed);
    let mut decisions = Vec::with_capacity(parts.len());
    for ((part, mut ask), assessed) in parts.iter_mut().zip(asks).zip(&assessed) {
        ask.peek = !allowed;
        let mut decision = settle(part.policy.limits(), part.cells, part.t, ask, assessed, |_| {});
        if !allowed {
            decision.granted = 0;
        }
        decisions.push(decision);
    }
    let retry_after = if allowed { Wait::NONE } else { wait_for_all(parts, &decisions) };
    JointDecision { allowed, retry_after, decisions }
}

/// Returns the least time at which all parts fit, as [`wait_from`] does for the limits of one policy.
fn wait_for_all(parts: &[JointRequest<'_>], decisions: &[Decision]) -> Wait {
    let mut wait = decisions.iter().map(|decision| decision.next_after).max().unwrap_or(Wait::NONE);
    for _ in 0..=2 * parts.len() {
        let Wait::After(span) = wait else { return Wait::Never };
        let then = |part: &JointRequest<'_>| {
            wait_from(part.policy.limits(), part.cells, part.t, part.cost.get(), Wait::After(span))
        };
        let later = parts.iter().map(then).max().unwrap_or(wait);
        if later == wait {
            return wait;
        }
        wait = later;
    }
    Wait::Never
}
