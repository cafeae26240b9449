//! Keys as bytes, for persistence across restarts: one entry, one shared state, and all of them in pieces.
//!
//! Bytes that were not written by this module are refused, and a table that has read a part of them is still
//! consistent.

use tollgate_dialects::{ApiCounterUsage, find};
use tollgate_kernel::{KeyState, Reader, Timestamp, Writer, merge_windows};

use super::entry::{KeyEntry, KeyValue, LimiterState, ScopeState, TokenData};
use super::limiter::MAX_SCOPES;
use super::overflow::{SharedLimiter, SharedLimiterId};
use super::table::{KeyChange, entry_bytes};
use super::{ClockReadings, DATABASES, Keyspace, MAX_NAME};
use crate::wire::{WireBuffer, WireReader};

/// The most keys in one piece of a snapshot, and the most bytes: about a millisecond of work, while other callers wait.
const PIECE: usize = 512;
const PIECE_BYTES: usize = 256 << 10;

/// The kinds of values.
mod kind {
    pub(super) const NUMBER: u8 = 0;
    pub(super) const TEXT: u8 = 1;
    pub(super) const DATA: u8 = 2;
    pub(super) const LIMITER: u8 = 3;
}

/// A position in the iteration over all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCursor {
    /// The keys of a database, from a place on.
    Keys(u8, u64),
    /// The shared states, from a bucket on.
    Shared(SharedLimiterId),
    /// The end.
    Done,
}

impl KeyCursor {
    /// The position at which the iteration begins.
    pub const FIRST: Self = Self::Keys(0, 0);
}

impl Keyspace {
    /// Records changes from now on, for [`Keyspace::take_changes`].
    pub fn watch(&mut self) {
        self.table.watch();
    }

    /// Returns the changes since the last call.
    pub fn take_changes(&mut self) -> Vec<KeyChange> {
        self.table.take_changes()
    }

    /// Writes a key's value and expiry; returns `false` if there is no such key.
    pub fn write_entry(&self, db: u8, key: &[u8], to: &mut Vec<u8>) -> bool {
        // An expired entry is written as it is: its expiry means the same wherever it is read.
        let Some(entry) = self.table.get(db, key, Timestamp::default().into()) else { return false };
        write_entry(entry, to);
        true
    }

    /// Stores an entry that [`Keyspace::write_entry`] wrote; returns `None` if the bytes are invalid.
    pub fn read_entry(&mut self, db: u8, key: &[u8], from: &mut WireReader<'_>) -> Option<()> {
        let entry = read_entry(from)?;
        (usize::from(db) < DATABASES && key.len() <= MAX_NAME).then_some(())?;
        self.put_read(db, key, entry);
        Some(())
    }

    /// Removes a key. States at names that were derived from it stay: a journal tells of each name by itself.
    pub fn forget(&mut self, db: u8, key: &[u8]) {
        self.table.remove(db, key);
    }

    /// Removes a key unless it holds limiter state.
    pub fn forget_text(&mut self, db: u8, key: &[u8]) {
        let entry = self.table.get(db, key, Timestamp::default().into());
        if entry.is_some_and(|entry| !matches!(entry.value, KeyValue::Limiter(_))) {
            self.table.remove(db, key);
        }
    }

    /// Writes a shared state; returns `false` if there is no such state.
    pub fn write_shared(&self, bucket: SharedLimiterId, to: &mut Vec<u8>) -> bool {
        let Some(shared) = self.overflow.get(bucket) else { return false };
        write_shared(bucket, shared, to);
        true
    }

    /// Stores a state that [`Keyspace::write_shared`] wrote; returns `None` if the bytes are invalid.
    pub fn read_shared(&mut self, from: &mut WireReader<'_>) -> Option<()> {
        let dialect = find(std::str::from_utf8(from.text()?).ok()?)?.name;
        let number = from.number()?;
        let state = read_state(from)?;
        let (count, last, ops) = (from.number()?, from.number()?.checked_sub(1), from.number()?);
        let shared = SharedLimiter::new(state, ApiCounterUsage { count, last, ops }, from.time()?);
        self.overflow.put((dialect, number), shared);
        Some(())
    }

