//! What limiters did, counted by name.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_kernel::Source;

/// What a limiter did with requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlugCounts {
    /// Requests that the limiter decided.
    pub decided: u64,
    /// Requests that this process decided since the store failed.
    pub local: u64,
    /// Requests that passed since the limiter failed.
    pub open: u64,
    /// Requests that were refused since the limiter failed.
    pub closed: u64,
}

/// The counters of one limiter.
#[derive(Debug, Default)]
pub(super) struct PlugCounter {
    decided: AtomicU64,
    local: AtomicU64,
    open: AtomicU64,
    closed: AtomicU64,
}

/// The counters of all limiters, by name. Names are those of the configuration, so they are few.
#[derive(Debug, Default)]
pub(super) struct PlugCounters(Mutex<BTreeMap<String, Arc<PlugCounter>>>);

impl PlugCounter {
    /// Counts a request by who decided it.
    pub(super) fn count(&self, source: Source) {
        let counter = match source {
            Source::Home => &self.decided,
            Source::Local => &self.local,
            Source::Open => &self.open,
            Source::Closed => &self.closed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> PlugCounts {
        let [decided, local, open, closed] =
            [&self.decided, &self.local, &self.open, &self.closed].map(|counter| counter.load(Ordering::Relaxed));
        PlugCounts { decided, local, open, closed }
    }
}

impl PlugCounters {
    /// Returns the counters of a limiter.
    pub(super) fn of(&self, name: &str) -> Arc<PlugCounter> {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(counters.entry(name.to_owned()).or_default())
    }

    pub(super) fn read(&self) -> BTreeMap<String, PlugCounts> {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counters.iter().map(|(name, counter)| (name.clone(), counter.read())).collect()
    }
}
