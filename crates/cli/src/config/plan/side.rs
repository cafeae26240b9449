//! One side of a change: which of its rules a key falls under, and what that decides.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_config::{Entry, Pattern};
use tollgate_core::{KeyState, Policy, Request, Timestamp};

/// A policy with its lists and overrides, prepared so that a key is found at once.
pub(super) struct Side {
    entry: Arc<Entry>,
    allow: Names,
    deny: Names,
    /// Places of overrides by key, and of those that are patterns.
    own: HashMap<Box<[u8]>, usize>,
    globs: Vec<usize>,
}

/// What a key falls under, whenever it comes.
pub(super) enum Rule {
    Allowed,
    Denied,
    /// Overrides that match, in their order; none behind one without an end.
    Limits(Vec<usize>),
}

impl Side {
    pub(super) fn new(entry: Arc<Entry>) -> Self {
        let (mut own, mut globs) = (HashMap::new(), Vec::new());
        for (place, one) in entry.overrides.iter().enumerate() {
            match one.key.key() {
                Some(key) => drop(own.insert(key.into(), place)),
                None => globs.push(place),
            }
        }
        Self { allow: Names::new(&entry.allow), deny: Names::new(&entry.deny), own, globs, entry }
    }

    /// Its limits as policy text.
    pub(super) fn text(&self) -> String {
        self.entry.policy.to_string()
    }

    /// The rule of a key, found once for all its requests.
    pub(super) fn rule(&self, key: &[u8]) -> Rule {
        if self.allow.has(key) {
            return Rule::Allowed;
        }
        if self.deny.has(key) {
            return Rule::Denied;
        }
        let overrides = &self.entry.overrides;
        let mut places: Vec<_> =
            self.globs.iter().copied().filter(|&place| overrides[place].key.matches(key)).collect();
        places.extend(self.own.get(key));
        places.sort_unstable();
        let last = places.iter().position(|&place| overrides[place].until.is_none());
        places.truncate(last.map_or(places.len(), |last| last + 1));
        Rule::Limits(places)
    }

    /// Whether a request passes; charges it.
    pub(super) fn allows(&self, rule: &Rule, state: &mut KeyState, now: Timestamp, request: &Request) -> bool {
        match rule {
            Rule::Allowed => true,
            Rule::Denied => self.entry.shadow,
            Rule::Limits(places) => {
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

/// Keys in a table, patterns in a row.
struct Names {
    keys: HashSet<Box<[u8]>>,
    globs: Vec<Pattern>,
}

impl Names {
    fn new(patterns: &[Pattern]) -> Self {
        let keys = patterns.iter().filter_map(|pattern| pattern.key().map(Box::from)).collect();
        Self { keys, globs: patterns.iter().filter(|pattern| pattern.key().is_none()).cloned().collect() }
    }

    fn has(&self, key: &[u8]) -> bool {
        self.keys.contains(key) || self.globs.iter().any(|glob| glob.matches(key))
    }
}
