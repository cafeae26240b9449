//! Failures in the log: at the configured level and at most once a second, so that a store that is down does not
//! fill the disk.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing::Level;

/// The log for the failures of a limiter.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    level: Option<Level>,
    told: Arc<Told>,
}

#[derive(Debug)]
struct Told {
    began: Instant,
    /// The second since the start in which the last message was logged, counted from 1.
    last: AtomicU64,
    /// The number of messages suppressed since then.
    kept: AtomicU64,
}

impl Default for Log {
    fn default() -> Self {
        Self::at(Some(Level::ERROR))
    }
}

impl Log {
    pub(crate) fn at(level: Option<Level>) -> Self {
        let told = Told { began: Instant::now(), last: AtomicU64::new(0), kept: AtomicU64::new(0) };
        Self { level, told: Arc::new(told) }
    }

    pub(crate) fn tell(&self, what: &str, why: &dyn fmt::Display) {
        let Some(level) = self.level else { return };
        let second = self.told.began.elapsed().as_secs() + 1;
        let last = self.told.last.load(Ordering::Relaxed);
        if last == second
            || self.told.last.compare_exchange(last, second, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            self.told.kept.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.write(level, what, why);
    }

    /// Logs a message that occurs at most once, regardless of other messages in this second.
    pub(crate) fn tell_now(&self, what: &str, why: &dyn fmt::Display) {
        if let Some(level) = self.level {
            self.write(level, what, why);
        }
    }

    fn write(&self, level: Level, what: &str, why: &dyn fmt::Display) {
        let kept = self.told.kept.swap(0, Ordering::Relaxed);
        match level {
            Level::ERROR => tracing::error!(kept, "{what}: {why}"),
            Level::WARN => tracing::warn!(kept, "{what}: {why}"),
            Level::INFO => tracing::info!(kept, "{what}: {why}"),
            Level::DEBUG => tracing::debug!(kept, "{what}: {why}"),
            Level::TRACE => tracing::trace!(kept, "{what}: {why}"),
        }
    }
}
