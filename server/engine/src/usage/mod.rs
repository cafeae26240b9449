//! The usage of keys under policies that record it: how much each key used, and when last. It is in memory only: a
//! restart begins from zero.
//!
//! | file | what it is |
//! |---|---|
//! | `recent.rs` | the keys used last, up to a bounded number |
//! | `mod.rs` | what is recorded of a key |
//!
//! A key is stored as a 128-bit hash with a secret of the process: keys of any length take the same space, and the
//! memory does not reveal them.

mod recent;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use recent::{RecentKeys, UsageKey};
use tollgate_kernel::{Decision, Timestamp};

/// The most keys that are recorded in the whole server. Beyond that, the key used longest ago is dropped first.
pub const MAX_KEYS: usize = 100_000;

/// The usage of a key under a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageRecord {
    /// Decisions, not counting peeks.
    pub requests: u64,
    /// Decisions that refused.
    pub refused: u64,
    /// Units granted. Later refunds are not subtracted.
    pub units: u64,
    /// When it was first used, by the clock that decides.
    pub first: Timestamp,
    /// When it was last used.
    pub last: Timestamp,
}

/// The usage of keys.
#[derive(Debug)]
pub struct UsageTracker {
    recent: Mutex<RecentKeys>,
    secrets: [RandomState; 2],
}

impl Default for UsageTracker {
    fn default() -> Self {
        Self { recent: Mutex::new(RecentKeys::new(MAX_KEYS)), secrets: Default::default() }
    }
}

impl UsageTracker {
    /// Counts decisions of a policy, each with its key.
    pub fn count<'a>(&self, policy: &str, keys: impl IntoIterator<Item = &'a [u8]>, decisions: &[Decision]) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, decision) in keys.into_iter().zip(decisions) {
            let used = recent.touch(self.usage_key(policy, key));
            if used.requests == 0 {
                used.first = decision.at;
            }
            used.requests += 1;
            used.refused += u64::from(!decision.allowed);
            used.units = used.units.saturating_add(decision.granted);
            used.last = used.last.max(decision.at);
        }
    }

    /// Returns the usage of a key; all zeros if it is not recorded, or no longer.
    pub fn of(&self, policy: &str, key: &[u8]) -> UsageRecord {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).get(self.usage_key(policy, key)).unwrap_or_default()
    }

    /// Returns the number of keys that are recorded.
    pub fn keys(&self) -> usize {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn usage_key(&self, policy: &str, key: &[u8]) -> UsageKey {
        let [one, two] = &self.secrets;
        [one.hash_one((policy, key)), two.hash_one((policy, key))]
    }
}

/// Formats `12 requests, 2 of them refused, 10 units granted; first at …us, last at …us`.
impl std::fmt::Display for UsageRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { requests, refused, units, first, last } = self;
        if *requests == 0 {
            return f.write_str("not used as far as is known here");
        }
        let (first, last) = (first.get(), last.get());
        write!(f, "{requests} requests, {refused} of them refused, {units} units granted; ")?;
        write!(f, "first at {first}us, last at {last}us")
    }
}
