//! The gate: a policy over the embedded store.

use std::path::Path;
use std::sync::Arc;

use tollgate_kernel::{Cost, Decision, Detail, JointDecision, Policy, Request, StoreError, Timestamp};
use tollgate_memory::{Memory, MemoryPolicy, MemoryStats};

use crate::builder::GateBuilder;
use crate::error::Error;
use crate::request::GateRequest;

/// A policy that keys are checked against. Clones share their state.
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
    prepared: MemoryPolicy,
    /// The policies that [`Gate::policy`] searches.
    policies: Arc<[MemoryPolicy]>,
}

impl Gate {
    /// Creates a gate for this policy text over its own store of at most 64 MiB.
    pub fn memory(policy: &str) -> Result<Self, Error> {
        Self::builder().policy(policy).build()
    }

    /// Returns a builder for a gate with several named policies, another memory cap or clock, or a snapshot.
    pub fn builder() -> GateBuilder {
        GateBuilder::default()
    }

    pub(crate) fn over(memory: Memory, prepared: MemoryPolicy, policies: Arc<[MemoryPolicy]>) -> Self {
        Self { memory, prepared, policies }
    }

    /// Decides a request for one unit, and charges it if it is allowed.
    #[inline]
    pub fn check(&self, key: impl AsRef<[u8]>) -> Result<Decision, StoreError> {
        self.memory.check(self.prepared(), key.as_ref(), &Request::ONE)
    }

    /// Returns the decision that a check would make, without charging anything.
    pub fn peek(&self, key: impl AsRef<[u8]>) -> Result<Decision, StoreError> {
        self.memory.check(self.prepared(), key.as_ref(), &Request::ONE.peek())
    }

    /// Starts a request with its own cost or mode.
    pub fn ask<'a, K: AsRef<[u8]> + ?Sized>(&'a self, key: &'a K) -> GateRequest<'a> {
        GateRequest::new(self, key.as_ref())
    }

    /// Decides the given request, and charges what it grants unless it is a peek.
    #[inline]
    pub fn decide(&self, key: impl AsRef<[u8]>, request: &Request) -> Result<Decision, StoreError> {
        self.memory.check(self.prepared(), key.as_ref(), request)
    }

    /// Decides like [`Gate::decide`], and also returns the details of each limit in policy order.
    pub fn decide_full(&self, key: impl AsRef<[u8]>, request: &Request) -> Result<(Decision, Vec<Detail>), StoreError> {
        self.memory.check_full(self.prepared(), key.as_ref(), request)
    }

    /// Deletes the state of the key under this policy.
    pub fn reset(&self, key: impl AsRef<[u8]>) -> Result<(), StoreError> {
        self.memory.reset(self.prepared(), key.as_ref())
    }

    /// Refunds what the limits still hold of `units` charged at `at`, the time of a decision, and returns the number of
    /// units refunded. This is never more than what the limits still hold of that charge, so refunds cannot be used to
    /// get more than the policy allows.
    pub fn refund(&self, key: impl AsRef<[u8]>, units: u64, at: Timestamp) -> Result<u64, StoreError> {
        let units = Cost::new(units).ok_or(StoreError::Cost(units))?;
        self.memory.refund(self.prepared(), key.as_ref(), units, at)
    }

    /// Checks many keys in one call, one unit each. For many keys this is much faster than checking them one by one.
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

    /// Checks like [`Gate::check_many`], but writes into a vector of the caller, which is cleared first.
    pub fn check_many_into<K: AsRef<[u8]>>(&self, keys: &[K], decisions: &mut Vec<Decision>) -> Result<(), StoreError> {
        self.memory.check_many(self.prepared(), keys, &Request::ONE, decisions)
    }

    /// Decides several requests together: either all of them are charged or none is. Modes are ignored. If the requests
    /// do not all fit, `allowed` of each decision reports whether that request fits, and nothing is granted.
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
    pub fn check_all(&self, requests: &[GateRequest<'_>]) -> Result<JointDecision, StoreError> {
        let mut items = Vec::with_capacity(requests.len());
        for request in requests {
            if !self.memory.same(&request.gate().memory) {
                return Err(StoreError::OtherHome);
            }
            items.push((request.gate().prepared(), request.key(), request.units()?));
        }
        self.memory.check_all(&items)
    }

    /// Writes all keys of the store to a file, which is replaced atomically. Other threads may check meanwhile. Returns
    /// the number of keys written. [`GateBuilder::restore`] reads the file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        Ok(self.memory.save(path)?)
    }

    /// Returns the gate of the policy named `name`, over the same store.
    pub fn policy(&self, name: &str) -> Option<Self> {
        let prepared = self.policies.iter().find(|prepared| prepared.policy().name() == name)?.clone();
        Some(Self { prepared, ..self.clone() })
    }

    /// Returns the policy that this gate checks against.
    pub fn current(&self) -> &Policy {
        self.prepared().policy()
    }

    /// Returns the store, which can also decide under other policies.
    pub fn store(&self) -> &Memory {
        &self.memory
    }

    /// Returns the number of keys and bytes in the store, and how often the memory cap took effect.
    pub fn stats(&self) -> MemoryStats {
        self.memory.stats()
    }

    #[inline]
    pub(crate) fn prepared(&self) -> &MemoryPolicy {
        &self.prepared
    }
}
