//! The keys of all databases in the order of a secret hash, and the order in which they expire.
//!
//! Both are trees, so that no call takes long: nothing is ever moved as a whole. The order of hashes never changes, so
//! a place in it is a cursor that misses no key. An entry is filed under a time not after it expires; when that time
//! comes, the entry is removed, or filed again if its life was extended, so that extending a life costs nothing.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;

use tollgate_kernel::Timestamp;

use super::entry::KeyEntry;
use super::{ClockReadings, DATABASES};
use crate::fault::{Fault, FaultCode};

/// The number of entries that each command examines.
const SWEPT: usize = 8;
/// The number of entries that are examined to make room.
const SWEPT_FOR_ROOM: usize = 256;
/// The bits of a place: few enough for clients that read cursors as doubles.
const BITS: u32 = 52;

/// All keys.
#[derive(Debug)]
pub(super) struct KeyTable {
    databases: [BTreeMap<KeyPosition, KeyEntry>; DATABASES],
    /// The times at which entries are examined, grouped by clock.
    due: BTreeSet<DueEntry>,
    /// The names at which states of a key are stored.
    derived: BTreeSet<DerivedName>,
    bytes: usize,
    cap: usize,
    secret: RandomState,
    /// The changes since they were last taken, if they are recorded.
    changes: Option<Vec<KeyChange>>,
}

/// Whether by the machine's clock, the time, and the database and place of the entry.
type DueEntry = (bool, Timestamp, u8, u64);

/// A database, a key, and a name that was derived from the key.
type DerivedName = (u8, Box<[u8]>, Box<[u8]>);

/// A change of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// A key of a database: its value, its expiry, or its existence.
    Key(u8, Box<[u8]>),
    /// All keys of one database, or of all databases, were removed.
    Flush(Option<u8>),
}

/// The position of a key in the order: its hash, then its name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KeyPosition {
    hash: u64,
    key: Box<[u8]>,
}

/// A hash and a name by which a place is looked up.
trait HashedName {
    fn hashed_name(&self) -> (u64, &[u8]);
}

impl HashedName for KeyPosition {
    fn hashed_name(&self) -> (u64, &[u8]) {
        (self.hash, &self.key)
    }
}

impl HashedName for (u64, &[u8]) {
    fn hashed_name(&self) -> (u64, &[u8]) {
        *self
    }
}

impl<'a> Borrow<dyn HashedName + 'a> for KeyPosition {
    fn borrow(&self) -> &(dyn HashedName + 'a) {
        self
    }
}

impl PartialEq for dyn HashedName + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.hashed_name() == other.hashed_name()
    }
}

impl Eq for dyn HashedName + '_ {}

impl PartialOrd for dyn HashedName + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn HashedName + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.hashed_name().cmp(&other.hashed_name())
    }
}

/// The bytes an entry takes beside its value and name: its place in both trees, which may be half empty.
const ENTRY: usize = 2 * (size_of::<(KeyPosition, KeyEntry)>() + size_of::<DueEntry>()) + 16;

/// Returns the bytes that a key with a name of that length takes beside its value.
pub(super) const fn entry_bytes(name: usize) -> usize {
    ENTRY + name
}

/// Returns the bytes that a derived name takes besides its entry.
pub(super) const fn derived_bytes(name: &[u8], key: usize) -> usize {
    2 * size_of::<DerivedName>() + 32 + key + name.len()
}

impl KeyTable {
    pub(super) fn new(cap: usize) -> Self {
        let (databases, due, derived) = (Default::default(), BTreeSet::new(), BTreeSet::new());
        Self { databases, due, derived, bytes: 0, cap, secret: RandomState::new(), changes: None }
    }

