//! Keys and patterns that are always allowed, or always refused.

use std::collections::HashSet;

use tollgate_config::Pattern;

/// A list. Whole keys are looked up by hash, however many there are; patterns are tried one by one.
#[derive(Debug, Default)]
pub(crate) struct MatchList {
    keys: HashSet<Box<[u8]>, foldhash::quality::RandomState>,
    globs: Vec<Pattern>,
}

impl MatchList {
    pub(crate) fn new(patterns: &[Pattern]) -> Self {
        let mut list = Self::default();
        for pattern in patterns {
            match pattern.key() {
                Some(key) => drop(list.keys.insert(key.into())),
                None => list.globs.push(pattern.clone()),
            }
        }
        list
    }

    pub(crate) fn has(&self, key: &[u8]) -> bool {
        !self.keys.is_empty() && self.keys.contains(key) || self.globs.iter().any(|glob| glob.matches(key))
    }
}
