//! Whether it is worth asking a server. After 20 failures in a row, or 250 ms of nothing else, the breaker
//! opens and calls no longer touch the network; only a probe closes it. A success forgets the failures before
//! it, and costs a healthy store one read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const MOST_FAILURES: u32 = 20;
const LONGEST_FAILING: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    open: AtomicBool,
    /// Failures since the last success.
    failures: AtomicU32,
    /// When the first of them was.
    since: Mutex<Option<Instant>>,
}

impl Breaker {
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// The server answered.
    pub(crate) fn success(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
            *self.since() = None;
        }
    }

    /// The probe found the server answering.
    pub(crate) fn close(&self) {
        self.success();
        self.open.store(false, Ordering::Relaxed);
    }

    /// The server did not answer. Says whether this opened the breaker, so that one caller starts the probe.
    pub(crate) fn failure(&self, now: Instant) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let since = *self.since().get_or_insert(now);
        let long = now.saturating_duration_since(since) >= LONGEST_FAILING;
        (failures >= MOST_FAILURES || long) && !self.open.swap(true, Ordering::Relaxed)
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
