//! Permits held in this process: one count per key, in shards. Law: a key is stored only while it has a place taken, so
//! memory grows and shrinks with the work in flight.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;

/// The number of shards: more than the number of cores, so that they seldom contend; a power of two.
const SHARDS: usize = 64;
/// A table of at least this capacity is shrunk once less than an eighth of it is used.
const WORTH_SHRINKING: usize = 256;

/// Hashed with a random seed, so that clients cannot choose keys that collide in a shard or in its table.
type CountShard = Mutex<HashMap<Arc<[u8]>, u32, RandomState>>;

#[derive(Debug)]
pub(crate) struct PermitCounts {
    shards: Box<[CountShard]>,
    choice: RandomState,
    /// The number of keys in all shards.
    keys: AtomicUsize,
}

/// A place that is taken until this value is dropped.
#[derive(Debug)]
pub(crate) struct PermitPlace {
    counts: Arc<PermitCounts>,
    key: Arc<[u8]>,
}

impl PermitCounts {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| CountShard::default()).collect(),
            choice: RandomState::default(),
            keys: AtomicUsize::new(0),
        }
    }

    /// Takes one of `most` places under the key. Returns `None` if no place is free, or if a new key would exceed
    /// `most_keys`.
    pub(crate) fn take(self: &Arc<Self>, key: &[u8], most: u32, most_keys: usize) -> Option<PermitPlace> {
        let mut shard = self.shard(key);
        if let Some(count) = shard.get_mut(key) {
            if *count >= most {
                return None;
            }
            *count = count.checked_add(1)?;
            let (key, _) = shard.get_key_value(key)?;
            return Some(PermitPlace { counts: self.clone(), key: key.clone() });
        }
        let room = |keys: usize| (keys < most_keys).then_some(keys + 1);
        if most == 0 || self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            return None;
        }
        let key: Arc<[u8]> = key.into();
        shard.insert(key.clone(), 1);
        Some(PermitPlace { counts: self.clone(), key })
    }

    /// Returns the number of places taken under the key.
    pub(crate) fn count(&self, key: &[u8]) -> u32 {
        self.shard(key).get(key).copied().unwrap_or(0)
    }

    /// Returns the number of keys with a place taken.
    pub(crate) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    fn free(&self, key: &[u8]) {
        let mut shard = self.shard(key);
        let Some(count) = shard.get_mut(key) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        shard.remove(key);
        self.keys.fetch_sub(1, Ordering::Relaxed);
        if shard.capacity() >= WORTH_SHRINKING && shard.len() < shard.capacity() / 8 {
            let len = shard.len();
            shard.shrink_to(2 * len);
        }
    }

    /// Locks the shard of the key. A poisoned lock is used all the same: nothing can panic in the middle of a change,
    /// so the counts are consistent.
    fn shard(&self, key: &[u8]) -> MutexGuard<'_, HashMap<Arc<[u8]>, u32, RandomState>> {
        let place = self.choice.hash_one(key) as usize % SHARDS;
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PermitPlace {
    fn drop(&mut self) {
        self.counts.free(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_gone_with_its_last_place() {
        let counts = Arc::new(PermitCounts::new());
        let places: Vec<_> = (0..3).map(|_| counts.take(b"k", 3, 1).unwrap()).collect();
        assert!(counts.take(b"k", 3, 1).is_none());
        assert_eq!((counts.count(b"k"), counts.keys()), (3, 1));
        drop(places);
        assert_eq!((counts.count(b"k"), counts.keys()), (0, 0));
        assert!(counts.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }

    #[test]
    fn the_keys_are_bounded_and_existing_keys_still_get_permits() {
        let counts = Arc::new(PermitCounts::new());
        let places: Vec<_> = (0..100_u32).map(|key| counts.take(&key.to_le_bytes(), 2, 100).unwrap()).collect();
        assert!(counts.take(b"one more", 2, 100).is_none());
        let again = counts.take(&7_u32.to_le_bytes(), 2, 100);
        assert!(again.is_some());
        drop((places, again));
        assert!(counts.take(b"one more", 2, 100).is_some());
    }

    #[test]
    fn tables_shrink_when_a_flood_is_over() {
        let counts = Arc::new(PermitCounts::new());
        let size =
            |counts: &PermitCounts| counts.shards.iter().map(|shard| shard.lock().unwrap().capacity()).sum::<usize>();
        let flood: Vec<_> = (0..100_000_u32).map(|key| counts.take(&key.to_le_bytes(), 1, 100_000).unwrap()).collect();
        assert!(size(&counts) >= 100_000);
        drop(flood);
        assert!(size(&counts) < SHARDS * WORTH_SHRINKING, "{}", size(&counts));
    }

    #[test]
    fn a_poisoned_lock_still_counts() {
        let counts = Arc::new(PermitCounts::new());
        let place = counts.take(b"k", 1, 1).unwrap();
        let other = counts.clone();
        let died = std::thread::spawn(move || {
            let _locked = other.shard(b"k");
            panic!("on purpose");
        });
        assert!(died.join().is_err());
        assert!(counts.take(b"k", 1, 1).is_none());
        drop(place);
        assert!(counts.take(b"k", 1, 1).is_some());
    }
}
