//! Failures in the log: at the configured level and at most once a second, so that a store that is down does not
//! fill the disk.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing::Level;

/// The log for the failures of a limiter.
#[derive(Clone, Debug)]
pub(crate) struct FailureLog {
    level: Option<Level>,
    throttle: Arc<LogThrottle>,
}

#[derive(Debug)]
struct LogThrottle {
    began: Instant,
    /// The second since the start in which the last message was logged, counted from 1.
    last: AtomicU64,
    /// The number of messages suppressed since then.
    kept: AtomicU64,
}

impl Default for FailureLog {
    fn default() -> Self {
        Self::at(Some(Level::ERROR))
    }
}

impl FailureLog {
    pub(crate) fn at(level: Option<Level>) -> Self {
        let throttle = LogThrottle { began: Instant::now(), last: AtomicU64::new(0), kept: AtomicU64::new(0) };
        Self { level, throttle: Arc::new(throttle) }
    }

    /// Logs a failure, unless another one was logged in this second.
    pub(crate) fn report(&self, what: &str, why: &dyn fmt::Display) {
        let Some(level) = self.level else { return };
        let second = self.throttle.began.elapsed().as_secs() + 1;
        let last = self.throttle.last.load(Ordering::Relaxed);
        if last == second
            || self.throttle.last.compare_exchange(last, second, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            self.throttle.kept.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.write(level, what, why);
    }

    /// Logs a message that occurs at most once, regardless of other messages in this second.
    pub(crate) fn report_now(&self, what: &str, why: &dyn fmt::Display) {
        if let Some(level) = self.level {
            self.write(level, what, why);
        }
    }

    fn write(&self, level: Level, what: &str, why: &dyn fmt::Display) {
        let kept = self.throttle.kept.swap(0, Ordering::Relaxed);
        match level {
            Level::ERROR => tracing::error!(kept, "{what}: {why}"),
            Level::WARN => tracing::warn!(kept, "{what}: {why}"),
            Level::INFO => tracing::info!(kept, "{what}: {why}"),
            Level::DEBUG => tracing::debug!(kept, "{what}: {why}"),
            Level::TRACE => tracing::trace!(kept, "{what}: {why}"),
        }
    }
}
