//! The commands on plain keys: text, numbers, and their time to live.

use tollgate_kernel::{Micros, Timestamp};

use super::entry::{KeyEntry, KeyValue, TokenData};
use super::table::entry_bytes;
use super::{ClockReadings, Keyspace, api, check_name, wrong_type};
use crate::fault::Fault;

/// The expiry that SET gives a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    #[default]
    Never,
    /// At the end of this microsecond of the machine's clock.
    At(Timestamp),
    /// The same as before.
    Kept,
}

/// The options of SET.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetOptions {
    /// When the key expires.
    pub expiry: Expiry,
    /// Stores only if the key exists (`true`), or only if it does not (`false`).
    pub only_if: Option<bool>,
}

/// The conditions of EXPIRE, all of which must hold for it to take effect.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpireConditions {
    /// The key has no expiry.
    pub nx: bool,
    /// The key has an expiry.
    pub xx: bool,
    /// The key would live longer.
    pub gt: bool,
    /// The key would live shorter.
    pub lt: bool,
}

impl ExpireConditions {
    fn holds(self, before: Option<Timestamp>, after: Timestamp) -> bool {
        !(self.nx && before.is_some()
            || self.xx && before.is_none()
            || self.gt && before.is_none_or(|before| after <= before)
            || self.lt && before.is_some_and(|before| after >= before))
    }
}

impl Keyspace {
    /// Returns the text at a key.
    pub fn get(&mut self, db: u8, key: &[u8], now: impl Into<ClockReadings>) -> Result<Option<Vec<u8>>, Fault> {
        let now = now.into();
        self.table.sweep(now);
        match self.table.get(db, key, now).map(|entry| &entry.value) {
            None => Ok(None),
            Some(KeyValue::Number(number)) => Ok(Some(number.to_string().into_bytes())),
            Some(KeyValue::Text(text)) => Ok(Some(text.to_vec())),
            Some(KeyValue::Data(_) | KeyValue::Limiter(_)) => Err(wrong_type()),
        }
    }

    /// Returns the fields of the hash at a key.
    pub fn data(&mut self, db: u8, key: &[u8], now: impl Into<ClockReadings>) -> Result<Option<TokenData>, Fault> {
        let now = now.into();
        self.table.sweep(now);
        match self.table.get(db, key, now).map(|entry| &entry.value) {
            None => Ok(None),
            Some(KeyValue::Data(data)) => Ok(Some(*data)),
            Some(_) => Err(wrong_type()),
        }
    }

    /// Stores text at a key, replacing whatever it holds; returns whether it was stored.
    pub fn set(
        &mut self,
        db: u8,
        key: &[u8],
        text: &[u8],
        put: SetOptions,
        now: impl Into<ClockReadings>,
    ) -> Result<bool, Fault> {
        let now = now.into();
        check_name(key)?;
        let before = self.table.get(db, key, now).map(|entry| (expires_by(entry, true, now), entry.value.bytes()));
        if put.only_if.is_some_and(|there| there != before.is_some()) {
            return Ok(false);
        }
        let expires = match put.expiry {
            Expiry::Never => None,
            Expiry::At(at) => Some(at),
            Expiry::Kept => before.and_then(|(expires, _)| expires),
        };
        let value = KeyValue::of(text);
        let takes = value.bytes() + if before.is_some() { 0 } else { entry_bytes(key.len()) };
        let more = takes.saturating_sub(before.map_or(0, |(_, bytes)| bytes));
        if more > 0 {
            self.table.need_room(more, now)?;
        }
        self.table.put(db, key, KeyEntry::new(value, expires));
        self.table.sweep(now);
        Ok(true)
    }

