//! Candidate limits, which are evaluated beside the live ones. They have their own state, receive the same requests,
//! and decide nothing: the decisions that they would have made differently are counted.
//!
//! Keys that a list, a ban or an override decides do not reach a candidate: if it were live, they would be decided in
//! the same way. Refunds do not reach it either, because it may have charged nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_config::PolicyEntry;
use tollgate_kernel::{Decision, Source};

use crate::policies::EnginePolicy;

/// Candidate limits and their counters.
#[derive(Debug)]
pub struct CandidateLimits {
    pub known: EnginePolicy,
    decided: AtomicU64,
    would_refuse: AtomicU64,
    would_allow: AtomicU64,
}

/// The decisions that a candidate would have flipped, since it was first compared with the same limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flips {
    /// The number of decisions that were compared.
    pub decided: u64,
    /// Of them, those that the live limits allowed and the candidate refused.
    pub would_refuse: u64,
    /// Of them, those that the candidate allowed and the live limits refused.
    pub would_allow: u64,
}

impl CandidateLimits {
    pub(crate) fn new(known: EnginePolicy) -> Self {
        Self { known, decided: AtomicU64::new(0), would_refuse: AtomicU64::new(0), would_allow: AtomicU64::new(0) }
    }

    /// Returns the candidate that is already evaluated, if it is compared with the same limits.
    pub(crate) fn continued(entry: &PolicyEntry, before: Option<&EnginePolicy>) -> Option<Arc<Self>> {
        let before = before?;
        let old = before.entry.as_deref()?;
        let same = old.policy == entry.policy && old.candidate == entry.candidate;
        before.rules.as_ref()?.candidate.clone().filter(|_| same)
    }

    /// Compares a decision of the live limits with that of the candidate. Returns whether it would flip; decisions of a
    /// stand-in for the home are not compared.
    pub(crate) fn compare(&self, live: &Decision, tried: &Decision) -> bool {
        if live.source != Source::Home || tried.source != Source::Home {
            return false;
        }
        self.decided.fetch_add(1, Ordering::Relaxed);
        match (live.allowed, tried.allowed) {
            (true, false) => self.would_refuse.fetch_add(1, Ordering::Relaxed),
            (false, true) => self.would_allow.fetch_add(1, Ordering::Relaxed),
            _ => return false,
        };
        true
    }

    /// Returns the counts of flips so far.
    pub fn flips(&self) -> Flips {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Flips {
            decided: read(&self.decided),
            would_refuse: read(&self.would_refuse),
            would_allow: read(&self.would_allow),
        }
    }
}
