//! Results of reading the policy file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The result of reading the policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReloadResult {
    /// The file is in use.
    Ok,
    /// The file is not valid, and what was in use stays in use.
    Invalid,
    /// The file says what is in use already.
    Unchanged,
}

impl ReloadResult {
    const ALL: [Self; 3] = [Self::Ok, Self::Invalid, Self::Unchanged];

    /// Returns the name of the result.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Invalid => "invalid",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Counters of the results.
#[derive(Debug, Default)]
pub(crate) struct ReloadCounters {
    results: [AtomicU64; ReloadResult::ALL.len()],
    invalid: AtomicBool,
    /// The time of the last valid reading in microseconds since the epoch; zero if there was none.
    last_ok: AtomicU64,
}

impl ReloadCounters {
    /// Counts a reading.
    pub(crate) fn count(&self, read: ReloadResult) {
        self.results[read as usize].fetch_add(1, Ordering::Relaxed);
        self.invalid.store(read == ReloadResult::Invalid, Ordering::Relaxed);
        if read != ReloadResult::Invalid {
            self.first();
        }
    }

    /// Records that the file was valid when the server started, which does not count as a reload.
    pub(crate) fn first(&self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_ok.store(u64::try_from(since.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn results(&self) -> [(&'static str, u64); ReloadResult::ALL.len()] {
        ReloadResult::ALL.map(|read| (read.name(), self.results[read as usize].load(Ordering::Relaxed)))
    }

    pub(super) fn is_invalid(&self) -> bool {
        self.invalid.load(Ordering::Relaxed)
    }

    /// Returns the time of the last valid reading, in seconds since the epoch.
    pub(super) fn last_ok(&self) -> f64 {
        self.last_ok.load(Ordering::Relaxed) as f64 / 1e6
    }
}
