//! One lease, as its holder knows it: until when it surely holds. Law: what is lost stays lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// In place of a time: the lease is over.
const LOST: u64 = 0;

/// Times by this process's monotonic clock, in microseconds since it began, never 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch(Instant);

impl Watch {
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

/// For how long a holder counts on a lease that began when the call for it was sent, in microseconds. It is less than
/// the server's by a hundredth and 2 ms: the two clocks may not run alike, and a server may look at its own a moment
/// before it runs a call.
pub(crate) fn surely(lease: Duration) -> u64 {
    let lease = micros(lease);
    lease - lease / 100 - 2_000
}

#[derive(Debug)]
pub(crate) struct Lease {
    /// Where it lies in Redis.
    pub(crate) key: Arc<[u8]>,
    /// Unlike any other's.
    pub(crate) id: u128,
    watch: Watch,
    /// When it is over if it is not renewed, or [`LOST`].
    until: AtomicU64,
}

impl Lease {
    pub(crate) fn new(key: Arc<[u8]>, id: u128, watch: Watch, until: u64) -> Self {
        Self { key, id, watch, until: AtomicU64::new(until) }
    }

    pub(crate) fn is_lost(&self) -> bool {
        let now = self.watch.now();
        let until = self.until.load(Ordering::Acquire);
        if now < until {
            return false;
        }
        // Whoever saw it lost must see that again: a renewal that comes at the same time sees it too, or came first.
        match self.until.compare_exchange(until, LOST, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(now) => now == LOST,
        }
    }

    /// What is left of it; nothing if it is lost.
    pub(crate) fn left(&self) -> u64 {
        self.until.load(Ordering::Acquire).saturating_sub(self.watch.now())
    }

    /// It lasts until then, unless it is lost already; says whether it does.
    pub(crate) fn renew(&self, until: u64) -> bool {
        let later = |old: u64| (old != LOST && self.watch.now() < old).then(|| old.max(until));
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
        let watch = Watch::start();
        Lease::new(b"k".as_slice().into(), 1, watch, watch.now() + left)
    }

    #[test]
    fn a_lease_is_renewed_while_it_lasts_and_never_after() {
        let hour = 3_600_000_000;
        let held = lease(hour);
        assert!(!held.is_lost() && held.left() <= hour);
        assert!(held.renew(held.watch.now() + 2 * hour));
        assert!(held.left() > hour);
        let over = lease(0);
        assert!(!over.renew(over.watch.now() + hour));
        assert!(over.is_lost() && over.left() == 0);
        held.lose();
        assert!(!held.renew(held.watch.now() + hour) && held.is_lost());
    }

    #[test]
    fn a_renewal_of_before_does_not_shorten_a_later_one() {
        let held = lease(3_600_000_000);
        assert!(held.renew(5));
        assert!(!held.is_lost());
    }

    #[test]
    fn a_holder_counts_on_less_than_the_server_gives() {
        assert_eq!(surely(Duration::from_millis(100)), 97_000);
        assert_eq!(surely(Duration::from_secs(30)), 29_698_000);
    }
}
