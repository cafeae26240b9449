//! The gate: a policy over the embedded store.

use std::path::Path;
use std::sync::Arc;

use tollgate_core::{Cost, Decision, Detail, Policy, Request, StoreError, Timestamp, Together};
use tollgate_memory::{Memory, Prepared, Stats};

use crate::ask::Ask;
use crate::builder::Builder;
use crate::error::Error;

/// A policy to check keys against. Clones share their state.
///
/// ```
/// use tollgate::{Gate, Mode};
/// let gate = Gate::memory("5/h")?;
/// assert_eq!(gate.ask("alice").cost(3).check()?.remaining, 2);
/// assert_eq!(gate.ask("alice").cost(3).mode(Mode::Nary).check()?.granted, 2);
/// assert!(!gate.peek("alice")?.allowed);
/// gate.reset("alice")?;
/// assert!(gate.check("alice")?.allowed);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gate {
    memory: Memory,
    prepared: Prepared,
    /// Those that [`Gate::policy`] finds.
    policies: Arc<[Prepared]>,
}

impl Gate {
    /// A gate over a store of its own, at most 64 MiB, for this policy text.
    pub fn memory(policy: &str) -> Result<Self, Error> {
        Self::builder().policy(policy).build()
    }

    /// A gate of several named policies, another cap or clock, or with a snapshot.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn over(memory: Memory, prepared: Prepared, policies: Arc<[Prepared]>) -> Self {
        Self { memory, prepared, policies }
    }

    /// Decides a request for one unit, and charges it if it is allowed.
    #[inline]
    pub fn check(&self, key: impl AsRef<[u8]>) -> Result<Decision, StoreError> {
        self.memory.check(self.prepared(), key.as_ref(), &Request::ONE)
    }

    /// What a check would answer, charging nothing.
    pub fn peek(&self, key: impl AsRef<[u8]>) -> Result<Decision, StoreError> {
        self.memory.check(self.prepared(), key.as_ref(), &Request::ONE.peek())
    }

    /// A question with a cost or a mode of its own.
    pub fn ask<'a, K: AsRef<[u8]> + ?Sized>(&'a self, key: &'a K) -> Ask<'a> {
        Ask::new(self, key.as_ref())
    }

    /// Decides a request made by other means, and charges what it grants unless it is a peek.
    #[inline]
    pub fn decide(&self, key: impl AsRef<[u8]>, request: &Request) -> Result<Decision, StoreError> {
        self.memory.check(self.prepared(), key.as_ref(), request)
    }

    /// The same, with each limit's part in policy order.
    pub fn decide_full(&self, key: impl AsRef<[u8]>, request: &Request) -> Result<(Decision, Vec<Detail>), StoreError> {
        self.memory.check_full(self.prepared(), key.as_ref(), request)
    }

    /// Forgets the key under this policy.
    pub fn reset(&self, key: impl AsRef<[u8]>) -> Result<(), StoreError> {
        self.memory.reset(self.prepared(), key.as_ref())
    }

    /// Gives back what is still held of `units` charged at `at`, the time of a decision; answers the
    /// units given back. They are never more than what the limits still hold of that charge, so giving
    /// back cannot be used to get more than the policy allows.
    pub fn refund(&self, key: impl AsRef<[u8]>, units: u64, at: Timestamp) -> Result<u64, StoreError> {
        let units = Cost::new(units).ok_or(StoreError::Cost(units))?;
        self.memory.refund(self.prepared(), key.as_ref(), units, at)
    }

    /// Checks many keys, one unit each, in one call: much faster than one by one where keys are many.
    ///
    /// ```
    /// let gate = tollgate::Gate::memory("1/h")?;
    /// let decisions = gate.check_many(&["a", "b", "a"])?;
    /// assert_eq!(decisions.iter().filter(|decision| decision.allowed).count(), 2);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn check_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Decision>, StoreError> {
        let mut decisions = Vec::new();
        self.check_many_into(keys, &mut decisions)?;
        Ok(decisions)
    }

    /// As [`Gate::check_many`], into a vector of the caller's, which is emptied first.
    pub fn check_many_into<K: AsRef<[u8]>>(&self, keys: &[K], decisions: &mut Vec<Decision>) -> Result<(), StoreError> {
        self.memory.check_many(self.prepared(), keys, &Request::ONE, decisions)
    }

    /// Decides several questions together: all are charged or none is. Modes do not matter. If they do not
    /// all fit, `allowed` of each decision tells which do, and nothing is granted.
    ///
    /// ```
    /// use tollgate::Gate;
    /// let users = Gate::builder().named("user", "10/s").named("team", "2/s").build()?;
    /// let teams = users.policy("team").unwrap();
    /// let ask = || [users.ask("alice"), teams.ask("red").cost(2)];
    /// assert!(users.check_all(&ask())?.allowed);
    /// assert!(!users.check_all(&ask())?.allowed);
    /// assert_eq!(users.peek("alice")?.remaining, 9);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn check_all(&self, asks: &[Ask<'_>]) -> Result<Together, StoreError> {
        let mut items = Vec::with_capacity(asks.len());
        for ask in asks {
            if !self.memory.same(&ask.gate().memory) {
                return Err(StoreError::OtherHome);
            }
            items.push((ask.gate().prepared(), ask.key(), ask.units()?));
        }
        self.memory.check_all(&items)
    }

    /// Writes all keys of the store to a file, replacing it in one step, while others may check: see
    /// [`Builder::restore`]. Answers how many keys were written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        Ok(self.memory.save(path)?)
    }

    /// The gate of the policy called `name`, over the same store.
    pub fn policy(&self, name: &str) -> Option<Self> {
        let prepared = self.policies.iter().find(|prepared| prepared.policy().name() == name)?.clone();
        Some(Self { prepared, ..self.clone() })
    }

    /// The policy this gate checks against.
    pub fn current(&self) -> &Policy {
        self.prepared().policy()
    }

    /// The store, which can be asked about other policies too.
    pub fn store(&self) -> &Memory {
        &self.memory
    }

    /// Keys and bytes in the store, and how often its cap was felt.
    pub fn stats(&self) -> Stats {
        self.memory.stats()
    }

    #[inline]
    pub(crate) fn prepared(&self) -> &Prepared {
        &self.prepared
    }
}
