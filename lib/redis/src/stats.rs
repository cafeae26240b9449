//! The counters of a store.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_kernel::Source;

/// Counts of what happened since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStats {
    /// Decisions made by the server.
    pub home: u64,
    /// Decisions made by this process within its share because the server did not answer, or by a Tollgate server
    /// within its share because its store did not answer.
    pub local: u64,
    /// Requests allowed without a decision, for the same reasons.
    pub open: u64,
    /// Requests refused without a decision, for the same reasons.
    pub closed: u64,
    /// Calls that the server did not answer or could not execute.
    pub errors: u64,
    /// Runs of scripts of the user's own that failed: the server did not answer, the script ended with an error, or a
    /// Tollgate server did not know it.
    pub failed_scripts: u64,
    /// Calls sent again after the server proved that it had not run them.
    pub retries: u64,
    /// Times that the library or a script was sent because the server did not have it.
    pub reloads: u64,
    /// Pipelines sent.
    pub batches: u64,
    /// Calls sent in these pipelines.
    pub calls: u64,
    /// Connections opened.
    pub connections: u64,
    /// Servers whose breaker is open at the moment: they receive no calls, only probes.
    pub open_breakers: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    sources: [AtomicU64; 4],
    pub(crate) errors: AtomicU64,
    pub(crate) failed_scripts: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) reloads: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) connections: AtomicU64,
}

impl Counters {
    pub(crate) fn count_decision(&self, source: Source) {
        let place = match source {
            Source::Home => 0,
            Source::Local => 1,
            Source::Open => 2,
            Source::Closed => 3,
        };
        add(&self.sources[place], 1);
    }

    pub(crate) fn stats(&self, open_breakers: usize) -> RedisStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let [home, local, open, closed] = &self.sources;
        RedisStats {
            home: read(home),
            local: read(local),
            open: read(open),
            closed: read(closed),
            errors: read(&self.errors),
            failed_scripts: read(&self.failed_scripts),
            retries: read(&self.retries),
            reloads: read(&self.reloads),
            batches: read(&self.batches),
            calls: read(&self.calls),
            connections: read(&self.connections),
            open_breakers,
        }
    }
}

pub(crate) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
