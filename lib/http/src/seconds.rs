//! The one place where times become whole seconds. They are rounded up, so that no client comes back early. Jitter, if
//! enabled, only adds to a wait.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_kernel::{Micros, Timestamp};

use crate::text::MAX;

/// The maximum jitter, in percent of a wait.
pub(crate) const MAX_JITTER: u8 = 10;

/// A random extension of the waits that clients receive, so that they do not all come back at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jitter {
    percent: u8,
    /// The last state of the generator. Clones share one sequence.
    drawn: Arc<AtomicU64>,
}

impl Jitter {
    /// Creates a jitter of up to `percent` percent of a wait, at most [`MAX_JITTER`]. Each one has a random seed.
    pub(crate) fn percent(percent: u8) -> Self {
        Self::seeded(percent, RandomState::new().hash_one(percent))
    }

    fn seeded(percent: u8, seed: u64) -> Self {
        Self { percent: percent.min(MAX_JITTER), drawn: Arc::new(AtomicU64::new(seed)) }
    }

    /// Draws the stretch of one response.
    #[inline]
    pub(crate) fn draw(&self) -> Stretch {
        if self.percent == 0 {
            return Stretch::NONE;
        }
        // SplitMix64: a counter whose values are mixed.
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let mut word = self.drawn.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Stretch(u128::from(self.percent) * (u128::from((word ^ (word >> 31)) >> 32) + 1))
    }
}

/// The extension of the waits of one response, in 2^-32 percent. All waits are extended by the same factor, so that
/// their order is preserved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch(u128);

impl Stretch {
    pub(crate) const NONE: Self = Self(0);

    /// Returns a time in whole seconds.
    #[inline]
    pub(crate) fn seconds(self, span: Micros) -> u64 {
        let seconds = span.secs_up();
        (seconds + self.more(seconds)).min(MAX)
    }

    /// Returns the moment `span` after `at`, in whole seconds since the epoch.
    pub(crate) fn moment(self, at: Timestamp, span: Micros) -> u64 {
        (Micros::new(at.plus(span).get()).secs_up() + self.more(span.secs_up())).min(MAX)
    }

    #[inline]
    fn more(self, seconds: u64) -> u64 {
        if self.0 == 0 {
            return 0;
        }
        // The result fits: it is at most a tenth of a time that was a u64 of microseconds.
        u64::try_from((u128::from(seconds) * self.0 / 100) >> 32).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up() {
        for (us, seconds) in
            [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2), (u64::MAX, 18_446_744_073_710)]
        {
            assert_eq!(Stretch::NONE.seconds(Micros::new(us)), seconds, "{us}");
        }
        let at = Timestamp::saturating(1_700_000_000_400_000);
        assert_eq!(Stretch::NONE.moment(at, Micros::new(600_000)), 1_700_000_001);
        assert_eq!(Stretch::NONE.moment(at, Micros::new(600_001)), 1_700_000_002);
        assert_eq!(Stretch::NONE.moment(at, Micros::ZERO), 1_700_000_001);
    }

    #[test]
    fn jitter_is_upward_bounded_and_different_each_time() {
        for percent in 0..=MAX_JITTER {
            for seed in 0..20 {
                let jitter = Jitter::seeded(percent, seed);
                let mut seen = std::collections::BTreeSet::new();
                for _ in 0..500 {
                    let stretch = jitter.draw();
                    let stretched = stretch.seconds(Micros::from_secs(1_000));
                    assert!((1_000..=1_000 + 10 * u64::from(percent)).contains(&stretched), "seed {seed}: {stretched}");
                    seen.insert(stretched);
                    // Whole seconds: short waits are unchanged.
                    assert_eq!(stretch.seconds(Micros::from_secs(9)), 9);
                    // The order of waits is preserved.
                    let mut last = 0;
                    for seconds in 0..200 {
                        let stretched = stretch.seconds(Micros::from_secs(seconds));
                        assert!(
                            stretched >= last
                                && stretched >= seconds
                                && stretched <= seconds + seconds * u64::from(percent) / 100
                        );
                        last = stretched;
                    }
                }
                // 500 draws from 10 values per percent miss few of them; a single value would mean that there is no
                // jitter.
                assert!(percent == 0 && seen.len() == 1 || seen.len() > 5 * usize::from(percent), "seed {seed}");
            }
        }
        assert_eq!(Jitter::percent(200).percent, MAX_JITTER);
        assert_eq!(Jitter::seeded(10, 1).draw().seconds(Micros::new(u64::MAX)).min(MAX) / 10_000_000_000_000, 1);
    }

    #[test]
    fn clones_draw_from_one_row() {
        let one = Jitter::seeded(10, 7);
        let other = one.clone();
        let drawn: Vec<u128> =
            (0..10).map(|place| if place % 2 == 0 { one.draw().0 } else { other.draw().0 }).collect();
        let again = Jitter::seeded(10, 7);
        assert_eq!(drawn, (0..10).map(|_| again.draw().0).collect::<Vec<_>>());
    }
}