    /// Records changes from now on. Expiry is not recorded: entries expire by themselves wherever they are stored.
    pub(super) fn watch(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// Returns the changes since the last call.
    pub(super) fn take_changes(&mut self) -> Vec<KeyChange> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    #[inline]
    fn changed(&mut self, db: u8, key: &[u8]) {
        if let Some(changes) = &mut self.changes {
            changes.push(KeyChange::Key(db, key.into()));
        }
    }

    /// Returns the bytes of all entries.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes that entries may take.
    pub(super) fn cap(&self) -> usize {
        self.cap
    }

    /// Returns the number of keys in a database, some of which may have expired.
    pub(super) fn len(&self, db: u8) -> usize {
        self.database(db).map_or(0, BTreeMap::len)
    }

    /// Returns the entry of a key, if it is alive.
    pub(super) fn get(&self, db: u8, key: &[u8], now: ClockReadings) -> Option<&KeyEntry> {
        let entry = self.database(db)?.get(&(self.hash(key), key) as &dyn HashedName)?;
        Some(entry).filter(|entry| entry.lives(now))
    }

    /// Applies `act` to the entry of a key, if it is alive; it may change the value and the expiry.
    pub(super) fn change<R>(
        &mut self,
        db: u8,
        key: &[u8],
        now: ClockReadings,
        act: impl FnOnce(&mut KeyEntry) -> R,
    ) -> Option<R> {
        let hash = self.hash(key);
        let entry = self.databases.get_mut(usize::from(db))?.get_mut(&(hash, key) as &dyn HashedName)?;
        if !entry.lives(now) {
            self.take_out(db, key);
            return None;
        }
        let before = entry.value.bytes();
        let done = act(entry);
        self.bytes = self.bytes.saturating_sub(before) + entry.value.bytes();
        // Filed again only if it expires sooner.
        if let Some(expires) = entry.expires
            && entry.due.is_none_or(|due| expires < due)
        {
            let (due, by_wall) = (entry.due.replace(expires), entry.by_wall);
            self.due.insert((by_wall, expires, db, hash));
            if let Some(due) = due {
                self.unfile((by_wall, due, db, hash));
            }
        }
        self.changed(db, key);
        Some(done)
    }

    /// Stores an entry, replacing whatever the key held.
    pub(super) fn put(&mut self, db: u8, key: &[u8], mut entry: KeyEntry) {
        self.take_out(db, key);
        self.changed(db, key);
        let hash = self.hash(key);
        let Some(database) = self.databases.get_mut(usize::from(db)) else { return };
        self.bytes += entry_bytes(key.len()) + entry.value.bytes();
        entry.due = entry.expires;
        if let Some(due) = entry.due {
            self.due.insert((entry.by_wall, due, db, hash));
        }
        database.insert(KeyPosition { hash, key: key.into() }, entry);
    }

    /// Removes a key, alive or not.
    pub(super) fn remove(&mut self, db: u8, key: &[u8]) -> Option<KeyEntry> {
        let entry = self.take_out(db, key)?;
        self.changed(db, key);
        Some(entry)
    }

    /// Records that a name was derived from a key, until its entry is removed: see [`KeyTable::names_of`].
    pub(super) fn derive(&mut self, db: u8, key: &[u8], name: &[u8]) {
        if self.derived.insert((db, key.into(), name.into())) {
            self.bytes += derived_bytes(name, key.len());
        }
    }

    /// Returns the names that were derived from a key.
    pub(super) fn names_of<'a>(&'a self, db: u8, key: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let first: DerivedName = (db, key.into(), [].into());
        let names = self.derived.range(first..).take_while(move |(at, of, _)| (*at, &**of) == (db, key));
        names.map(|(.., name)| &**name)
    }

    /// Forgets that a name was derived, if it was.
    fn forget_derived(&mut self, db: u8, name: &[u8]) {
        if self.derived.is_empty() {
            return;
        }
        let Some(key) = tollgate_dialects::key_of_name(name) else { return };
        let derived: DerivedName = (db, key.into(), name.into());
        if self.derived.remove(&derived) {
            self.bytes = self.bytes.saturating_sub(derived_bytes(name, key.len()));
        }
    }

    fn take_out(&mut self, db: u8, key: &[u8]) -> Option<KeyEntry> {
        self.forget_derived(db, key);
        let hash = self.hash(key);
        let entry = self.databases.get_mut(usize::from(db))?.remove(&(hash, key) as &dyn HashedName)?;
        self.bytes = self.bytes.saturating_sub(entry_bytes(key.len()) + entry.value.bytes());
        if let Some(due) = entry.due {
            self.unfile((entry.by_wall, due, db, hash));
        }
        Some(entry)
    }

    /// Removes a time, unless another key with the same hash is filed under it.
    fn unfile(&mut self, filed: DueEntry) {
        let (by_wall, due, db, hash) = filed;
        if !self.at(db, hash).any(|(_, entry)| entry.by_wall == by_wall && entry.due == Some(due)) {
            self.due.remove(&filed);
        }
    }

    /// Returns the keys with one hash, which is nearly always a single key.
    fn at(&self, db: u8, hash: u64) -> impl Iterator<Item = (&[u8], &KeyEntry)> {
        self.from(db, hash).take_while(move |(at, ..)| *at == hash).map(|(_, key, entry)| (key, entry))
    }

