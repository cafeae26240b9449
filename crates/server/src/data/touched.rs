//! Which keys were changed since a snapshot was begun. A snapshot is not of one moment, so the first change of a
//! key after its beginning is told whole: that puts right what the snapshot has too much or too little of it, but for
//! what the key has in a bucket that it shares. The same for keys that were decided since the clock was set back.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};

/// Keys that are remembered; beyond, every change is told whole.
const MOST: usize = 1_000_000;

/// Keys that were told whole.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// The file of the journal in which they were.
    file: u64,
    /// By two hashes, of which nobody can foresee either: two keys of both are not to be met with.
    keys: HashSet<u128, foldhash::fast::RandomState>,
    secrets: [RandomState; 2],
    most: usize,
}

impl Touched {
    pub(super) fn new() -> Self {
        Self { most: MOST, ..Self::default() }
    }

    /// Whether a key of `scope` was told whole in this file; from now on it was.
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
        let mut touched = Touched::new();
        assert!(!touched.touch(1, (0, 7), b"a"));
        assert!(touched.touch(1, (0, 7), b"a"));
        assert!(!touched.touch(1, (0, 8), b"a"));
        assert!(!touched.touch(1, (1, 7), b"a"));
        assert!(!touched.touch(2, (0, 7), b"a"));
        assert!(touched.touch(2, (0, 7), b"a"));
    }

    #[test]
    fn more_keys_than_are_remembered_are_told_whole_each_time() {
        let mut touched = Touched { most: 3, ..Touched::new() };
        for key in [b"a", b"b", b"c", b"d", b"d"] {
            assert!(!touched.touch(1, (0, 0), key));
        }
        assert!(touched.touch(1, (0, 0), b"a"));
        assert_eq!(touched.keys.len(), 3);
    }
}