    /// Adds to the number at a key, 0 if there is none; returns the sum. An increment of a counter of redis-limiter
    /// also updates the data beside it.
    pub fn add(&mut self, db: u8, key: &[u8], number: i64, now: impl Into<ClockReadings>) -> Result<i64, Fault> {
        let now = now.into();
        check_name(key)?;
        self.table.sweep(now);
        let before = match self.table.get(db, key, now).map(|entry| &entry.value) {
            None => None,
            Some(KeyValue::Number(number)) => Some(*number),
            Some(KeyValue::Text(_)) => return Err(Fault::wrong("value is not an integer or out of range")),
            Some(KeyValue::Data(_) | KeyValue::Limiter(_)) => return Err(wrong_type()),
        };
        let sum = before.unwrap_or_default().checked_add(number);
        let sum = sum.ok_or_else(|| Fault::wrong("increment or decrement would overflow"))?;
        let data = api::data_of(key).filter(|data| self.may_keep_data(db, data, now));
        let new_data = data.as_ref().filter(|data| self.table.get(db, data, now).is_none());
        let new = before.map_or(entry_bytes(key.len()), |_| 0) + new_data.map_or(0, |data| entry_bytes(data.len()));
        if new > 0 {
            self.table.need_room(new, now)?;
        }
        if self.table.change(db, key, now, |entry| entry.value = KeyValue::Number(sum)).is_none() {
            self.table.put(db, key, KeyEntry::new(KeyValue::Number(sum), None));
        }
        if let Some(data) = data {
            self.count_use(db, &data, now);
        }
        Ok(sum)
    }

    /// Removes keys, and the states of limiters at names that were derived from them; returns how many existed.
    pub fn delete<'a>(&mut self, db: u8, keys: impl Iterator<Item = &'a [u8]>, now: impl Into<ClockReadings>) -> i64 {
        let now = now.into();
        self.table.sweep(now);
        let delete = |key| {
            let lived = self.table.remove(db, key).is_some_and(|entry| entry.lives(now));
            i64::from(self.clear_namespaces(db, key, now) || lived)
        };
        keys.map(delete).sum()
    }

    /// Returns how many of the keys exist, counting each as often as it is named.
    pub fn exist<'a>(&mut self, db: u8, keys: impl Iterator<Item = &'a [u8]>, now: impl Into<ClockReadings>) -> i64 {
        let now = now.into();
        self.table.sweep(now);
        keys.map(|key| i64::from(self.table.get(db, key, now).is_some())).sum()
    }

    /// Returns whether a key holds limiter state.
    pub fn is_limiter(&self, db: u8, key: &[u8], now: impl Into<ClockReadings>) -> bool {
        let now = now.into();
        self.table.get(db, key, now).is_some_and(|entry| matches!(entry.value, KeyValue::Limiter(_)))
    }

    /// Returns the type of a key's value, as TYPE replies it.
    pub fn kind(&mut self, db: u8, key: &[u8], now: impl Into<ClockReadings>) -> &'static str {
        let now = now.into();
        self.table.sweep(now);
        self.table.get(db, key, now).map_or("none", |entry| entry.value.kind())
    }

    /// Sets a key to expire at the end of microsecond `at` of the machine's clock; returns whether it was set. A time
    /// that has passed removes the key.
    pub fn expire(
        &mut self,
        db: u8,
        key: &[u8],
        at: Timestamp,
        condition: ExpireConditions,
        now: impl Into<ClockReadings>,
    ) -> bool {
        let now = now.into();
        self.table.sweep(now);
        let Some(entry) = self.table.get(db, key, now) else { return false };
        if !condition.holds(expires_by(entry, true, now), at) {
            return false;
        }
        if at <= now.wall {
            self.table.remove(db, key);
        } else {
            self.table.change(db, key, now, |entry| {
                let left = at.since(now.wall);
                entry.expires = Some(if entry.by_wall { at } else { now.now.plus(left) });
            });
        }
        true
    }

    /// Returns the time a key has left: `Some(None)` if it does not expire, `None` if there is no such key.
    pub fn left(&mut self, db: u8, key: &[u8], now: impl Into<ClockReadings>) -> Option<Option<Micros>> {
        let now = now.into();
        self.table.sweep(now);
        let entry = self.table.get(db, key, now)?;
        Some(entry.expires.map(|expires| expires.since(now.by(entry.by_wall))))
    }
}