    /// Returns all keys of a database from a place on, with their places.
    pub(super) fn from(&self, db: u8, place: u64) -> impl Iterator<Item = (u64, &[u8], &KeyEntry)> {
        let first = (place, [].as_slice());
        let range = (Bound::Included(&first as &dyn HashedName), Bound::Unbounded);
        let database = self.database(db).map(|database| database.range::<dyn HashedName, _>(range));
        database.into_iter().flatten().map(|(place, entry)| (place.hash, &*place.key, entry))
    }

    /// Removes a few of the entries that have expired.
    pub(super) fn sweep(&mut self, now: ClockReadings) {
        for _ in 0..SWEPT {
            if !self.sweep_one(now) {
                return;
            }
        }
    }

    /// Returns whether there is memory for `bytes` more, after removing expired entries if necessary.
    pub(super) fn has_room(&mut self, bytes: usize, now: ClockReadings) -> bool {
        for _ in 0..SWEPT_FOR_ROOM {
            if !self.lacks(bytes) || !self.sweep_one(now) {
                break;
            }
        }
        !self.lacks(bytes)
    }

    /// Returns whether `bytes` more would exceed the cap.
    pub(super) fn lacks(&self, bytes: usize) -> bool {
        self.bytes.saturating_add(bytes) > self.cap
    }

    /// Fails if there is no memory for `bytes` more, after removing expired entries if necessary.
    pub(super) fn need_room(&mut self, bytes: usize, now: ClockReadings) -> Result<(), Fault> {
        if self.has_room(bytes, now) {
            return Ok(());
        }
        let text = format!(
            "expected room for {bytes} more bytes of keys, found {} of {} taken; DEL keys, EXPIRE them, or start the \
             server with more memory for keys",
            self.bytes, self.cap
        );
        Err(Fault::new(FaultCode::Full, text))
    }

    /// Examines the first entry that is due by either clock; returns whether there was one.
    fn sweep_one(&mut self, now: ClockReadings) -> bool {
        let first = |wall| {
            let first = self.due.range((wall, Timestamp::default(), 0, 0)..).next().copied();
            first.filter(|(by_wall, due, ..)| *by_wall == wall && *due < now.by(wall))
        };
        let Some(first) = first(false).or_else(|| first(true)) else { return false };
        self.due.remove(&first);
        let (by_wall, due, db, hash) = first;
        let filed: Vec<(Box<[u8]>, bool)> = self
            .at(db, hash)
            .filter(|(_, entry)| entry.by_wall == by_wall && entry.due == Some(due))
            .map(|(key, entry)| (key.into(), entry.lives(now)))
            .collect();
        for (key, lives) in filed {
            if !lives {
                self.take_out(db, &key);
            } else if let Some(database) = self.databases.get_mut(usize::from(db))
                && let Some(entry) = database.get_mut(&(hash, &*key) as &dyn HashedName)
            {
                entry.due = entry.expires;
                self.due.extend(entry.due.map(|due| (by_wall, due, db, hash)));
            }
        }
        true
    }

    /// Removes the keys of one database, or of all databases.
    pub(super) fn flush(&mut self, db: Option<u8>) {
        if let Some(changes) = &mut self.changes {
            changes.push(KeyChange::Flush(db));
        }
        let Some(db) = db else {
            let changes = self.changes.take();
            *self = Self { secret: self.secret.clone(), changes, ..Self::new(self.cap) };
            return;
        };
        let (derived, left) = std::mem::take(&mut self.derived).into_iter().partition(|(at, ..)| *at == db);
        let derived: BTreeSet<DerivedName> = derived;
        self.derived = left;
        let bytes = derived.iter().map(|(_, key, name)| derived_bytes(name, key.len())).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        let gone = self.databases.get_mut(usize::from(db)).map(std::mem::take).unwrap_or_default();
        for (place, entry) in gone {
            self.bytes = self.bytes.saturating_sub(entry_bytes(place.key.len()) + entry.value.bytes());
            if let Some(due) = entry.due {
                self.due.remove(&(entry.by_wall, due, db, place.hash));
            }
        }
    }

    fn database(&self, db: u8) -> Option<&BTreeMap<KeyPosition, KeyEntry>> {
        self.databases.get(usize::from(db))
    }

