//! One side of a change: the rule that a key falls under, and what that decides.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_config::{Pattern, PolicyEntry};
use tollgate_kernel::{KeyState, Policy, Request, Timestamp};

/// A policy with its lists and overrides, indexed so that a key is found at once.
pub(super) struct PolicySide {
    entry: Arc<PolicyEntry>,
    allow: PatternIndex,
    deny: PatternIndex,
    /// The places of overrides by key, and of those that are patterns.
    own: HashMap<Box<[u8]>, usize>,
    globs: Vec<usize>,
}

/// The rule that a key falls under, at any time.
pub(super) enum KeyRule {
    Allowed,
    Denied,
    /// The overrides that match, in their order, up to the first one without an end.
    Limits(Vec<usize>),
}

impl PolicySide {
    pub(super) fn new(entry: Arc<PolicyEntry>) -> Self {
        let (mut own, mut globs) = (HashMap::new(), Vec::new());
        for (place, one) in entry.overrides.iter().enumerate() {
            match one.key.key() {
                Some(key) => drop(own.insert(key.into(), place)),
                None => globs.push(place),
            }
        }
        Self { allow: PatternIndex::new(&entry.allow), deny: PatternIndex::new(&entry.deny), own, globs, entry }
    }

    /// Returns its limits as policy text.
    pub(super) fn text(&self) -> String {
        self.entry.policy.to_string()
    }

    /// Returns the rule of a key, found once for all its requests.
    pub(super) fn rule(&self, key: &[u8]) -> KeyRule {
        if self.allow.has(key) {
            return KeyRule::Allowed;
        }
        if self.deny.has(key) {
            return KeyRule::Denied;
        }
        let overrides = &self.entry.overrides;
        let mut places: Vec<_> =
            self.globs.iter().copied().filter(|&place| overrides[place].key.matches(key)).collect();
        places.extend(self.own.get(key));
        places.sort_unstable();
        let last = places.iter().position(|&place| overrides[place].until.is_none());
        places.truncate(last.map_or(places.len(), |last| last + 1));
        KeyRule::Limits(places)
    }

    /// Decides and charges a request; returns whether it passes.
    pub(super) fn allows(&self, rule: &KeyRule, state: &mut KeyState, now: Timestamp, request: &Request) -> bool {
        match rule {
            KeyRule::Allowed => true,
            KeyRule::Denied => self.entry.shadow,
            KeyRule::Limits(places) => {
                let decision = state.decide(self.policy(places, now), now, request);
                decision.allowed || self.entry.shadow
            }
        }
    }

    fn policy(&self, places: &[usize], now: Timestamp) -> &Policy {
        let overrides = places.iter().filter_map(|&place| self.entry.overrides.get(place));
        overrides.into_iter().find(|own| !own.has_ended(now)).map_or(&self.entry.policy, |own| &own.policy)
    }
}

/// Keys in a hash set, patterns in a list.
struct PatternIndex {
    keys: HashSet<Box<[u8]>>,
    globs: Vec<Pattern>,
}

impl PatternIndex {
    fn new(patterns: &[Pattern]) -> Self {
        let keys = patterns.iter().filter_map(|pattern| pattern.key().map(Box::from)).collect();
        Self { keys, globs: patterns.iter().filter(|pattern| pattern.key().is_none()).cloned().collect() }
    }

    fn has(&self, key: &[u8]) -> bool {
        self.keys.contains(key) || self.globs.iter().any(|glob| glob.matches(key))
    }
}
