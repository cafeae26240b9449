//! Other limits for some keys. The first in the file that matches and has not ended applies, whether it names a key or
//! a pattern.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_config::{Override, PolicyEntry};
use tollgate_kernel::{StoreError, Timestamp};

use crate::counts::PolicyOwner;
use crate::home::Home;
use crate::ops::Ops;
use crate::policies::EnginePolicy;

/// The overrides of a policy.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    all: Vec<OverrideRule>,
    /// The positions of those that name a key; each key is named once.
    keys: HashMap<Box<[u8]>, usize, foldhash::quality::RandomState>,
    /// The positions of those that name a pattern, in order.
    globs: Vec<usize>,
}

/// Other limits, ready to be used.
#[derive(Debug)]
pub struct OverrideRule {
    pub known: Arc<EnginePolicy>,
    pub definition: Override,
}

impl OverrideRule {
    /// Returns whether it still applies by the machine's clock, which is read only if necessary.
    fn counts(&self, wall: impl FnOnce() -> Timestamp) -> bool {
        self.definition.until.is_none() || !self.definition.has_ended(wall())
    }
}

impl Overrides {
    pub(crate) fn new(entry: &PolicyEntry, home: &Home, ops: &Ops) -> Result<Self, StoreError> {
        let mut overrides = Self::default();
        for (place, definition) in entry.overrides.iter().enumerate() {
            match definition.key.key() {
                // If a key were named twice, the first would apply.
                Some(key) => drop(overrides.keys.entry(key.into()).or_insert(place)),
                None => overrides.globs.push(place),
            }
            let observers = ops.observers(&definition.policy, &entry.alerts, entry.usage);
            let known = Arc::new(EnginePolicy {
                observers,
                ..EnginePolicy::new(definition.policy.clone(), home, PolicyOwner::Overrides)?
            });
            overrides.all.push(OverrideRule { known, definition: definition.clone() });
        }
        Ok(overrides)
    }

    /// Returns the override that applies to a key.
    pub(crate) fn find(&self, key: &[u8], wall: impl Fn() -> Timestamp) -> Option<&OverrideRule> {
        if self.all.is_empty() {
            return None;
        }
        let at = |place: usize| self.all.get(place).filter(|found| found.counts(&wall));
        let named = self.keys.get(key).copied().filter(|place| at(*place).is_some());
        let before = named.unwrap_or(usize::MAX);
        let globs = self.globs.iter().copied().take_while(|place| *place < before);
        let matching = |place: &usize| at(*place).is_some_and(|found| found.definition.key.matches(key));
        at(globs.into_iter().find(matching).or(named)?)
    }
}