    /// Returns an unpredictable place, which is never 0, where a cursor begins and ends.
    fn hash(&self, key: &[u8]) -> u64 {
        (self.secret.hash_one(key) >> (u64::BITS - BITS)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::KeyValue;

    const NOW: u64 = 1_700_000_000_000_000;

    fn t(us: u64) -> ClockReadings {
        Timestamp::saturating(us).into()
    }

    fn put(table: &mut KeyTable, key: &str, expires: Option<u64>) {
        table.put(0, key.as_bytes(), KeyEntry::new(KeyValue::Number(1), expires.map(Timestamp::saturating)));
    }

    #[test]
    fn a_key_is_alive_up_to_the_microsecond_it_expires_at() {
        let mut table = KeyTable::new(1 << 20);
        put(&mut table, "a", Some(NOW));
        assert!(table.get(0, b"a", t(NOW)).is_some());
        assert!(table.get(0, b"a", t(NOW + 1)).is_none());
        assert!(table.get(1, b"a", t(NOW)).is_none());
        assert_eq!(table.change(0, b"a", t(NOW + 1), |_| ()), None);
        assert_eq!((table.len(0), table.bytes(), table.due.len()), (0, 0, 0));
    }

    #[test]
    fn what_has_expired_goes_bit_by_bit_and_what_lives_longer_stays() {
        let mut table = KeyTable::new(1 << 20);
        (0..100).for_each(|place| put(&mut table, &format!("k{place}"), Some(NOW + place)));
        table.change(0, b"k0", t(NOW), |entry| entry.expires = Some(Timestamp::saturating(NOW + 500)));
        table.sweep(t(NOW + 50));
        // One of the eight was filed again.
        assert_eq!(table.len(0), 93);
        (0..10).for_each(|_| table.sweep(t(NOW + 50)));
        assert_eq!(table.len(0), 51);
        assert!(table.get(0, b"k0", t(NOW + 500)).is_some());
        // A life that becomes shorter is noticed.
        table.change(0, b"k0", t(NOW + 50), |entry| entry.expires = Some(Timestamp::saturating(NOW + 51)));
        (0..100).for_each(|_| table.sweep(t(NOW + 1_000)));
        assert_eq!((table.len(0), table.bytes(), table.due.len()), (0, 0, 0));
    }

    #[test]
    fn room_is_made_of_what_has_expired_alone() {
        let mut table = KeyTable::new(10 * entry_bytes(2));
        (0..10).for_each(|place| put(&mut table, &format!("k{place}"), Some(NOW + place)));
        assert!(!table.has_room(entry_bytes(2), t(NOW)));
        assert!(table.has_room(entry_bytes(2), t(NOW + 1)));
        assert!(table.has_room(5 * entry_bytes(2), t(NOW + 5)));
        assert!(!table.has_room(6 * entry_bytes(2), t(NOW + 5)));
        assert!(
            table.need_room(6 * entry_bytes(2), t(NOW + 5)).unwrap_err().to_string().starts_with("OOM expected room")
        );
        assert_eq!(table.len(0), 5);
    }

    #[test]
    fn a_flush_leaves_other_databases_alone() {
        let mut table = KeyTable::new(1 << 20);
        for db in 0..3 {
            table.put(db, b"a", KeyEntry::new(KeyValue::of(b"some text"), Some(Timestamp::saturating(NOW))));
            table.put(db, b"b", KeyEntry::new(KeyValue::of(b"12"), None));
        }
        let whole = table.bytes();
        table.flush(Some(1));
        assert_eq!((table.len(0), table.len(1), table.len(2)), (2, 0, 2));
        assert_eq!((table.bytes(), table.due.len()), (whole / 3 * 2, 2));
        table.flush(None);
        assert_eq!((table.len(0), table.bytes(), table.due.len()), (0, 0, 0));
    }

    #[test]
    fn integers_have_one_form() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1.0", None),
        ] {
            assert_eq!(crate::number(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn bytes_counted_are_at_least_those_taken() {
        let mut table = KeyTable::new(1 << 30);
        let taken = allocation_counter::measure(|| {
            for place in 0..20_000u64 {
                let text = vec![b'x'; (place % 50) as usize];
                table.put(
                    0,
                    format!("key:{place}").as_bytes(),
                    KeyEntry::new(KeyValue::of(&text), Some(Timestamp::saturating(NOW + place))),
                );
            }
            // Trees that have become sparse.
            for place in (0..20_000u64).filter(|place| place % 3 != 0) {
                table.remove(0, format!("key:{place}").as_bytes());
            }
        });
        assert!(table.bytes() as i64 >= taken.bytes_current, "{} counted, {taken:?}", table.bytes());
    }
}