    /// Returns the secret that determines which state a key shares.
    pub fn secret(&self) -> [u64; 2] {
        self.overflow.secret()
    }

    /// Sets the secret, so that keys share the same states as before a restart.
    pub fn set_secret(&mut self, secret: [u64; 2]) {
        self.overflow.set_secret(secret);
    }

    /// Writes some of the keys from a position on; returns the position to continue from. A key that is present all the
    /// time is written once, whichever keys are added and removed meanwhile.
    pub fn write_some(&self, from: KeyCursor, now: impl Into<ClockReadings>, to: &mut Vec<u8>) -> KeyCursor {
        let now = now.into();
        match from {
            KeyCursor::Keys(db, place) => self.write_keys(db, place, now, to),
            KeyCursor::Shared(bucket) => self.write_states(bucket, now.now, to),
            KeyCursor::Done => KeyCursor::Done,
        }
    }

    fn write_keys(&self, db: u8, from: u64, now: ClockReadings, to: &mut Vec<u8>) -> KeyCursor {
        let (begin, mut seen, mut last) = (to.len(), 0, 0);
        for (place, key, entry) in self.table.from(db, from) {
            // Keys of one place stay together.
            if place != last && (seen >= PIECE || to.len() - begin >= PIECE_BYTES) {
                return KeyCursor::Keys(db, place);
            }
            (last, seen) = (place, seen + 1);
            if entry.lives(now) {
                to.part(|to| {
                    to.push(db);
                    to.text(key);
                    write_entry(entry, to);
                });
            }
        }
        if usize::from(db) + 1 < DATABASES { KeyCursor::Keys(db + 1, 0) } else { KeyCursor::Shared(("", 0)) }
    }

    fn write_states(&self, from: SharedLimiterId, now: Timestamp, to: &mut Vec<u8>) -> KeyCursor {
        for (seen, (bucket, shared)) in self.overflow.each(from).enumerate() {
            if seen >= PIECE {
                return KeyCursor::Shared(bucket);
            }
            if now <= shared.until {
                to.part(|to| {
                    to.push(SHARED);
                    write_shared(bucket, shared, to);
                });
            }
        }
        KeyCursor::Done
    }

    /// Stores one of the parts that [`Keyspace::write_some`] wrote; returns `None` if the bytes are invalid.
    pub fn read_part(&mut self, part: &[u8]) -> Option<()> {
        let mut from = WireReader::new(part);
        match from.byte()? {
            SHARED => self.read_shared(&mut from)?,
            db => {
                let key = from.text()?;
                self.read_entry(db, key, &mut from)?;
            }
        }
        from.is_done().then_some(())
    }

    /// Returns by how many bytes the keys exceed their cap after expired ones are removed. Keys that were read back may
    /// take slightly more than before, so an excess of up to a quarter of the cap is reported as 0.
    pub fn excess(&mut self, now: Timestamp) -> usize {
        let cap = self.table.cap();
        if self.table.bytes() > cap {
            self.table.has_room(entry_bytes(0), now.into());
        }
        if self.table.bytes() > cap + cap / 4 { self.table.bytes() - cap } else { 0 }
    }
}

/// Stands in the place of a database number, which is always smaller.
const SHARED: u8 = u8::MAX;

fn write_entry(entry: &KeyEntry, to: &mut Vec<u8>) {
    to.maybe_time(entry.expires);
    match &entry.value {
        KeyValue::Number(number) => {
            to.push(kind::NUMBER);
            to.extend_from_slice(&number.to_le_bytes());
        }
        KeyValue::Text(text) => {
            to.push(kind::TEXT);
            to.text(text);
        }
        KeyValue::Data(data) => {
            to.push(kind::DATA);
            to.number(data.last);
            to.number(data.ops);
        }
        KeyValue::Limiter(limiter) => {
            to.push(kind::LIMITER);
            to.number(limiter.parts.len() as u64);
            for part in &limiter.parts {
                to.text(&part.scope);
                to.time(part.until);
                write_state(&part.state, to);
            }
        }
    }
}

