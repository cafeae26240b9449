//! Who is banned under which policy, until when, and for the how manieth time.
//!
//! A ban lasts twice as long as the one before it, up to a longest, unless its key kept quiet for the longest
//! ban since the last one ended. There are at most so many: beyond, the one that ends first is forgotten, and
//! those that have ended are the first of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tollgate_config::Ban;
use tollgate_core::{Micros, Timestamp};

use crate::data::Note;

/// The most keys that are remembered.
pub(super) const MOST: usize = 100_000;

/// The bans of a server.
#[derive(Debug)]
pub(crate) struct Bans {
    table: RwLock<Table>,
    /// How many there are: most servers have none, and need not look.
    count: AtomicUsize,
    most: usize,
}

#[derive(Debug, Default)]
struct Table {
    by_policy: HashMap<Arc<str>, HashMap<Arc<[u8]>, Banned>>,
    /// The same by their ends.
    by_end: BTreeSet<(Timestamp, Arc<str>, Arc<[u8]>)>,
}

/// A ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Banned {
    /// From then on the key is not banned any more.
    pub(crate) until: Timestamp,
    /// The how manieth ban in a row it is.
    pub(crate) level: u32,
}

impl Default for Bans {
    fn default() -> Self {
        Self::with_room(MOST)
    }
}

impl Bans {
    /// At most so many.
    pub(super) fn with_room(most: usize) -> Self {
        Self { table: RwLock::default(), count: AtomicUsize::new(0), most }
    }

    /// What was kept over a restart.
    pub(crate) fn restore(&self, notes: Vec<Note>) {
        let mut table = self.write();
        for note in notes {
            let Note::Ban { policy, key, until, level } = note else { continue };
            if level == 0 {
                table.remove(&policy, &key);
            } else {
                table.put(&policy, &key, Banned { until, level }, self.most);
            }
        }
        self.count.store(table.by_end.len(), Ordering::Release);
    }

    /// How much longer a key is banned; nothing if it is not.
    pub(crate) fn left(&self, policy: &str, key: &[u8], now: Timestamp) -> Option<Micros> {
        let banned = self.get(policy, key)?;
        (now < banned.until).then(|| banned.until.since(now))
    }

    /// A key's last ban, which may have ended.
    pub(crate) fn get(&self, policy: &str, key: &[u8]) -> Option<Banned> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.read().by_policy.get(policy)?.get(key).copied()
    }

    /// Bans a key, unless it is banned already. Answers the ban that was begun.
    pub(crate) fn begin(&self, policy: &str, key: &[u8], ban: &Ban, now: Timestamp) -> Option<Banned> {
        let mut table = self.write();
        let last = table.by_policy.get(policy).and_then(|keys| keys.get(key)).copied();
        let level = match last {
            // Somebody else's refusal came first.
            Some(last) if now < last.until => return None,
            Some(last) if now < last.until.plus(ban.most) => last.level.saturating_add(1),
            _ => 1,
        };
        let banned = Banned { until: now.plus(lasts(ban, level)), level };
        table.put(policy, key, banned, self.most);
        self.count.store(table.by_end.len(), Ordering::Release);
        Some(banned)
    }

    /// Forgets a key, and that it ever was banned. Answers whether there was anything to forget.
    pub(crate) fn lift(&self, policy: &str, key: &[u8]) -> bool {
        if self.get(policy, key).is_none() {
            return false;
        }
        let mut table = self.write();
        let was_there = table.remove(policy, key);
        self.count.store(table.by_end.len(), Ordering::Release);
        was_there
    }

    /// How many are banned at a time.
    pub(crate) fn banned(&self, now: Timestamp) -> usize {
        if self.count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        self.read().by_end.iter().rev().take_while(|(until, ..)| now < *until).count()
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long the ban of a level lasts.
fn lasts(ban: &Ban, level: u32) -> Micros {
    let times = 1u64.checked_shl(level.saturating_sub(1)).unwrap_or(u64::MAX);
    Micros::new(ban.first.get().saturating_mul(times)).min(ban.most)
}

impl Table {
    fn put(&mut self, policy: &str, key: &[u8], banned: Banned, most: usize) {
        self.remove(policy, key);
        let policy = match self.by_policy.get_key_value(policy) {
            Some((policy, _)) => Arc::clone(policy),
            None => policy.into(),
        };
        let key: Arc<[u8]> = key.into();
        self.by_end.insert((banned.until, Arc::clone(&policy), Arc::clone(&key)));
        self.by_policy.entry(policy).or_default().insert(key, banned);
        while self.by_end.len() > most
            && let Some((_, policy, key)) = self.by_end.pop_first()
        {
            self.forget(&policy, &key);
        }
    }

    fn remove(&mut self, policy: &str, key: &[u8]) -> bool {
        let Some((policy, key, banned)) = self.forget(policy, key) else { return false };
        self.by_end.remove(&(banned.until, policy, key))
    }

    /// Takes a key out of the first table alone.
    fn forget(&mut self, policy: &str, key: &[u8]) -> Option<(Arc<str>, Arc<[u8]>, Banned)> {
        let name = Arc::clone(self.by_policy.get_key_value(policy)?.0);
        let keys = self.by_policy.get_mut(policy)?;
        let (key, banned) = keys.remove_entry(key)?;
        if keys.is_empty() {
            self.by_policy.remove(policy);
        }
        Some((name, key, banned))
    }
}
