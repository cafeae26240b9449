//! What is answered while nothing can be kept, for policies that would rather not decide then.

use tollgate_core::{Clock, Decision, Detail, Limit, Micros, Policy, Source, Wait};

/// What a closed gate tells to wait: it is tried again by then.
const CLOSED_FOR: Wait = Wait::After(Micros::from_secs(5));

/// Nobody counted, so all of the least limit is said to be left.
pub(super) fn open(policy: &Policy, granted: u64, clock: &dyn Clock) -> Decision {
    let left = policy.limits().iter().map(|limit| limit.count()).min().unwrap_or(0);
    Decision {
        allowed: true,
        granted,
        charged: 0,
        remaining: left as i64,
        retry_after: Wait::NONE,
        next_after: Wait::NONE,
        reset_after: Micros::ZERO,
        limited_by: None,
        at: clock.now(),
        source: Source::Open,
    }
}

/// Nothing passes.
pub(super) fn closed(clock: &dyn Clock) -> Decision {
    Decision {
        allowed: false,
        granted: 0,
        charged: 0,
        remaining: 0,
        retry_after: CLOSED_FOR,
        next_after: CLOSED_FOR,
        reset_after: Micros::ZERO,
        limited_by: None,
        at: clock.now(),
        source: Source::Closed,
    }
}

/// Each limit's part of such a decision.
pub(super) fn details(policy: &Policy, decision: &Decision) -> Vec<Detail> {
    let detail = |limit: &Limit| Detail {
        fits: decision.allowed,
        remaining: if decision.allowed { limit.count() as i64 } else { 0 },
        retry_after: decision.retry_after,
        reset_after: decision.reset_after,
        count: limit.count(),
    };
    policy.limits().iter().map(|limit| detail(limit)).collect()
}

/// Decided in memory alone.
pub(super) fn local(decision: Decision) -> Decision {
    Decision { source: Source::Local, ..decision }
}