fn read_entry(from: &mut WireReader<'_>) -> Option<KeyEntry> {
    let expires = from.maybe_time()?;
    let value = match from.byte()? {
        kind::NUMBER => KeyValue::Number(i64::from_le_bytes(*from.bytes(8)?.first_chunk()?)),
        // Text that is an integer is stored as a number, so it is invalid here.
        kind::TEXT => match KeyValue::of(from.text()?) {
            KeyValue::Text(text) => KeyValue::Text(text),
            _ => return None,
        },
        kind::DATA => KeyValue::Data(TokenData { last: from.number()?, ops: from.number()? }),
        kind::LIMITER => {
            let count = from.count().filter(|count| *count <= MAX_SCOPES)?;
            // Allocates no more than a key that was never written out, because the capacity is counted.
            let mut parts = Vec::with_capacity(count);
            for _ in 0..count {
                parts.push(read_limiter_part(from)?);
            }
            KeyValue::Limiter(Box::new(LimiterState { parts }))
        }
        _ => return None,
    };
    Some(KeyEntry::new(value, expires))
}

fn read_limiter_part(from: &mut WireReader<'_>) -> Option<ScopeState> {
    let (scope, until) = (from.text()?.into(), from.time()?);
    Some(ScopeState { scope, state: read_state(from)?, until })
}

fn write_shared(bucket: SharedLimiterId, shared: &SharedLimiter, to: &mut Vec<u8>) {
    to.text(bucket.0.as_bytes());
    to.number(bucket.1);
    write_state(&shared.state, to);
    to.number(shared.usage.count);
    to.number(shared.usage.last.map_or(0, |last| last.saturating_add(1)));
    to.number(shared.usage.ops);
    to.time(shared.until);
}

fn write_state(state: &KeyState, to: &mut Vec<u8>) {
    let mut words = Writer::default();
    state.write(&mut words);
    to.text(&words.into_bytes());
}

fn read_state(from: &mut WireReader<'_>) -> Option<KeyState> {
    let mut words = Reader::new(from.text()?);
    let state = KeyState::read(&mut words)?;
    // Earlier releases kept a log for each window of `sliding_window`.
    words.is_done().then(|| merge_windows(state))
}

#[cfg(test)]
mod tests {
    use tollgate_random::Rng;

    use super::*;
    use crate::samples::{CALLS, parse_call};
    use crate::{Expiry, SetOptions};

    const NOW: u64 = 1_700_000_040_000_000;

    fn t(us: u64) -> Timestamp {
        Timestamp::saturating(NOW + us)
    }

    fn call(keys: &mut Keyspace, call: &str, key: u64, at: u64) -> String {
        let text = call.replace("KEY", &format!("key:{key}")).replace('N', &(at % 3).to_string());
        format!("{:?}", keys.decide(&parse_call(&text), t(at)))
    }

    /// Returns keys of every kind in several databases.
    fn some_keys(cap: usize, many: u64) -> Keyspace {
        let mut keys = Keyspace::new(cap);
        let at = SetOptions { expiry: Expiry::At(t(1_000_000)), ..SetOptions::default() };
        keys.set(3, b"text", b"some text", at, t(0)).unwrap();
        keys.set(3, b"", b"", SetOptions::default(), t(0)).unwrap();
        keys.set(15, b"number", b"-9223372036854775808", SetOptions::default(), t(0)).unwrap();
        keys.add(1, b"{api:x}:33", 5, t(0)).unwrap();
        for key in 0..many {
            for (place, text) in CALLS.iter().enumerate() {
                call(&mut keys, text, key, key + place as u64);
            }
        }
        keys
    }

    fn written(keys: &Keyspace, at: u64) -> Vec<u8> {
        let (mut cursor, mut bytes, mut pieces) = (KeyCursor::FIRST, Vec::new(), 0);
        while cursor != KeyCursor::Done {
            cursor = keys.write_some(cursor, t(at), &mut bytes);
            pieces += 1;
            assert!(pieces < 10_000);
        }
        bytes
    }

    fn read(keys: &mut Keyspace, bytes: &[u8]) -> Option<()> {
        let mut from = WireReader::new(bytes);
        while !from.is_done() {
            keys.read_part(from.part()?)?;
        }
        Some(())
    }

