//! The keys that were changed since a snapshot began. A snapshot does not represent a single moment, so the first
//! change of a key after its beginning is written as the whole state of the key. That corrects what the snapshot has
//! too much or too little for the key, except for what the key has in a bucket that it shares. The same is done for
//! keys that were decided since the clock was set back.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};

/// The most keys that are recorded; for further keys, every change is written whole.
const MAX: usize = 1_000_000;

/// The keys that were written whole.
#[derive(Debug, Default)]
pub(super) struct TouchedKeys {
    /// The journal file in which they were written.
    file: u64,
    /// The keys by two unpredictable hashes: a collision of both is not to be expected.
    keys: HashSet<u128, foldhash::fast::RandomState>,
    secrets: [RandomState; 2],
    most: usize,
}

impl TouchedKeys {
    pub(super) fn new() -> Self {
        Self { most: MAX, ..Self::default() }
    }

    /// Returns whether a key of `scope` was written whole in this file; records that it was.
    pub(super) fn touch(&mut self, file: u64, scope: impl Hash + Copy, key: &[u8]) -> bool {
        if self.file != file {
            self.keys.clear();
            self.file = file;
        }
        let [one, two] = self.secrets.each_ref().map(|secret| secret.hash_one((scope, key)));
        let hash = u128::from(one) << 64 | u128::from(two);
        if self.keys.len() >= self.most {
            return self.keys.contains(&hash);
        }
        !self.keys.insert(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_touched_once_a_file_and_not_for_another() {
        let mut touched = TouchedKeys::new();
        assert!(!touched.touch(1, (0, 7), b"a"));
        assert!(touched.touch(1, (0, 7), b"a"));
        assert!(!touched.touch(1, (0, 8), b"a"));
        assert!(!touched.touch(1, (1, 7), b"a"));
        assert!(!touched.touch(2, (0, 7), b"a"));
        assert!(touched.touch(2, (0, 7), b"a"));
    }

    #[test]
    fn more_keys_than_are_remembered_are_told_whole_each_time() {
        let mut touched = TouchedKeys { most: 3, ..TouchedKeys::new() };
        for key in [b"a", b"b", b"c", b"d", b"d"] {
            assert!(!touched.touch(1, (0, 0), key));
        }
        assert!(touched.touch(1, (0, 0), b"a"));
        assert_eq!(touched.keys.len(), 3);
    }
}
