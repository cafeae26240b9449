//! The counters of calls of dialects, one set for each dialect: so the labels are few, whatever callers send.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_dialects::{DIALECTS, Dialect};
use tollgate_kernel::Source;

use super::histogram::AnswerHistogram;
use tollgate_engine::counts::STANDINS;

/// The counters of all dialects, in the order of the registry.
#[derive(Debug)]
pub(crate) struct DialectCounters(Box<[DialectCounts]>);

/// The counters of one dialect.
#[derive(Debug, Default)]
pub(super) struct DialectCounts {
    pub(super) allowed: AtomicU64,
    pub(super) denied: AtomicU64,
    /// Decisions that a stand-in made in place of the home, by source.
    pub(super) standin: [AtomicU64; STANDINS.len()],
    /// The durations of all calls, also of those that failed, reset or only looked.
    pub(super) took: AnswerHistogram,
}

impl Default for DialectCounters {
    fn default() -> Self {
        Self(DIALECTS.iter().map(|_| DialectCounts::default()).collect())
    }
}

impl DialectCounters {
    /// Counts the duration of a call.
    pub(crate) fn took(&self, dialect: &Dialect, took: Duration) {
        self.of(dialect).inspect(|counts| counts.took.count(took));
    }

    /// Counts a decision, and who made it.
    pub(crate) fn decided(&self, dialect: &Dialect, allowed: bool, source: Source) {
        let Some(counts) = self.of(dialect) else { return };
        let counter = if allowed { &counts.allowed } else { &counts.denied };
        counter.fetch_add(1, Ordering::Relaxed);
        let standins = STANDINS.iter().zip(&counts.standin).filter(|(standin, _)| **standin == source);
        standins.for_each(|(_, counter)| _ = counter.fetch_add(1, Ordering::Relaxed));
    }

    fn of(&self, dialect: &Dialect) -> Option<&DialectCounts> {
        self.0.get(DIALECTS.iter().position(|other| other.name == dialect.name)?)
    }

    /// Returns each dialect's name and counters.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, &DialectCounts)> {
        DIALECTS.iter().map(|dialect| dialect.name).zip(&self.0)
    }
}