    #[test]
    fn keys_that_are_read_back_take_no_more_than_they_did() {
        // Otherwise a server that was full could not start again.
        for text in CALLS {
            let mut keys = Keyspace::new(1 << 26);
            (0..500).for_each(|key| drop(call(&mut keys, text, key, key)));
            let mut copy = Keyspace::new(1 << 26);
            read(&mut copy, &written(&keys, 500)).unwrap();
            let (was, is) = (keys.counts().bytes, copy.counts().bytes);
            assert!(is <= was + was / 20, "{text}: {was} bytes, read back {is}");
        }
    }

    #[test]
    fn keys_that_are_read_back_are_the_same_and_decide_alike() {
        // Once with room for all keys, and once with so little that most share states.
        for (cap, many) in [(1 << 26, 300), (64 << 10, 300)] {
            let mut keys = some_keys(cap, many);
            let bytes = written(&keys, 1_000);
            let mut copy = Keyspace::new(cap);
            copy.set_secret(keys.secret());
            read(&mut copy, &bytes).unwrap();
            assert_eq!(copy.excess(t(1_000)), 0);
            assert_eq!(copy.counts().keys, keys.counts().keys);
            assert!(keys.counts().overflowed > 0 || cap > 1 << 20);
            let sorted = |keys: &Keyspace| {
                let bytes = written(keys, 1_000);
                let (mut from, mut parts) = (WireReader::new(&bytes), Vec::new());
                while !from.is_done() {
                    parts.push(from.part().unwrap().to_vec());
                }
                parts.sort();
                parts
            };
            assert!(sorted(&copy) == sorted(&keys));
            if cap > 1 << 20 {
                for key in 0..many + 5 {
                    for text in CALLS {
                        let now = 500_000 + 7 * key;
                        assert_eq!(call(&mut copy, text, key, now), call(&mut keys, text, key, now), "{text}");
                    }
                    assert_eq!(
                        copy.states(format!("key:{key}").as_bytes(), t(2_000)),
                        keys.states(format!("key:{key}").as_bytes(), t(2_000))
                    );
                }
            }
            for (db, key) in [(3, &b"text"[..]), (3, b""), (15, b"number"), (1, b"{api:x}:33")] {
                assert_eq!(copy.get(db, key, t(1_000)).unwrap(), keys.get(db, key, t(1_000)).unwrap());
                assert_eq!(copy.left(db, key, t(1_000)), keys.left(db, key, t(1_000)));
            }
            assert_eq!(copy.data(1, b"{api:x}:data", t(0)).unwrap(), keys.data(1, b"{api:x}:data", t(0)).unwrap());
            assert_eq!(copy.get(3, b"text", t(1_000_001)).unwrap(), None);
        }
    }

    /// Puts the states with a namespace at the key itself, as earlier releases did, and returns what they wrote of it.
    fn as_before(keys: &mut Keyspace, key: &[u8]) -> Vec<u8> {
        let names: Vec<Vec<u8>> = keys.table.names_of(0, key).map(<[u8]>::to_vec).collect();
        let mut parts = Vec::new();
        for name in names {
            let Some(KeyEntry { value: KeyValue::Limiter(limiter), .. }) = keys.table.remove(0, &name) else {
                panic!()
            };
            parts.extend(limiter.parts);
        }
        let entry = KeyEntry::new(KeyValue::Limiter(Box::new(LimiterState { parts })), Some(t(60_000_000)));
        keys.table.put(0, key, entry);
        let mut bytes = Vec::new();
        assert!(keys.write_entry(0, key, &mut bytes));
        bytes
    }

