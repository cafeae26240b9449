//! Decides a policy: several limits on one key, of which all are charged or none.
//!
//! The steps are: correct the clocks, determine how much fits every limit, charge, and report what is left and how long
//! to wait, computed from the state after the charge. Nothing here depends on a particular algorithm.

use std::sync::Arc;

use crate::algorithms::{LimitOutcome, ResolvedRequest};
use crate::decision::{Decision, Detail, Source};
use crate::limit::{Cell, Limit};
use crate::policy::Policy;
use crate::request::{Mode, Request};
use crate::units::{Micros, Timestamp, Wait};

/// Decides `request` at `t` and charges what it grants. `cells` are those of the policy, one per limit in policy order.
/// A refusal outside uniform mode and a peek write nothing but a clock correction.
///
/// ```
/// use tollgate_kernel::{decide, Policy, Request, Timestamp};
/// let policy: Policy = "2/s".parse().unwrap();
/// let mut cells: Vec<_> = policy.limits().iter().map(|limit| limit.fresh()).collect();
/// let t = Timestamp::new(1_700_000_000_000_000).unwrap();
/// assert!(decide(&policy, &mut cells, t, &Request::ONE).allowed);
/// assert_eq!(decide(&policy, &mut cells, t, &Request::ONE).remaining, 0);
/// assert!(!decide(&policy, &mut cells, t, &Request::ONE).allowed);
/// ```
pub fn decide(policy: &Policy, cells: &mut [Cell], t: Timestamp, request: &Request) -> Decision {
    decide_with(policy, cells, t, request, |_| {})
}

/// As [`decide`], and passes each limit's part to `tell` in policy order.
pub fn decide_with(
    policy: &Policy,
    cells: &mut [Cell],
    t: Timestamp,
    request: &Request,
    tell: impl FnMut(Detail),
) -> Decision {
    let ask = ask(policy, request);
    if let ([limit], [cell]) = (policy.limits(), &mut *cells)
        && let Some(step) = limit.step(cell, t, ask)
    {
        return alone(limit, t, ask.mode, step, tell);
    }
    let limits = policy.limits();
    let assessed = assess(limits, cells, t, ask);
    settle(limits, cells, t, ask, &assessed, tell)
}

#[inline]
pub(crate) fn ask(policy: &Policy, request: &Request) -> ResolvedRequest {
    let mode = request.mode.unwrap_or(policy.mode());
    ResolvedRequest { cost: request.cost.get(), mode, peek: request.peek, needs: request.needs(mode) }
}

/// As [`decide`] for a policy of one limit that [packs](Limit::packs), on a packed cell. Also returns the words after
/// the decision. Returns `None`, and decides nothing, if the cell has outgrown two words.
#[inline(always)]
pub fn decide_packed(
    policy: &Policy,
    words: [u64; 2],
    t: Timestamp,
    request: &Request,
) -> Option<(Decision, [u64; 2])> {
    let [limit] = policy.limits() else { return None };
    let ask = ask(policy, request);
    let (step, words) = limit.step_packed(words, t, ask)?;
    Some((alone(limit, t, ask.mode, step, |_| {}), words))
}

/// Returns the decision of one limit alone.
#[inline]
fn alone(limit: &Limit, t: Timestamp, mode: Mode, step: LimitOutcome, mut tell: impl FnMut(Detail)) -> Decision {
    let LimitOutcome { fits, granted, settled } = step;
    let remaining = if mode == Mode::Uniform { settled.remaining } else { settled.remaining.max(0) };
    let allowed = fits || granted > 0;
    tell(Detail { fits, remaining, retry_after: settled.wait, reset_after: settled.reset_after, count: limit.count() });
    Decision {
        allowed,
        granted,
        charged: settled.recorded,
        remaining,
        retry_after: if allowed { Wait::NONE } else { settled.wait },
        next_after: settled.wait,
        reset_after: settled.reset_after,
        limited_by: if fits { None } else { Some(0) },
        at: t,
        source: Source::Home,
    }
}

/// How much fits the limits: the first half of a decision.
pub(crate) struct Assessment {
    granted: u64,
    pub(crate) allowed: bool,
    limited_by: Option<usize>,
    /// The limits that fit the whole request, one bit each.
    fits: u32,
}

