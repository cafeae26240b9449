//! Keys as bytes, for what is kept over a restart: an entry, a state that keys share, and all of them bit by bit.
//!
//! Bytes that nobody wrote are refused, and a table that took some of them is as right as before.

use tollgate_core::{KeyState, Reader, Timestamp, Writer};
use tollgate_dialects::{Usage, find};

use super::entry::{Data, Entry, Limiter, Part, Value};
use super::limiter::MOST_PARTS;
use super::overflow::{Bucket, Shared};
use super::table::{Change, entry_bytes};
use super::{DATABASES, Keys, LONGEST_NAME, Times};
use crate::data::{Put, Take};

/// Keys of one piece of a snapshot, and their bytes: what takes about a millisecond, while others wait.
const PIECE: usize = 512;
const PIECE_BYTES: usize = 256 << 10;

/// The kinds of values.
mod kind {
    pub(super) const NUMBER: u8 = 0;
    pub(super) const TEXT: u8 = 1;
    pub(super) const DATA: u8 = 2;
    pub(super) const LIMITER: u8 = 3;
}

/// How far all keys have been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// Keys of a database from a place on.
    Keys(u8, u64),
    /// Shared states from one on.
    Shared(Bucket),
    /// All of them.
    Done,
}

impl Cursor {
    pub(crate) const FIRST: Self = Self::Keys(0, 0);
}

impl Keys {
    /// Remembers from now on what is changed, for who asks [`Keys::take_changes`].
    pub(crate) fn watch(&mut self) {
        self.table.watch();
    }

