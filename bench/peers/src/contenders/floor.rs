//! The floor: the least a limiter on a hash table does. It is none: no key can be added while
//! others are checked, nothing expires.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use quanta::Clock;

use super::{Contender, Limiter};
use crate::keys::{LENGTH, inline};
use crate::workload::Limit;

pub(crate) const FLOOR: Contender = Contender {
    name: "floor",
    package: None,
    what: "no limiter: hashbrown look-up with foldhash, clock, compare-and-swap of one word",
    most_keys: u64::MAX,
    slow: 1,
    build: |limit, _| Box::new(Floor::new(limit)),
};

struct Floor {
    /// When all that was allowed is paid back, in nanoseconds since the start.
    words: HashMap<Key, AtomicU64, RandomState>,
    clock: Clock,
    start: u64,
    interval: u64,
    tolerance: u64,
}

impl Floor {
    fn new(limit: Limit) -> Self {
        let interval = u64::from(limit.seconds) * 1_000_000_000 / u64::from(limit.count);
        let tolerance = interval * u64::from(limit.count - 1);
        let clock = Clock::new();
        let start = nanos(&clock);
        Self { words: HashMap::with_hasher(RandomState::default()), clock, start, interval, tolerance }
    }
}

impl Limiter for Floor {
    #[inline]
    fn check(&self, key: &str) -> bool {
        let now = nanos(&self.clock).saturating_sub(self.start);
        let Some(word) = self.words.get(&Key(*inline(key))) else { return false };
        let mut tat = word.load(Ordering::Relaxed);
        loop {
            if now < tat.saturating_sub(self.tolerance) {
                return false;
            }
            let next = tat.max(now) + self.interval;
            match word.compare_exchange_weak(tat, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => tat = seen,
            }
        }
    }

    fn insert(&mut self, key: &str) {
        let now = nanos(&self.clock).saturating_sub(self.start);
        self.words.insert(Key(*inline(key)), AtomicU64::new(now + self.interval));
    }
}

/// The clock as governor reads it.
#[inline]
fn nanos(clock: &Clock) -> u64 {
    clock.delta_as_nanos(0, clock.raw())
}

/// Hashed in one go: an array writes its length first. A `u128` would be aligned to 16 bytes and
/// make every entry a third larger.
#[derive(PartialEq, Eq)]
struct Key([u8; LENGTH]);

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(u128::from_ne_bytes(self.0));
    }
}
