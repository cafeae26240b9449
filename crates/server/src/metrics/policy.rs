//! Decisions under one policy, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Decision, Policy};

/// What was decided under a policy.
#[derive(Debug, Default)]
pub(crate) struct PolicyCounts {
    pub(crate) allowed: AtomicU64,
    pub(crate) denied: AtomicU64,
    /// Decisions that somebody made in the home's place.
    pub(crate) standin: AtomicU64,
    /// Denials by the first limit that refused, in policy order; the limit's name beside it.
    pub(crate) limits: Box<[(String, AtomicU64)]>,
}

impl PolicyCounts {
    pub(crate) fn new(policy: &Policy) -> Self {
        let limits = policy.limits().iter().map(|limit| (limit.name(), AtomicU64::new(0)));
        Self { limits: limits.collect(), ..Self::default() }
    }

    /// Counts decisions, one addition for each thing that happened.
    #[inline]
    pub(crate) fn count(&self, decisions: &[Decision]) {
        let (mut allowed, mut standin) = (0u64, 0u64);
        for decision in decisions {
            allowed += u64::from(decision.allowed);
            standin += u64::from(decision.source != tollgate_core::Source::Home);
            if let Some((_, denied)) = decision.limited_by.and_then(|place| self.limits.get(place)) {
                denied.fetch_add(1, Ordering::Relaxed);
            }
        }
        let denied = decisions.len() as u64 - allowed;
        for (counter, count) in [(&self.allowed, allowed), (&self.denied, denied), (&self.standin, standin)] {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}
