//! A percentage of a policy: it is raised when a key comes that near to a limit, and falls when no key has been nearly
//! as near for a while. So traffic around the percentage raises one alert instead of thousands.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate_kernel::{Micros, Timestamp};

/// How long no key may have been near before an alert falls.
pub(super) const QUIET: Micros = Micros::from_secs(60);
/// The number of percentage points by which a key must be further away before it is no longer near.
const HYSTERESIS: u8 = 10;

/// A percentage of a policy.
#[derive(Debug)]
pub(super) struct AlertLevel {
    pub(super) percent: u8,
    raised: AtomicBool,
    /// Whether a key was near in this second.
    seen: AtomicBool,
    /// The end of the last second in which a key was near, by the clock that decides.
    last: AtomicU64,
    /// The number of times it was raised.
    total: AtomicU64,
}

impl AlertLevel {
    pub(super) fn new(percent: u8) -> Self {
        Self {
            percent,
            raised: AtomicBool::default(),
            seen: AtomicBool::default(),
            last: AtomicU64::default(),
            total: AtomicU64::default(),
        }
    }

    /// Returns the percentage above which a key keeps it raised: ten points below; for 20 and less, half.
    pub(super) fn holds(&self) -> u8 {
        self.percent.saturating_sub(HYSTERESIS).max(self.percent / 2)
    }

    /// Returns whether a key above the percentage would change anything.
    #[inline]
    pub(super) fn may_rise(&self) -> bool {
        !self.raised.load(Ordering::Relaxed)
    }

    /// Returns whether a key that is near would change anything in this second.
    #[inline]
    pub(super) fn is_unseen(&self) -> bool {
        !self.seen.load(Ordering::Relaxed)
    }

    /// Records that a key is near.
    #[inline]
    pub(super) fn see(&self) {
        if self.is_unseen() {
            self.seen.store(true, Ordering::Relaxed);
        }
    }

    /// Records that a key is above the percentage; returns whether this raised it.
    #[inline]
    pub(super) fn rise(&self) -> bool {
        let raised = self.may_rise() && !self.raised.swap(true, Ordering::Relaxed);
        if raised {
            self.total.fetch_add(1, Ordering::Relaxed);
        }
        raised
    }

    /// Ends a second; returns whether the level fell.
    pub(super) fn second(&self, now: Timestamp) -> bool {
        if self.seen.swap(false, Ordering::Relaxed) {
            self.last.store(now.get(), Ordering::Relaxed);
            return false;
        }
        let last = Timestamp::saturating(self.last.load(Ordering::Relaxed));
        now.since(last) >= QUIET && self.lower()
    }

    /// Lowers it; returns whether it was raised.
    pub(super) fn lower(&self) -> bool {
        self.raised.load(Ordering::Relaxed) && self.raised.swap(false, Ordering::Relaxed)
    }

    /// Returns whether it is raised, as a number, and how often it was.
    pub(super) fn counts(&self) -> (u64, u64) {
        (u64::from(self.raised.load(Ordering::Relaxed)), self.total.load(Ordering::Relaxed))
    }
}
