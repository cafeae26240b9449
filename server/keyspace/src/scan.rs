//! SCAN: iterating over all keys in steps. A cursor is a place in an order that never changes, so no key that stays is
//! missed, and no key is returned twice.

use tollgate_kernel::matches;

use super::{ClockReadings, Keyspace};

/// The most keys that one call examines.
const MAX: usize = 1_000;
/// The number of matching steps after which a call ends.
const MAX_STEPS: usize = 1 << 14;

/// The number of bytes of keys after which a call ends.
const MAX_BYTES: usize = 64 << 10;

/// The options of SCAN.
#[derive(Clone, Copy, Debug)]
pub struct ScanOptions<'a> {
    /// The place to continue from; 0 at first.
    pub cursor: u64,
    /// The approximate number of keys to examine.
    pub count: usize,
    /// The glob pattern that keys must match.
    pub pattern: Option<&'a [u8]>,
    /// The type that values must have, as TYPE replies it.
    pub kind: Option<&'a [u8]>,
}

impl Keyspace {
    /// Returns keys from the cursor on, and the cursor to continue from: 0 at the end.
    pub fn scan(&mut self, db: u8, scan: &ScanOptions<'_>, now: impl Into<ClockReadings>) -> (u64, Vec<Vec<u8>>) {
        let now = now.into();
        self.table.sweep(now);
        let (mut found, mut seen, mut bytes, mut steps, mut last) = (Vec::new(), 0, 0, 0, 0);
        let most = scan.count.clamp(1, MAX);
        for (place, key, entry) in self.table.from(db, scan.cursor) {
            // Keys of one place stay together.
            if place != last && (seen >= most || steps > MAX_STEPS || bytes > MAX_BYTES) {
                return (place, found);
            }
            (last, seen) = (place, seen + 1);
            let wanted = entry.lives(now)
                && scan.kind.is_none_or(|kind| entry.value.kind().as_bytes().eq_ignore_ascii_case(kind))
                && scan.pattern.is_none_or(|pattern| matches(pattern, key, &mut steps));
            if wanted {
                bytes += key.len();
                found.push(key.to_vec());
            }
        }
        (0, found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tollgate_kernel::Timestamp;

    use super::*;
    use crate::SetOptions;

    const NOW: Timestamp = Timestamp::saturating(1_700_000_000_000_000);

    fn scan(cursor: u64, count: usize) -> ScanOptions<'static> {
        ScanOptions { cursor, count, pattern: None, kind: None }
    }

    #[test]
    fn a_key_that_stays_is_found_once_whatever_comes_and_goes() {
        let mut keys = Keyspace::new(1 << 24);
        let name = |place: usize| format!("key:{place}").into_bytes();
        (0..2_000).for_each(|place| assert!(keys.set(0, &name(place), b"x", SetOptions::default(), NOW).unwrap()));
        let (mut cursor, mut found, mut calls) = (0, Vec::new(), 0);
        loop {
            let (next, some) = keys.scan(0, &scan(cursor, 10), NOW);
            assert!(some.len() <= 10);
            found.extend(some);
            // Every other key is removed, and others are added.
            keys.delete(0, [name(1 + 2 * (calls % 1_000)).as_slice()].into_iter(), NOW);
            keys.set(0, &name(10_000 + calls), b"x", SetOptions::default(), NOW).unwrap();
            (cursor, calls) = (next, calls + 1);
            if cursor == 0 {
                break;
            }
            assert!(calls < 1_000);
        }
        let different: HashSet<_> = found.iter().collect();
        assert_eq!(different.len(), found.len());
        (0..2_000).step_by(2).for_each(|place| assert!(different.contains(&name(place)), "{place}"));
    }

    #[test]
    fn a_call_is_bounded_whatever_is_asked() {
        let mut keys = Keyspace::new(1 << 24);
        let fill = |keys: &mut Keyspace, long: usize| {
            (0..3_000).for_each(|place| {
                keys.set(0, format!("{place}{}", "a".repeat(long)).as_bytes(), b"", SetOptions::default(), NOW)
                    .unwrap();
            });
        };
        fill(&mut keys, 10);
        let (cursor, found) = keys.scan(0, &scan(0, usize::MAX), NOW);
        assert_eq!((cursor > 0, found.len()), (true, 1_000));
        assert!(cursor < 1 << 53);
        keys.flush(None);
        fill(&mut keys, 1_000);
        let (cursor, found) = keys.scan(0, &scan(0, usize::MAX), NOW);
        assert!(cursor > 0 && found.len() < 70, "{}", found.len());
        // A pattern that is slow to fail ends the call early.
        let pattern = [&b"*a".repeat(60)[..], b"b"].concat();
        let (cursor, found) = keys.scan(0, &ScanOptions { pattern: Some(&pattern), ..scan(0, 1_000) }, NOW);
        assert_eq!((cursor > 0, found.len()), (true, 0));
    }
}
