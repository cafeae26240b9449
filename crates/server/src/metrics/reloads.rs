//! What came of reading the policy file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// It is in use.
    Ok,
    /// It is wrong, and what was in use stays.
    Invalid,
    /// It says what is in use already.
    Unchanged,
}

impl Read {
    const ALL: [Self; 3] = [Self::Ok, Self::Invalid, Self::Unchanged];

    /// The word for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Invalid => "invalid",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Readings of the policy file, counted.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    results: [AtomicU64; Read::ALL.len()],
    invalid: AtomicBool,
    /// Microseconds since the epoch; zero if it never was.
    last_ok: AtomicU64,
}

impl Reloads {
    /// Counts a reading.
    pub(crate) fn count(&self, read: Read) {
        self.results[read as usize].fetch_add(1, Ordering::Relaxed);
        self.invalid.store(read == Read::Invalid, Ordering::Relaxed);
        if read != Read::Invalid {
            self.first();
        }
    }

    /// The file was right when the server started, which is no reload.
    pub(crate) fn first(&self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_ok.store(u64::try_from(since.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn results(&self) -> [(&'static str, u64); Read::ALL.len()] {
        Read::ALL.map(|read| (read.name(), self.results[read as usize].load(Ordering::Relaxed)))
    }

    pub(super) fn is_invalid(&self) -> bool {
        self.invalid.load(Ordering::Relaxed)
    }

    /// In seconds since the epoch.
    pub(super) fn last_ok(&self) -> f64 {
        self.last_ok.load(Ordering::Relaxed) as f64 / 1e6
    }
}
