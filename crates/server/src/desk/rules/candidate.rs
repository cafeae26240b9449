//! Limits that are tried beside the live ones. They have state of their own, are asked the same, and decide
//! nothing: what they would have decided otherwise is counted.
//!
//! Keys that a list, a ban or an override decides are none of its business: were it live, they would be
//! decided so too. Refunds do not reach it, since it may have charged nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_config::Entry;
use tollgate_core::{Decision, Source};

use crate::desk::Known;

/// Limits that are tried.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) known: Known,
    decided: AtomicU64,
    would_refuse: AtomicU64,
    would_allow: AtomicU64,
}

/// What a candidate would have decided, since it is tried beside the same limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flips {
    /// Decisions that were compared.
    pub(crate) decided: u64,
    /// Of them: live allowed, the candidate not.
    pub(crate) would_refuse: u64,
    /// Of them: the candidate allowed, live not.
    pub(crate) would_allow: u64,
}

impl Candidate {
    pub(super) fn new(known: Known) -> Self {
        Self { known, decided: AtomicU64::new(0), would_refuse: AtomicU64::new(0), would_allow: AtomicU64::new(0) }
    }

    /// The one that is tried already, if what is compared is the same.
    pub(super) fn going_on(entry: &Entry, before: Option<&Known>) -> Option<Arc<Self>> {
        let before = before?;
        let old = before.entry.as_deref()?;
        let same = old.policy == entry.policy && old.candidate == entry.candidate;
        before.rules.as_ref()?.candidate.clone().filter(|_| same)
    }

    /// Compares what was decided by the limits with what these decide. Answers whether it flips; not at all
    /// where either was decided by somebody in the home's place.
    pub(super) fn compare(&self, live: &Decision, tried: &Decision) -> bool {
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

    /// What it would have decided so far.
    pub(crate) fn flips(&self) -> Flips {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Flips {
            decided: read(&self.decided),
            would_refuse: read(&self.would_refuse),
            would_allow: read(&self.would_allow),
        }
    }
}
