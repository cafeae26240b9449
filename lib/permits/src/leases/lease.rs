//! One lease as its holder knows it: until when it is certain to last. Law: a lost lease stays lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The value that stands for a lost lease instead of a time.
const LOST: u64 = 0;

/// A source of times by the monotonic clock of this process, in microseconds since its start, never 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseClock(Instant);

impl LeaseClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> u64 {
        micros(self.0.elapsed()) + 1
    }
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX / 2)
}

/// Returns for how long, in microseconds, a holder relies on a lease that began when the call for it was sent. This is
/// less than the server's time by a hundredth and 2 ms: the two clocks may run at different rates, and a server may
/// read its clock a moment before it runs a call.
pub(crate) fn certain_span(lease: Duration) -> u64 {
    let lease = micros(lease);
    lease - lease / 100 - 2_000
}

#[derive(Debug)]
pub(crate) struct Lease {
    /// The key in Redis.
    pub(crate) key: Arc<[u8]>,
    /// The unique number of this lease.
    pub(crate) id: u128,
    clock: LeaseClock,
    /// The time when the lease ends if it is not renewed, or [`LOST`].
    until: AtomicU64,
}

impl Lease {
    pub(crate) fn new(key: Arc<[u8]>, id: u128, clock: LeaseClock, until: u64) -> Self {
        Self { key, id, clock, until: AtomicU64::new(until) }
    }

    pub(crate) fn is_lost(&self) -> bool {
        let now = self.clock.now();
        let until = self.until.load(Ordering::Acquire);
        if now < until {
            return false;
        }
        // A lease once reported as lost must stay lost: a concurrent renewal either sees this mark or came before it.
        match self.until.compare_exchange(until, LOST, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(now) => now == LOST,
        }
    }

    /// Returns the time left; zero if the lease is lost.
    pub(crate) fn left(&self) -> u64 {
        self.until.load(Ordering::Acquire).saturating_sub(self.clock.now())
    }

    /// Extends the lease until the given time, unless it is lost already. Returns whether it was extended.
    pub(crate) fn renew(&self, until: u64) -> bool {
        let later = |old: u64| (old != LOST && self.clock.now() < old).then(|| old.max(until));
        let renewed = self.until.fetch_update(Ordering::AcqRel, Ordering::Acquire, later).is_ok();
        if !renewed {
            self.lose();
        }
        renewed
    }

    pub(crate) fn lose(&self) {
        self.until.store(LOST, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(left: u64) -> Lease {
        let clock = LeaseClock::start();
        Lease::new(b"k".as_slice().into(), 1, clock, clock.now() + left)
    }

    #[test]
    fn a_lease_is_renewed_while_it_lasts_and_never_after() {
        let hour = 3_600_000_000;
        let held = lease(hour);
        assert!(!held.is_lost() && held.left() <= hour);
        assert!(held.renew(held.clock.now() + 2 * hour));
        assert!(held.left() > hour);
        let over = lease(0);
        assert!(!over.renew(over.clock.now() + hour));
        assert!(over.is_lost() && over.left() == 0);
        held.lose();
        assert!(!held.renew(held.clock.now() + hour) && held.is_lost());
    }

    #[test]
    fn a_renewal_of_before_does_not_shorten_a_later_one() {
        let held = lease(3_600_000_000);
        assert!(held.renew(5));
        assert!(!held.is_lost());
    }

    #[test]
    fn a_holder_counts_on_less_than_the_server_gives() {
        assert_eq!(certain_span(Duration::from_millis(100)), 97_000);
        assert_eq!(certain_span(Duration::from_secs(30)), 29_698_000);
    }
}