    #[test]
    fn states_at_the_key_itself_are_moved() {
        let mut keys = Keyspace::new(1 << 20);
        let slots = "slot_window 1 k 1 NS [[5,60,1]] 1700000040 0";
        let ask = |keys: &mut Keyspace, text: &str| format!("{:?}", keys.decide(&parse_call(text), t(0)).unwrap());
        let of = |namespace: &str| slots.replace("NS", namespace);
        for (namespace, count) in [("ns", 5), ("other", 2)] {
            (0..count).for_each(|_| assert_eq!(ask(&mut keys, &of(namespace)), "Nil"));
        }
        let empty = keys.counts().bytes;
        let bytes = as_before(&mut keys, b"k");
        let mut copy = Keyspace::new(1 << 20);
        copy.read_entry(0, b"k", &mut WireReader::new(&bytes)).unwrap();
        assert_eq!(copy.exist(0, [&b"k"[..], b"ns:{k}", b"other:{k}"].into_iter(), t(0)), 2);
        assert!(copy.counts().bytes <= empty + empty / 5, "{} bytes, not {empty}", copy.counts().bytes);
        // Read again, as a journal repeats it, they are there once.
        copy.read_entry(0, b"k", &mut WireReader::new(&bytes)).unwrap();
        assert_eq!(ask(&mut copy, &of("ns")), "Int(1)");
        assert_eq!(ask(&mut copy, &of("other")), "Nil");
        // What was moved is written where it is now.
        let mut again = Keyspace::new(1 << 20);
        read(&mut again, &written(&copy, 0)).unwrap();
        assert_eq!(ask(&mut again, &of("ns")), "Int(1)");
        assert!(again.has_namespaces(0, b"k", t(0)));
        // The key itself may have held something else.
        copy.forget(0, b"k");
        assert_eq!(ask(&mut copy, &of("ns")), "Int(1)");
        assert_eq!(again.delete(0, [&b"k"[..]].into_iter(), t(0)), 1);
        assert_eq!((again.counts().keys, again.counts().bytes), (0, 0));
    }

    #[test]
    fn a_flush_and_expiry_leave_no_names_behind() {
        let mut keys = Keyspace::new(1 << 20);
        for db in [0, 3] {
            let mut call = parse_call("slot_window 1 k 1 ns [[5,60,1]] 1700000040 0");
            call.db = db;
            keys.decide(&call, t(0)).unwrap();
        }
        keys.flush(Some(3));
        assert!(keys.has_namespaces(0, b"k", t(0)) && !keys.has_namespaces(3, b"k", t(0)));
        assert_eq!(keys.get(0, b"x", t(61_000_000)).unwrap(), None);
        assert_eq!((keys.counts().keys, keys.counts().bytes), (0, 0));
    }

    #[test]
    fn bytes_that_nobody_wrote_are_refused_or_read_as_something_and_never_panic() {
        let keys = some_keys(1 << 24, 3);
        let bytes = written(&keys, 0);
        for cut in 0..bytes.len().min(3_000) {
            let _ = read(&mut Keyspace::new(1 << 24), &bytes[..cut]);
        }
        let mut rng = Rng::new(1);
        for _ in 0..20_000 {
            let mut bytes = bytes.clone();
            let place = rng.index(bytes.len());
            bytes[place] = rng.next_u64() as u8;
            let _ = read(&mut Keyspace::new(1 << 24), &bytes);
        }
    }

    #[test]
    fn what_is_changed_is_told_and_what_expires_is_not() {
        let key = |db, key: &[u8]| KeyChange::Key(db, key.into());
        let mut keys = Keyspace::new(1 << 20);
        keys.set(0, b"before", b"x", SetOptions::default(), t(0)).unwrap();
        keys.watch();
        assert_eq!(keys.take_changes(), []);
        keys.add(2, b"{api:x}:33", 5, t(0)).unwrap();
        assert_eq!(keys.take_changes(), [key(2, b"{api:x}:33"), key(2, b"{api:x}:data")]);
        assert!(keys.expire(2, b"{api:x}:33", t(10), crate::ExpireConditions::default(), t(0)));
        assert_eq!(keys.take_changes(), [key(2, b"{api:x}:33")]);
        assert_eq!(keys.get(2, b"{api:x}:33", t(11)).unwrap(), None);
        assert_eq!(keys.delete(0, [&b"before"[..], b"none"].into_iter(), t(11)), 1);
        assert_eq!(keys.take_changes(), [key(0, b"before")]);
        keys.flush(Some(2));
        keys.flush(None);
        assert_eq!(keys.take_changes(), [KeyChange::Flush(Some(2)), KeyChange::Flush(None)]);
    }
}