/// Returns when a live entry expires, by the machine's clock or by the one that limiters decide by.
fn expires_by(entry: &KeyEntry, wall: bool, now: ClockReadings) -> Option<Timestamp> {
    let left = entry.expires.map(|expires| (expires, expires.since(now.by(entry.by_wall))));
    left.map(|(expires, left)| if entry.by_wall == wall { expires } else { now.by(wall).plus(left) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(us: u64) -> Timestamp {
        Timestamp::saturating(1_700_000_000_000_000 + us)
    }

    #[test]
    fn databases_are_apart() {
        let mut keys = Keyspace::new(1 << 20);
        keys.set(0, b"k", b"zero", SetOptions::default(), t(0)).unwrap();
        keys.add(9, b"k", 5, t(0)).unwrap();
        assert_eq!(keys.get(0, b"k", t(0)).unwrap().as_deref(), Some(&b"zero"[..]));
        assert_eq!(keys.get(9, b"k", t(0)).unwrap().as_deref(), Some(&b"5"[..]));
        assert_eq!(keys.get(1, b"k", t(0)).unwrap(), None);
        assert_eq!(keys.delete(9, [&b"k"[..]].into_iter(), t(0)), 1);
        assert_eq!((keys.len(0, t(0)), keys.len(9, t(0))), (1, 0));
        keys.flush(Some(0));
        assert_eq!(keys.counts(), crate::KeyspaceStats { keys: 0, bytes: 0, overflowed: 0 });
    }

    #[test]
    fn a_key_that_has_expired_is_none_for_every_command() {
        let mut keys = Keyspace::new(1 << 20);
        let make = |keys: &mut Keyspace| {
            keys.flush(None);
            keys.add(0, b"k", 7, t(0)).unwrap();
            assert!(keys.expire(0, b"k", t(1_000), ExpireConditions::default(), t(0)));
        };
        make(&mut keys);
        assert_eq!(keys.left(0, b"k", t(1)), Some(Some(Micros::new(999))));
        assert_eq!(keys.left(0, b"k", t(1_000)), Some(Some(Micros::ZERO)));
        assert_eq!(keys.left(0, b"k", t(1_001)), None);
        make(&mut keys);
        assert_eq!(keys.get(0, b"k", t(1_001)).unwrap(), None);
        make(&mut keys);
        assert_eq!(keys.exist(0, [&b"k"[..]].into_iter(), t(1_001)), 0);
        make(&mut keys);
        assert_eq!(keys.delete(0, [&b"k"[..]].into_iter(), t(1_001)), 0);
        make(&mut keys);
        assert_eq!(keys.kind(0, b"k", t(1_001)), "none");
        make(&mut keys);
        assert!(!keys.expire(0, b"k", t(5_000), ExpireConditions::default(), t(1_001)));
        make(&mut keys);
        assert_eq!(keys.add(0, b"k", 1, t(1_001)).unwrap(), 1);
        assert_eq!(keys.left(0, b"k", t(1_001)), Some(None));
        make(&mut keys);
        assert!(
            !keys.set(0, b"k", b"x", SetOptions { only_if: Some(true), ..SetOptions::default() }, t(1_001)).unwrap()
        );
    }

    #[test]
    fn at_the_cap_a_plain_key_is_refused_and_those_there_go_on() {
        let mut keys = Keyspace::new(8_000);
        let mut made = 0;
        while keys.add(0, format!("k{made}").as_bytes(), 1, t(0)).is_ok() {
            made += 1;
        }
        assert!((10..40).contains(&made), "{made}");
        assert!(keys.counts().bytes <= 7_000);
        assert_eq!(keys.add(0, b"k0", 1, t(0)).unwrap(), 2);
        let error = keys.set(0, b"k0", &[b'x'; 1_000], SetOptions::default(), t(0)).unwrap_err();
        assert!(error.to_string().starts_with("OOM expected room for"), "{error}");
        assert_eq!(keys.get(0, b"k0", t(0)).unwrap().as_deref(), Some(&b"2"[..]));
        // A key that expires makes room.
        keys.expire(0, b"k1", t(10), ExpireConditions::default(), t(0));
        assert!(keys.add(0, b"new", 1, t(10)).is_err());
        assert!(keys.add(0, b"new", 1, t(11)).is_ok());
    }
}
