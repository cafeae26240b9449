//! The bans: which key is banned under which policy, until when, and how many bans it had in a row.
//!
//! A ban lasts twice as long as the one before it, up to a longest, unless the key was not banned again for the
//! duration of the longest ban since the last one ended. The bytes of bans are counted as a part of those for keys. If
//! there is no room for another ban, bans that have ended are dropped, the first to end first; a ban in force never is.
//! If that is not enough, no ban begins: the limits refuse as before.
//!
//! A ban that ends later than its policy's longest ban would, if it began now, was begun by a clock that was ahead. It
//! is shortened to that.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tollgate_config::Ban;
use tollgate_kernel::{Micros, Timestamp};

use crate::persist::Note;

/// The bytes a ban takes besides its key: its places in a table and in a tree, both of which may be half empty, and the
/// overhead of each allocation.
const BAN: usize = 3 * size_of::<(Arc<[u8]>, BanRecord)>()
    + 2 * size_of::<(Timestamp, Arc<str>, Arc<[u8]>)>()
    + 2 * size_of::<usize>()
    + 32;

/// The bans of a server.
#[derive(Debug)]
pub(crate) struct Bans {
    table: RwLock<BanTable>,
    /// The number of bans: most servers have none, and skip the lookup.
    count: AtomicUsize,
    /// The bytes that bans may take.
    cap: usize,
    /// The number of bans that were not begun for lack of room.
    without_room: AtomicU64,
}

/// There is no room for another ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BanCapacityError;

#[derive(Debug, Default)]
struct BanTable {
    by_policy: HashMap<Arc<str>, HashMap<Arc<[u8]>, BanRecord>>,
    /// The same bans, ordered by their ends.
    by_end: BTreeSet<(Timestamp, Arc<str>, Arc<[u8]>)>,
    bytes: usize,
}

/// A ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanRecord {
    /// The time from which the key is no longer banned.
    pub until: Timestamp,
    /// The number of the ban in a row, counted from 1.
    pub level: u32,
}

impl Bans {
    /// Returns an empty set of bans with a memory cap of `cap` bytes.
    pub(crate) fn with_room(cap: usize) -> Self {
        let (count, without_room) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { table: RwLock::default(), count, cap, without_room }
    }

    /// Restores all bans that were persisted across a restart.
    pub(crate) fn restore(&self, notes: Vec<Note>) {
        let mut table = self.write();
        for note in notes {
            let Note::Ban { policy, key, until, level } = note else { continue };
            if level == 0 {
                table.remove(&policy, &key);
            } else {
                table.put(&policy, &key, BanRecord { until, level });
            }
        }
        self.count.store(table.by_end.len(), Ordering::Release);
    }

    /// Returns how much longer a key is banned, and the ban if it had to be corrected; `None` if the key is not banned.
    pub(crate) fn left(
        &self,
        policy: &str,
        key: &[u8],
        ban: &Ban,
        now: Timestamp,
    ) -> Option<(Micros, Option<BanRecord>)> {
        let banned = self.get(policy, key).filter(|banned| now < banned.until)?;
        let latest = now.plus(ban.most);
        if banned.until <= latest {
            return Some((banned.until.since(now), None));
        }
        let corrected = BanRecord { until: latest, ..banned };
        self.write().put(policy, key, corrected);
        Some((ban.most, Some(corrected)))
    }

