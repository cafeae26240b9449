//! Deciding a policy: several limits on one key, all charged or none.
//!
//! In order: correct clocks, see how much fits every limit, charge, and tell what is left and how
//! long to wait, from the state as it then is. Nothing here knows an algorithm.

use std::sync::Arc;

use crate::decision::{Decision, Detail};
use crate::limit::{Cell, Limit};
use crate::policy::Policy;
use crate::request::{Mode, Request};
use crate::units::{Micros, Timestamp, Wait};

/// Decides `request` at `t` and charges what it grants. `cells` are the policy's, one a limit in
/// policy order. A refusal outside uniform mode, and a peek, write nothing but a clock correction.
///
/// ```
/// use tollgate_core::{decide, Policy, Request, Timestamp};
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

/// As [`decide`], telling each limit's part to `tell` in policy order.
pub fn decide_with(
    policy: &Policy,
    cells: &mut [Cell],
    t: Timestamp,
    request: &Request,
    tell: impl FnMut(Detail),
) -> Decision {
    let mode = request.mode.unwrap_or(policy.mode());
    correct(policy, cells, t, mode);
    let assessed = assess(policy, cells, t, request);
    let charged = if request.peek { 0 } else { charge(policy, cells, t, assessed.charges(mode, request)) };
    report(policy, cells, t, request, &assessed, charged, tell)
}

/// What fits: the first half of a decision.
#[derive(Clone, Copy, Debug)]
struct Assessed {
    granted: u64,
    allowed: bool,
    limited_by: Option<usize>,
    /// Which limits fit the whole request, a bit each.
    fits: u32,
}

impl Assessed {
    fn charges(&self, mode: Mode, request: &Request) -> u64 {
        if mode == Mode::Uniform { request.cost.get() } else { self.granted }
    }
}

fn each<'a>(policy: &'a Policy, cells: &'a [Cell]) -> impl Iterator<Item = (&'a Arc<Limit>, &'a Cell)> {
    policy.limits().iter().zip(cells)
}

fn correct(policy: &Policy, cells: &mut [Cell], t: Timestamp, mode: Mode) {
    for (limit, cell) in policy.limits().iter().zip(cells) {
        limit.correct(cell, t, mode == Mode::Uniform);
    }
}

fn assess(policy: &Policy, cells: &[Cell], t: Timestamp, request: &Request) -> Assessed {
    let cost = request.cost.get();
    let mut room = cost;
    let mut limited_by = None;
    let mut fits = 0;
    for (index, (limit, cell)) in each(policy, cells).enumerate() {
        let (own, ready) = (limit.room(cell, t), cost == 0 || limit.ready(cell, t));
        if own >= cost as i64 && ready {
            fits |= 1 << index;
            continue;
        }
        limited_by = limited_by.or(Some(index));
        room = if ready { room.min(own.max(0).cast_unsigned()) } else { 0 };
    }
    let whole = limited_by.is_none();
    let (granted, allowed) = match request.mode.unwrap_or(policy.mode()) {
        Mode::Nary => (room, room > 0 || whole),
        Mode::Binary | Mode::Uniform => (if whole { cost } else { 0 }, whole),
    };
    Assessed { granted, allowed, limited_by, fits }
}

/// Charges every limit; the most any of them recorded.
fn charge(policy: &Policy, cells: &mut [Cell], t: Timestamp, units: u64) -> u64 {
    if units == 0 {
        return 0;
    }
    let charged = policy.limits().iter().zip(cells).map(|(limit, cell)| limit.charge(cell, t, units));
    charged.max().unwrap_or(0)
}

fn report(
    policy: &Policy,
    cells: &[Cell],
    t: Timestamp,
    request: &Request,
    assessed: &Assessed,
    charged: u64,
    mut tell: impl FnMut(Detail),
) -> Decision {
    let mode = request.mode.unwrap_or(policy.mode());
    let needs = request.needs(mode);
    let mut remaining = i64::MAX;
    let mut reset_after = Micros::ZERO;
    let mut wait = Wait::NONE;
    for (index, (limit, cell)) in each(policy, cells).enumerate() {
        let left = limit.remaining(cell, t);
        let left = if mode == Mode::Uniform { left } else { left.max(0) };
        let (own_wait, own_reset) = (limit.wait(cell, t, needs), limit.reset_after(cell, t));
        remaining = remaining.min(left);
        reset_after = reset_after.max(own_reset);
        wait = wait.max(own_wait);
        tell(Detail {
            fits: assessed.fits & 1 << index != 0,
            remaining: left,
            retry_after: own_wait,
            reset_after: own_reset,
            count: limit.count(),
        });
    }
    if policy.limits().len() > 1 {
        wait = wait_from(policy, cells, t, needs, wait);
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
    }
}

/// The least time at which all limits fit together, which is not the greatest of their single
/// waits: a limit may no longer fit when another begins to. `least` is a time before which they do
/// not. Each step moves on to where every limit would fit again; only an algorithm that can lose
/// room by waiting needs more than one, and it loses room once.
fn wait_from(policy: &Policy, cells: &[Cell], t: Timestamp, units: u64, least: Wait) -> Wait {
    let mut wait = least;
    for _ in 0..=2 * policy.limits().len() {
        let Wait::After(span) = wait else { return Wait::Never };
        let then = t.plus(span);
        let more = each(policy, cells).map(|(limit, cell)| limit.wait(cell, then, units)).max();
        match more {
            Some(Wait::After(Micros::ZERO)) | None => return wait,
            Some(Wait::After(more)) => wait = Wait::After(span.plus(more)),
            Some(Wait::Never) => return Wait::Never,
        }
    }
    Wait::Never
}

/// Gives back what is still held of `units` charged at `at`, a decision's time; answers the most
/// units any limit gave back.
pub fn refund(policy: &Policy, cells: &mut [Cell], t: Timestamp, units: u64, at: Timestamp) -> u64 {
    if units == 0 || at > t {
        return 0;
    }
    correct(policy, cells, t, policy.mode());
    let given = policy.limits().iter().zip(cells).map(|(limit, cell)| limit.refund(cell, t, units, at));
    given.max().unwrap_or(0)
}

/// The time until all of `cells` may be forgotten: then a key never seen decides alike.
pub fn expires_after(policy: &Policy, cells: &[Cell], t: Timestamp) -> Micros {
    each(policy, cells).map(|(limit, cell)| limit.reset_after(cell, t)).max().unwrap_or_default()
}