    /// What was changed since this was last asked.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.table.take_changes()
    }

    /// Writes what a key holds and when it expires; `false` if it holds nothing.
    pub(crate) fn write_entry(&self, db: u8, key: &[u8], to: &mut Vec<u8>) -> bool {
        // One that has expired is told as it is: the time is the same wherever it is read.
        let Some(entry) = self.table.get(db, key, Timestamp::default().into()) else { return false };
        write_entry(entry, to);
        true
    }

    /// Puts what [`Keys::write_entry`] wrote; `None` if it was something else.
    pub(crate) fn read_entry(&mut self, db: u8, key: &[u8], from: &mut Take<'_>) -> Option<()> {
        let entry = read_entry(from)?;
        (usize::from(db) < DATABASES && key.len() <= LONGEST_NAME).then_some(())?;
        self.table.put(db, key, entry);
        Some(())
    }

    /// Takes a key out.
    pub(crate) fn forget(&mut self, db: u8, key: &[u8]) {
        self.table.remove(db, key);
    }

    /// Takes a key out if it holds anything but what limiters remember.
    pub(crate) fn forget_text(&mut self, db: u8, key: &[u8]) {
        let entry = self.table.get(db, key, Timestamp::default().into());
        if entry.is_some_and(|entry| !matches!(entry.value, Value::Limiter(_))) {
            self.table.remove(db, key);
        }
    }

    /// Writes a state that keys share; `false` if there is none.
    pub(crate) fn write_shared(&self, bucket: Bucket, to: &mut Vec<u8>) -> bool {
        let Some(shared) = self.overflow.get(bucket) else { return false };
        write_shared(bucket, shared, to);
        true
    }

    /// Puts what [`Keys::write_shared`] wrote.
    pub(crate) fn read_shared(&mut self, from: &mut Take<'_>) -> Option<()> {
        let dialect = find(std::str::from_utf8(from.text()?).ok()?)?.name;
        let number = from.number()?;
        let state = read_state(from)?;
        let (count, last, ops) = (from.number()?, from.number()?.checked_sub(1), from.number()?);
        let shared = Shared::new(state, Usage { count, last, ops }, from.time()?);
        self.overflow.put((dialect, number), shared);
        Some(())
    }

    /// What decides which state a key shares.
    pub(crate) fn secret(&self) -> [u64; 2] {
        self.overflow.secret()
    }

    /// Keys share the states they shared before a restart.
    pub(crate) fn set_secret(&mut self, secret: [u64; 2]) {
        self.overflow.set_secret(secret);
    }

    /// Writes some of the keys from a place on; answers where to go on. Keys that are there all the time are
    /// written once, whatever else comes and goes.
    pub(crate) fn write_some(&self, from: Cursor, now: impl Into<Times>, to: &mut Vec<u8>) -> Cursor {
        let now = now.into();
        match from {
            Cursor::Keys(db, place) => self.write_keys(db, place, now, to),
            Cursor::Shared(bucket) => self.write_states(bucket, now.now, to),
            Cursor::Done => Cursor::Done,
        }
    }

    fn write_keys(&self, db: u8, from: u64, now: Times, to: &mut Vec<u8>) -> Cursor {
        let (begin, mut seen, mut last) = (to.len(), 0, 0);
        for (place, key, entry) in self.table.from(db, from) {
            // Keys of one place come together.
            if place != last && (seen >= PIECE || to.len() - begin >= PIECE_BYTES) {
                return Cursor::Keys(db, place);
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
        if usize::from(db) + 1 < DATABASES { Cursor::Keys(db + 1, 0) } else { Cursor::Shared(("", 0)) }
    }

    fn write_states(&self, from: Bucket, now: Timestamp, to: &mut Vec<u8>) -> Cursor {
        for (seen, (bucket, shared)) in self.overflow.each(from).enumerate() {
            if seen >= PIECE {
                return Cursor::Shared(bucket);
            }
            if now <= shared.until {
                to.part(|to| {
                    to.push(SHARED);
                    write_shared(bucket, shared, to);
                });
            }
        }
        Cursor::Done
    }

    /// Puts one of the parts that [`Keys::write_some`] wrote; `None` if it was something else.
    pub(crate) fn read_part(&mut self, part: &[u8]) -> Option<()> {
        let mut from = Take::new(part);
        match from.byte()? {
            SHARED => self.read_shared(&mut from)?,
            db => {
                let key = from.text()?;
                self.read_entry(db, key, &mut from)?;
            }
        }
        from.is_done().then_some(())
    }

    /// Bytes by which the keys pass their cap, after what has expired went. Those read back may take a little more
    /// than they did, so a quarter more is no reason to complain.
    pub(crate) fn excess(&mut self, now: Timestamp) -> usize {
        let cap = self.table.cap();
        if self.table.bytes() > cap {
            self.table.has_room(entry_bytes(0), now.into());
        }
        if self.table.bytes() > cap + cap / 4 { self.table.bytes() - cap } else { 0 }
    }
}

/// In the place of a database: there are fewer.
const SHARED: u8 = u8::MAX;

fn write_entry(entry: &Entry, to: &mut Vec<u8>) {
    to.maybe_time(entry.expires);
    match &entry.value {
        Value::Number(number) => {
            to.push(kind::NUMBER);
            to.extend_from_slice(&number.to_le_bytes());
        }
        Value::Text(text) => {
            to.push(kind::TEXT);
            to.text(text);
        }
        Value::Data(data) => {
            to.push(kind::DATA);
            to.number(data.last);
            to.number(data.ops);
        }
        Value::Limiter(limiter) => {
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

fn read_entry(from: &mut Take<'_>) -> Option<Entry> {
    let expires = from.maybe_time()?;
    let value = match from.byte()? {
        kind::NUMBER => Value::Number(i64::from_le_bytes(*from.bytes(8)?.first_chunk()?)),
        // A text that is a number is kept as one.
        kind::TEXT => match Value::of(from.text()?) {
            Value::Text(text) => Value::Text(text),
            _ => return None,
        },
        kind::DATA => Value::Data(Data { last: from.number()?, ops: from.number()? }),
        kind::LIMITER => {
            let count = from.count().filter(|count| *count <= MOST_PARTS)?;
            // No more room than a key that was never away has: it is counted.
            let mut parts = Vec::with_capacity(count);
            for _ in 0..count {
                parts.push(read_limiter_part(from)?);
            }
            Value::Limiter(Box::new(Limiter { parts }))
        }
        _ => return None,
    };
    Some(Entry::new(value, expires))
}

fn read_limiter_part(from: &mut Take<'_>) -> Option<Part> {
    let (scope, until) = (from.text()?.into(), from.time()?);
    Some(Part { scope, state: read_state(from)?, until })
}

fn write_shared(bucket: Bucket, shared: &Shared, to: &mut Vec<u8>) {
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

fn read_state(from: &mut Take<'_>) -> Option<KeyState> {
    let mut words = Reader::new(from.text()?);
    let state = KeyState::read(&mut words)?;
    words.is_done().then_some(state)
}

#[cfg(test)]
mod tests {
    use super::super::bytes::{CALLS, speak};
    use super::super::{Expiry, Put as SetPut};
    use super::*;

    const NOW: u64 = 1_700_000_040_000_000;

    fn t(us: u64) -> Timestamp {
        Timestamp::saturating(NOW + us)
    }

    fn call(keys: &mut Keys, call: &str, key: u64, at: u64) -> String {
        let text = call.replace("KEY", &format!("key:{key}")).replace('N', &(at % 3).to_string());
        format!("{:?}", keys.decide(&speak(&text), t(at)))
    }

    /// Keys of every kind in several databases.
    fn some_keys(cap: usize, many: u64) -> Keys {
        let mut keys = Keys::new(cap);
        let at = SetPut { expiry: Expiry::At(t(1_000_000)), ..SetPut::default() };
        keys.set(3, b"text", b"some text", at, t(0)).unwrap();
        keys.set(3, b"", b"", SetPut::default(), t(0)).unwrap();
        keys.set(15, b"number", b"-9223372036854775808", SetPut::default(), t(0)).unwrap();
        keys.add(1, b"{api:x}:33", 5, t(0)).unwrap();
        for key in 0..many {
            for (place, text) in CALLS.iter().enumerate() {
                call(&mut keys, text, key, key + place as u64);
            }
        }
        keys
    }

    fn written(keys: &Keys, at: u64) -> Vec<u8> {
        let (mut cursor, mut bytes, mut pieces) = (Cursor::FIRST, Vec::new(), 0);
        while cursor != Cursor::Done {
            cursor = keys.write_some(cursor, t(at), &mut bytes);
            pieces += 1;
            assert!(pieces < 10_000);
        }
        bytes
    }

    fn read(keys: &mut Keys, bytes: &[u8]) -> Option<()> {
        let mut from = Take::new(bytes);
        while !from.is_done() {
            keys.read_part(from.part()?)?;
        }
        Some(())
    }

    #[test]
    fn keys_that_are_read_back_take_no_more_than_they_did() {
        // Or a server that was full would not start again.
        for text in CALLS {
            let mut keys = Keys::new(1 << 26);
            (0..500).for_each(|key| drop(call(&mut keys, text, key, key)));
            let mut copy = Keys::new(1 << 26);
            read(&mut copy, &written(&keys, 500)).unwrap();
            let (was, is) = (keys.counts().bytes, copy.counts().bytes);
            assert!(is <= was + was / 20, "{text}: {was} bytes, read back {is}");
        }
    }

    #[test]
    fn keys_that_are_read_back_are_the_same_and_decide_alike() {
        // With room for all, and with so little that most share states.
        for (cap, many) in [(1 << 26, 300), (64 << 10, 300)] {
            let mut keys = some_keys(cap, many);
            let bytes = written(&keys, 1_000);
            let mut copy = Keys::new(cap);
            copy.set_secret(keys.secret());
            read(&mut copy, &bytes).unwrap();
            assert_eq!(copy.excess(t(1_000)), 0);
            assert_eq!(copy.counts().keys, keys.counts().keys);
            assert!(keys.counts().overflowed > 0 || cap > 1 << 20);
            let sorted = |keys: &Keys| {
                let bytes = written(keys, 1_000);
                let (mut from, mut parts) = (Take::new(&bytes), Vec::new());
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

    #[test]
    fn bytes_that_nobody_wrote_are_refused_or_read_as_something_and_never_panic() {
        let keys = some_keys(1 << 24, 3);
        let bytes = written(&keys, 0);
        for cut in 0..bytes.len().min(3_000) {
            let _ = read(&mut Keys::new(1 << 24), &bytes[..cut]);
        }
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..20_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let mut bytes = bytes.clone();
            let place = seed as usize % bytes.len();
            bytes[place] = (seed >> 40) as u8;
            let _ = read(&mut Keys::new(1 << 24), &bytes);
        }
    }

    #[test]
    fn what_is_changed_is_told_and_what_expires_is_not() {
        let key = |db, key: &[u8]| Change::Key(db, key.into());
        let mut keys = Keys::new(1 << 20);
        keys.set(0, b"before", b"x", SetPut::default(), t(0)).unwrap();
        keys.watch();
        assert_eq!(keys.take_changes(), []);
        keys.add(2, b"{api:x}:33", 5, t(0)).unwrap();
        assert_eq!(keys.take_changes(), [key(2, b"{api:x}:33"), key(2, b"{api:x}:data")]);
        assert!(keys.expire(2, b"{api:x}:33", t(10), super::super::Condition::default(), t(0)));
        assert_eq!(keys.take_changes(), [key(2, b"{api:x}:33")]);
        assert_eq!(keys.get(2, b"{api:x}:33", t(11)).unwrap(), None);
        assert_eq!(keys.delete(0, [&b"before"[..], b"none"].into_iter(), t(11)), 1);
        assert_eq!(keys.take_changes(), [key(0, b"before")]);
        keys.flush(Some(2));
        keys.flush(None);
        assert_eq!(keys.take_changes(), [Change::Flush(Some(2)), Change::Flush(None)]);
    }
}