    /// Returns a key's last ban, which may have ended.
    pub(crate) fn get(&self, policy: &str, key: &[u8]) -> Option<BanRecord> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.read().by_policy.get(policy)?.get(key).copied()
    }

    /// Bans a key, unless it is banned already. Returns the ban that began.
    pub(crate) fn begin(
        &self,
        policy: &str,
        key: &[u8],
        ban: &Ban,
        now: Timestamp,
    ) -> Result<Option<BanRecord>, BanCapacityError> {
        let mut table = self.write();
        let last = table.by_policy.get(policy).and_then(|keys| keys.get(key)).copied();
        let level = match last {
            // Another refusal began a ban first.
            Some(last) if now < last.until => return Ok(None),
            Some(last) if now < last.until.plus(ban.most) => last.level.saturating_add(1),
            _ => 1,
        };
        let banned = BanRecord { until: now.plus(duration_of(ban, level)), level };
        let has_room = last.is_some() || table.make_room(bytes(key), self.cap, now);
        if has_room {
            table.put(policy, key, banned);
        }
        self.count.store(table.by_end.len(), Ordering::Release);
        if !has_room {
            self.without_room.fetch_add(1, Ordering::Relaxed);
            return Err(BanCapacityError);
        }
        Ok(Some(banned))
    }

    /// Returns the bytes that bans take.
    pub(crate) fn bytes(&self) -> usize {
        self.read().bytes
    }

    /// Returns the number of bans that were not begun for lack of room.
    pub(crate) fn without_room(&self) -> u64 {
        self.without_room.load(Ordering::Relaxed)
    }

    /// Passes all bans to `sink`, in the order in which they end: policy, key and ban.
    pub(crate) fn each(&self, sink: &mut dyn FnMut(&str, &[u8], BanRecord)) {
        let table = self.read();
        for (until, policy, key) in &table.by_end {
            let level = table.by_policy.get(policy).and_then(|keys| keys.get(key)).map_or(1, |banned| banned.level);
            sink(policy, key, BanRecord { until: *until, level });
        }
    }

    /// Removes a key's ban and its history of bans. Returns whether there was one.
    pub(crate) fn lift(&self, policy: &str, key: &[u8]) -> bool {
        if self.get(policy, key).is_none() {
            return false;
        }
        let mut table = self.write();
        let was_there = table.remove(policy, key);
        self.count.store(table.by_end.len(), Ordering::Release);
        was_there
    }

    /// Returns the number of keys that are banned at a time.
    pub(crate) fn banned(&self, now: Timestamp) -> usize {
        if self.count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        self.read().by_end.iter().rev().take_while(|(until, ..)| now < *until).count()
    }

    fn read(&self) -> RwLockReadGuard<'_, BanTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BanTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(key: &[u8]) -> usize {
    BAN + key.len()
}

/// Returns the duration of the ban of a level.
fn duration_of(ban: &Ban, level: u32) -> Micros {
    let times = 1u64.checked_shl(level.saturating_sub(1)).unwrap_or(u64::MAX);
    Micros::new(ban.first.get().saturating_mul(times)).min(ban.most)
}

impl BanTable {
    /// Returns whether there is room for `bytes` more, after dropping bans that have ended if necessary.
    fn make_room(&mut self, bytes: usize, cap: usize, now: Timestamp) -> bool {
        while self.bytes + bytes > cap {
            let ended = self.by_end.first().is_some_and(|(until, ..)| *until <= now);
            let Some((_, policy, key)) = ended.then(|| self.by_end.pop_first()).flatten() else { return false };
            self.forget(&policy, &key);
        }
        true
    }

    fn put(&mut self, policy: &str, key: &[u8], banned: BanRecord) {
        self.remove(policy, key);
        let policy = match self.by_policy.get_key_value(policy) {
            Some((policy, _)) => Arc::clone(policy),
            None => policy.into(),
        };
        let key: Arc<[u8]> = key.into();
        self.by_end.insert((banned.until, Arc::clone(&policy), Arc::clone(&key)));
        self.bytes += bytes(&key);
        self.by_policy.entry(policy).or_default().insert(key, banned);
    }

    fn remove(&mut self, policy: &str, key: &[u8]) -> bool {
        let Some((policy, key, banned)) = self.forget(policy, key) else { return false };
        self.by_end.remove(&(banned.until, policy, key))
    }

    /// Removes a key from the first table only.
    fn forget(&mut self, policy: &str, key: &[u8]) -> Option<(Arc<str>, Arc<[u8]>, BanRecord)> {
        let name = Arc::clone(self.by_policy.get_key_value(policy)?.0);
        let keys = self.by_policy.get_mut(policy)?;
        let (key, banned) = keys.remove_entry(key)?;
        self.bytes = self.bytes.saturating_sub(bytes(&key));
        if keys.is_empty() {
            self.by_policy.remove(policy);
        }
        Some((name, key, banned))
    }
}
