//! A circuit breaker for one server. After 20 consecutive failures, or 250 ms without a success, the breaker opens
//! and calls no longer use the network; only a probe closes it. A success clears the earlier failures, and costs a
//! healthy store one atomic read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const MAX_FAILURES: u32 = 20;
const MAX_FAILING: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    open: AtomicBool,
    /// Failures since the last success.
    failures: AtomicU32,
    /// The time of the first of them.
    since: Mutex<Option<Instant>>,
}

impl Breaker {
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Records that the server answered.
    pub(crate) fn success(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
            *self.since() = None;
        }
    }

    /// Closes the breaker because the probe got an answer.
    pub(crate) fn close(&self) {
        self.success();
        self.open.store(false, Ordering::Relaxed);
    }

    /// Records that the server did not answer. Returns whether this opened the breaker, so that one caller starts
    /// the probe.
    pub(crate) fn failure(&self, now: Instant) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let since = *self.since().get_or_insert(now);
        let long = now.saturating_duration_since(since) >= MAX_FAILING;
        (failures >= MAX_FAILURES || long) && !self.open.swap(true, Ordering::Relaxed)
    }

    fn since(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_failures_open_it_once() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        let opened: Vec<u32> = (1..=40).filter(|_| breaker.failure(now)).collect();
        assert_eq!(opened, [20]);
        assert!(breaker.is_open());
        breaker.close();
        assert!(!breaker.is_open());
        assert!(!breaker.failure(now), "the count starts anew");
    }

    #[test]
    fn a_quarter_second_of_failing_opens_it() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        assert!(!breaker.failure(now));
        assert!(!breaker.failure(now + Duration::from_millis(249)));
        assert!(breaker.failure(now + Duration::from_millis(250)));
    }

    #[test]
    fn a_success_between_keeps_it_closed() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for step in 0..100 {
            assert!(!breaker.failure(now + Duration::from_millis(step * 100)));
            breaker.success();
        }
        assert!(!breaker.is_open());
    }
}
