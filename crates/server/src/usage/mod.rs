//! Who used how much of a policy, and when last, for policies that ask for it. In memory only: a restart
//! begins anew.
//!
//! | file | what it is |
//! |---|---|
//! | `recent.rs` | the keys used last, within a number |
//! | `mod.rs` | what is kept of a key |
//!
//! A key is kept as 128 bits of a hash by a secret of the process: however long keys are, each costs the
//! same, and whoever reads the memory does not find them.

mod recent;

#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use recent::{Ident, Recent};
use tollgate_core::{Decision, Timestamp};

/// Keys that are kept, in the whole server. Beyond that, whoever was used longest ago goes first.
const MOST: usize = 100_000;

/// What a key used of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Decisions; peeks are none.
    pub(crate) requests: u64,
    /// Of these, those that were refused.
    pub(crate) refused: u64,
    /// Units granted. What was refunded since is not taken off.
    pub(crate) units: u64,
    /// By the clock that decides.
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

/// What keys used.
#[derive(Debug)]
pub(crate) struct Usage {
    recent: Mutex<Recent>,
    secrets: [RandomState; 2],
}

impl Default for Usage {
    fn default() -> Self {
        Self { recent: Mutex::new(Recent::new(MOST)), secrets: Default::default() }
    }
}

impl Usage {
    /// Counts decisions of a policy, each with its key.
    pub(crate) fn count<'a>(&self, policy: &str, keys: impl IntoIterator<Item = &'a [u8]>, decisions: &[Decision]) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, decision) in keys.into_iter().zip(decisions) {
            let used = recent.touch(self.ident(policy, key));
            if used.requests == 0 {
                used.first = decision.at;
            }
            used.requests += 1;
            used.refused += u64::from(!decision.allowed);
            used.units = used.units.saturating_add(decision.granted);
            used.last = used.last.max(decision.at);
        }
    }

    /// What a key used; all zeros if it is not known, or no longer.
    pub(crate) fn of(&self, policy: &str, key: &[u8]) -> Used {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).get(self.ident(policy, key)).unwrap_or_default()
    }

    /// Keys that are kept.
    pub(crate) fn len(&self) -> usize {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn ident(&self, policy: &str, key: &[u8]) -> Ident {
        let [one, two] = &self.secrets;
        [one.hash_one((policy, key)), two.hash_one((policy, key))]
    }
}

/// `12 requests, 2 of them refused, 10 units granted; first at …us, last at …us`
impl std::fmt::Display for Used {
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
