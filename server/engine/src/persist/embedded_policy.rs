//! A policy as the embedded store knows it, and as the journal refers to it: by a number, which each file defines
//! before its first use.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_kernel::{Micros, OnError, Policy, Timestamp};
use tollgate_memory::MemoryPolicy;

use super::frame::put_policy;
use crate::counts::PolicyOwner;

/// A policy, and its number in the journal. Clones share the same policy.
#[derive(Clone, Debug)]
pub struct EmbeddedPolicy(Arc<EmbeddedPolicyInner>);

#[derive(Debug)]
struct EmbeddedPolicyInner {
    prepared: MemoryPolicy,
    /// The store keeps one policy for all that have the same limits, so `on_error` is kept here.
    on_error: OnError,
    owner: PolicyOwner,
    id: u64,
    /// The journal file that defines the number; 0 for none.
    file: AtomicU64,
    /// The time of the latest decision under it. If the clock reads less, it was set back.
    highest: AtomicU64,
    /// The time of the latest decision since the clock was last set back.
    latest: AtomicU64,
    /// The number of times the clock was set back.
    spell: AtomicU64,
    /// The time of the latest decision under any policy.
    overall: Arc<AtomicU64>,
}

/// A decision that is earlier than a previous one by more than this was made by a clock that was set back. If the
/// difference is smaller, two processors may merely disagree.
const SET_BACK: Micros = Micros::from_secs(1);

/// A decision that is earlier than a previous one. Deciding may then correct the state of a key, even if nothing is
/// charged, so the whole state of the key is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockLag {
    /// The clock was set back, for the time with this number, and has not read less since. A key that was decided once
    /// since then is not ahead of the clock by more than its limits keep, so it is not corrected again: later changes
    /// of the key are framed individually.
    Once(u64),
    /// The difference is smaller than when a clock is set back.
    Always,
}

impl ClockLag {
    /// Returns what holds for decisions that are framed together.
    pub(super) fn of_all(mut each: impl Iterator<Item = Option<Self>>) -> Option<Self> {
        let first = each.next()?;
        // If the clock was set back between them, no single number holds for all of them.
        each.fold(first, |before, next| if before == next { before } else { Some(Self::Always) })
    }
}

impl EmbeddedPolicy {
    /// Returns a policy with its number. `overall` is the time of the latest decision under any policy.
    pub(super) fn new(
        prepared: MemoryPolicy,
        policy: &Policy,
        owner: PolicyOwner,
        id: u64,
        overall: Arc<AtomicU64>,
    ) -> Self {
        let latest = overall.load(Ordering::Relaxed);
        let [file, spell, highest, latest] = [0, 0, latest, latest].map(AtomicU64::new);
        let on_error = policy.on_error();
        Self(Arc::new(EmbeddedPolicyInner { prepared, on_error, owner, id, file, highest, latest, spell, overall }))
    }

    pub(super) fn id(&self) -> u64 {
        self.0.id
    }

    pub(super) fn on_error(&self) -> OnError {
        self.0.on_error
    }

    /// Writes the definition of the number, unless `file` contains it. The order lock is held.
    pub(super) fn define(&self, file: u64, to: &mut Vec<u8>) {
        if self.0.file.load(Ordering::Relaxed) != file {
            put_policy(self.0.id, self.policy(), self.0.owner, self.may_pack(), to);
            self.0.file.store(file, Ordering::Relaxed);
        }
    }

    /// Returns whether a decision is earlier than a previous one. The order lock is held.
    #[inline]
    pub(super) fn clock_lag(&self, at: Timestamp) -> Option<ClockLag> {
        let inner = &*self.0;
        if at.get() < inner.highest.load(Ordering::Relaxed) {
            return Some(self.set_back(at));
        }
        inner.highest.store(at.get(), Ordering::Relaxed);
        inner.latest.store(at.get(), Ordering::Relaxed);
        if at.get() > inner.overall.load(Ordering::Relaxed) {
            inner.overall.store(at.get(), Ordering::Relaxed);
        }
        None
    }

    #[cold]
    fn set_back(&self, at: Timestamp) -> ClockLag {
        let inner = &*self.0;
        let latest = Timestamp::saturating(inner.latest.load(Ordering::Relaxed));
        if at < latest && latest.since(at) <= SET_BACK {
            return ClockLag::Always;
        }
        inner.latest.store(at.get(), Ordering::Relaxed);
        if at < latest {
            inner.spell.fetch_add(1, Ordering::Relaxed);
        }
        ClockLag::Once(inner.spell.load(Ordering::Relaxed))
    }
}

impl Deref for EmbeddedPolicy {
    type Target = MemoryPolicy;

    fn deref(&self) -> &MemoryPolicy {
        &self.0.prepared
    }
}

#[cfg(test)]
mod tests {
    use tollgate_memory::{MIN_CAP, Memory};

    use super::*;

    fn t(secs: u64) -> Timestamp {
        Timestamp::saturating(1_700_000_000_000_000 + secs * 1_000_000)
    }

    #[test]
    fn a_clock_that_is_set_back_begins_a_spell_until_it_has_caught_up() {
        let overall = Arc::new(AtomicU64::new(t(100).get()));
        let policy: Policy = "5/min".parse().unwrap();
        let policy_under_test = EmbeddedPolicy::new(
            Memory::new(MIN_CAP).prepare(&policy).unwrap(),
            &policy,
            PolicyOwner::Servers,
            1,
            Arc::clone(&overall),
        );
        assert_eq!(policy_under_test.clock_lag(t(100)), None);
        // Slightly earlier is not a set-back clock.
        assert_eq!(policy_under_test.clock_lag(t(99)), Some(ClockLag::Always));
        assert_eq!(policy_under_test.clock_lag(t(50)), Some(ClockLag::Once(1)));
        assert_eq!(policy_under_test.clock_lag(t(60)), Some(ClockLag::Once(1)));
        assert_eq!(policy_under_test.clock_lag(t(59)), Some(ClockLag::Always));
        assert_eq!(policy_under_test.clock_lag(t(60)), Some(ClockLag::Once(1)));
        assert_eq!(policy_under_test.clock_lag(t(40)), Some(ClockLag::Once(2)));
        assert_eq!(policy_under_test.clock_lag(t(101)), None);
        assert_eq!(policy_under_test.clock_lag(t(40)), Some(ClockLag::Once(3)));
        assert_eq!(overall.load(Ordering::Relaxed), t(101).get());
        let all = |each: &[Option<ClockLag>]| ClockLag::of_all(each.iter().copied());
        assert_eq!(all(&[]), None);
        assert_eq!(all(&[Some(ClockLag::Once(1)), Some(ClockLag::Once(1))]), Some(ClockLag::Once(1)));
        assert_eq!(all(&[None, Some(ClockLag::Once(1))]), Some(ClockLag::Always));
    }
}