/// Corrects the clocks and determines how much fits every limit.
pub(crate) fn assess(limits: &[Arc<Limit>], cells: &mut [Cell], t: Timestamp, ask: ResolvedRequest) -> Assessment {
    let mut room = ask.cost;
    let mut limited_by = None;
    let mut fits = 0;
    for (index, (limit, cell)) in limits.iter().zip(cells.iter_mut()).enumerate() {
        if limit.fits(cell, t, ask.cost) {
            fits |= 1 << index;
            continue;
        }
        limited_by = limited_by.or(Some(index));
        room = if ask.mode == Mode::Nary { room.min(limit.room(cell, t)) } else { 0 };
    }
    let whole = limited_by.is_none();
    Assessment { granted: room, allowed: whole || room > 0, limited_by, fits }
}

/// Charges every limit and returns the decision from the state afterwards.
pub(crate) fn settle(
    limits: &[Arc<Limit>],
    cells: &mut [Cell],
    t: Timestamp,
    ask: ResolvedRequest,
    assessed: &Assessment,
    mut tell: impl FnMut(Detail),
) -> Decision {
    let charge = ask.charges(assessed.granted);
    let (mut charged, mut remaining, mut reset_after, mut wait) = (0, i64::MAX, Micros::ZERO, Wait::NONE);
    for (index, (limit, cell)) in limits.iter().zip(cells.iter_mut()).enumerate() {
        let settled = limit.settle(cell, t, charge, ask.needs);
        let left = if ask.mode == Mode::Uniform { settled.remaining } else { settled.remaining.max(0) };
        charged = charged.max(settled.recorded);
        remaining = remaining.min(left);
        reset_after = reset_after.max(settled.reset_after);
        wait = wait.max(settled.wait);
        tell(Detail {
            fits: assessed.fits & 1 << index != 0,
            remaining: left,
            retry_after: settled.wait,
            reset_after: settled.reset_after,
            count: limit.count(),
        });
    }
    if limits.iter().any(|limit| limit.rule().loses_room()) {
        wait = wait_from(limits, cells, t, ask.needs, wait);
    }
    Decision {
        allowed: assessed.allowed,
        granted: assessed.granted,
        charged,
        remaining,
        retry_after: if assessed.allowed { Wait::NONE } else { wait },
        next_after: wait,
        reset_after,
        limited_by: assessed.limited_by,
        at: t,
        source: Source::Home,
    }
}

/// Returns the least time at which all limits fit together. This is not the greatest of their single waits if a limit
/// loses room by waiting: it may no longer fit when another begins to. `least` is a time before which they do not fit.
/// Each step advances to where every limit would fit again; a limit loses room once.
pub(crate) fn wait_from(limits: &[Arc<Limit>], cells: &[Cell], t: Timestamp, units: u64, least: Wait) -> Wait {
    let mut wait = least;
    for _ in 0..=2 * limits.len() {
        let Wait::After(span) = wait else { return Wait::Never };
        let then = t.plus(span);
        let more = limits.iter().zip(cells).map(|(limit, cell)| limit.wait(cell, then, units)).max();
        match more {
            Some(Wait::After(Micros::ZERO)) | None => return wait,
            Some(Wait::After(more)) => wait = Wait::After(span.plus(more)),
            Some(Wait::Never) => return Wait::Never,
        }
    }
    Wait::Never
}

/// Gives back what is still held of `units` charged at `at`, the time of a decision, and returns the most units that
/// any limit gave back.
pub fn refund(policy: &Policy, cells: &mut [Cell], t: Timestamp, units: u64, at: Timestamp) -> u64 {
    if units == 0 || at > t {
        return 0;
    }
    let given = policy.limits().iter().zip(cells).map(|(limit, cell)| {
        limit.correct(cell, t);
        limit.refund(cell, t, units, at)
    });
    given.max().unwrap_or(0)
}

/// Returns the time until all of `cells` may be forgotten: a key that was never seen then decides the same.
pub fn expires_after(policy: &Policy, cells: &[Cell], t: Timestamp) -> Micros {
    policy.limits().iter().zip(cells).map(|(limit, cell)| limit.reset_after(cell, t)).max().unwrap_or_default()
}
