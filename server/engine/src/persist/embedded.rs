//! The embedded home: the store in this process, and the persistence of its decisions, if it is enabled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tollgate_journal::JournalError;
use tollgate_kernel::{
    Clock, Cost, Decision, Detail, JointDecision, Micros, OnError, Policy, Request, Source, StoreError, Timestamp, Wait,
};
use tollgate_memory::{Memory, MemoryRefund, MemoryStats};

use super::binding::{Binding, PersistFailure};
use super::embedded_policy::EmbeddedPolicy;
use super::frame::{Charge, Refund};
use super::frame_writer::EmbeddedRequest;
use super::note::Note;
use super::sections::BanLister;
use crate::counts::PolicyOwner;
use tollgate_keyspace::{ClockReadings, DialectCall, Keyspace};

/// The time to wait that a refusal reports while nothing can be persisted.
const CLOSED_FOR: Micros = Micros::from_secs(5);

/// The store in this process. Whatever changes the store goes through this type, which frames it.
pub struct EmbeddedHome {
    memory: Memory,
    binding: Option<Arc<Binding>>,
    /// The binding again, if decisions are framed.
    framing: Option<Arc<Binding>>,
    clock: Box<dyn Clock>,
    next_id: AtomicU64,
}

impl EmbeddedHome {
    /// Returns the store without persistence.
    pub fn new(memory: Memory, clock: Box<dyn Clock>) -> Self {
        Self::bound(memory, None, clock)
    }

    /// Returns the store, with or without persistence.
    pub(super) fn bound(memory: Memory, binding: Option<Arc<Binding>>, clock: Box<dyn Clock>) -> Self {
        let framing = binding.clone().filter(|binding| binding.frames());
        Self { memory, binding, framing, clock, next_id: AtomicU64::new(1) }
    }

    /// Returns the binding to the journal, if persistence is enabled.
    pub(crate) fn binding(&self) -> Option<&Arc<Binding>> {
        self.binding.as_ref()
    }

    /// Returns the statistics of the store.
    pub fn stats(&self) -> MemoryStats {
        self.memory.stats()
    }

    /// Writes a snapshot while others decide; returns its size in bytes, 0 if persistence is not enabled. `late` returns
    /// whether the time for it has run out.
    pub(crate) fn snapshot(
        &self,
        keys: &Mutex<Keyspace>,
        bans: &BanLister<'_>,
        now: ClockReadings,
        late: &(dyn Fn() -> bool + Sync),
    ) -> Result<u64, JournalError> {
        self.binding.as_ref().map_or(Ok(0), |binding| binding.snapshot(&self.memory, keys, bans, now, late))
    }

    /// Prepares a policy for decisions.
    pub fn prepare(&self, policy: &Policy, owner: PolicyOwner) -> Result<EmbeddedPolicy, StoreError> {
        let latest = self.framing.as_ref().map(|binding| Arc::clone(&binding.latest)).unwrap_or_default();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let prepared = match owner {
            PolicyOwner::Servers | PolicyOwner::Overrides => self.memory.prepare(policy)?,
            PolicyOwner::Callers => self.memory.prepare_for_caller(policy)?,
        };
        Ok(EmbeddedPolicy::new(prepared, policy, owner, id, latest))
    }

    /// Decides one request on each of the keys, in order.
    #[inline]
    pub fn check_many(
        &self,
        policy: &EmbeddedPolicy,
        keys: &[&[u8]],
        request: &Request,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), StoreError> {
        let decide = |decisions: &mut Vec<Decision>| match keys {
            [key] => {
                decisions.clear();
                self.memory.check(policy, key, request).map(|decision| decisions.push(decision))
            }
            keys => self.memory.check_many(policy, keys, request, decisions),
        };
        let Some(binding) = &self.framing else { return decide(decisions) };
        let away = binding.is_away();
        if away && policy.on_error() != OnError::Local {
            keys.iter().try_for_each(|key| StoreError::check_key(key))?;
            decisions.clear();
            decisions.extend(keys.iter().map(|_| self.away(policy, request.cost)));
            return Ok(());
        }
        if request.peek {
            decide(decisions)?;
        } else {
            // A journal that failed stores nothing; one that is about to recover already does.
            let mut writer = binding.lock();
            decide(decisions)?;
            writer.frame_charges(&self.memory, &EmbeddedRequest { policy, keys, request }, decisions);
        }
        if away {
            decisions.iter_mut().for_each(|decision| *decision = local(*decision));
        }
        Ok(())
    }

    /// Decides a request.
    pub fn check(&self, policy: &EmbeddedPolicy, key: &[u8], request: &Request) -> Result<Decision, StoreError> {
        if self.framing.is_none() {
            return self.memory.check(policy, key, request);
        }
        let mut decisions = Vec::with_capacity(1);
        self.check_many(policy, &[key], request, &mut decisions)?;
        Ok(decisions.pop().unwrap_or_else(|| self.closed()))
    }

    /// Decides a request; also returns the details of each limit.
    pub fn check_full(
        &self,
        policy: &EmbeddedPolicy,
        key: &[u8],
        request: &Request,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        let Some(binding) = &self.framing else { return self.memory.check_full(policy, key, request) };
        let away = binding.is_away();
        if away && policy.on_error() != OnError::Local {
            StoreError::check_key(key)?;
            let decision = self.away(policy, request.cost);
            return Ok((decision, decision.details(policy.policy())));
        }
        let mut writer = (!request.peek).then(|| binding.lock());
        let (decision, details) = self.memory.check_full(policy, key, request)?;
        if let Some(writer) = &mut writer {
            let checked = EmbeddedRequest { policy, keys: &[key], request };
            writer.frame_charges(&self.memory, &checked, std::slice::from_ref(&decision));
        }
        Ok((if away { local(decision) } else { decision }, details))
    }

    /// Decides several keys together: all are charged or none is.
    pub fn check_all(&self, parts: &[(&EmbeddedPolicy, &[u8], Cost)]) -> Result<JointDecision, StoreError> {
        let Some(binding) = &self.framing else {
            let items: Vec<_> = parts.iter().map(|(policy, key, cost)| (&***policy, *key, *cost)).collect();
            return self.memory.check_all(&items);
        };
        let decide = |parts: &[(&EmbeddedPolicy, &[u8], Cost)]| self.decide_all(binding, parts);
        if binding.is_away() { self.check_all_away(parts, decide) } else { decide(parts) }
    }

    fn decide_all(
        &self,
        binding: &Binding,
        parts: &[(&EmbeddedPolicy, &[u8], Cost)],
    ) -> Result<JointDecision, StoreError> {
        let items: Vec<_> = parts.iter().map(|(policy, key, cost)| (&***policy, *key, *cost)).collect();
        let mut writer = binding.lock();
        let together = self.memory.check_all(&items)?;
        // Keys that share a place are charged as one there, and individually here.
        let charged = parts.iter().zip(&together.decisions).map(|((policy, key, cost), decision)| {
            let units = if together.allowed { cost.get() } else { 0 };
            (*policy, Charge { key, units, at: decision.at })
        });
        writer.frame_charges_together(&self.memory, &charged.collect::<Vec<_>>());
        Ok(together)
    }

    /// Decides several keys while nothing can be persisted. Parts of local policies are decided together. Each of the
    /// others is allowed or refused by its `on_error`; if one is refused, nothing is charged.
    fn check_all_away(
        &self,
        parts: &[(&EmbeddedPolicy, &[u8], Cost)],
        decide: impl Fn(&[(&EmbeddedPolicy, &[u8], Cost)]) -> Result<JointDecision, StoreError>,
    ) -> Result<JointDecision, StoreError> {
        parts.iter().try_for_each(|(_, key, _)| StoreError::check_key(key))?;
        let kind = |part: &(&EmbeddedPolicy, &[u8], Cost)| part.0.on_error();
        if parts.iter().any(|part| kind(part) == OnError::Deny) {
            let decisions: Vec<_> = parts.iter().map(|_| self.closed()).collect();
            let waits = decisions.iter().map(|decision| decision.next_after);
            return Ok(JointDecision { allowed: false, retry_after: waits.fold(Wait::NONE, Ord::max), decisions });
        }
        let locals: Vec<_> = parts.iter().filter(|part| kind(part) == OnError::Local).copied().collect();
        let mut together = decide(&locals)?;
        let allowed = together.allowed;
        let mut decided = std::mem::take(&mut together.decisions).into_iter();
        let each = parts.iter().map(|part| match kind(part) {
            OnError::Local => decided.next().map_or_else(|| self.closed(), local),
            _ => Decision::open(part.0.policy(), if allowed { part.2.get() } else { 0 }, self.clock.now()),
        });
        Ok(JointDecision { decisions: each.collect(), ..together })
    }

    /// Resets a key under a policy.
    pub fn reset(&self, policy: &EmbeddedPolicy, key: &[u8]) -> Result<(), StoreError> {
        let Some(binding) = &self.framing else { return self.memory.reset(policy, key) };
        let mut writer = binding.lock();
        self.memory.reset(policy, key)?;
        writer.frame_state(&self.memory, policy, key);
        Ok(())
    }

    /// Refunds units that were charged at a time; returns how many.
    pub fn refund(&self, policy: &EmbeddedPolicy, key: &[u8], units: Cost, at: Timestamp) -> Result<u64, StoreError> {
        let Some(binding) = &self.framing else { return self.memory.refund(policy, key, units, at) };
        let mut writer = binding.lock();
        let MemoryRefund { units: given, t, changed, .. } = self.memory.refund_full(policy, key, units, at)?;
        writer.frame_refund(&self.memory, policy, key, changed.then_some(Refund { units: units.get(), at, t }), t);
        Ok(given)
    }

    /// Returns the decision by a policy's `on_error` while nothing can be persisted; local policies are decided in
    /// memory instead.
    fn away(&self, policy: &EmbeddedPolicy, cost: Cost) -> Decision {
        match policy.on_error() {
            OnError::Allow => Decision::open(policy.policy(), cost.get(), self.clock.now()),
            OnError::Deny | OnError::Local => self.closed(),
        }
    }

    /// Returns a refusal because nothing can be persisted; persistence is retried by the time it names.
    fn closed(&self) -> Decision {
        // The refusal depends on no state, so there is no reset to announce.
        Decision { reset_after: Micros::ZERO, ..Decision::closed(CLOSED_FOR, self.clock.now()) }
    }

    /// Persists a fact, if persistence is enabled.
    pub(crate) fn persist_note(&self, note: &Note) {
        if let Some(binding) = &self.binding {
            binding.persist_note(note);
        }
    }

    /// Frames what a plain command changed of the keys, which are locked.
    #[inline]
    pub(crate) fn persist_changes(&self, keys: &mut Keyspace) {
        if let Some(binding) = &self.framing {
            binding.persist_changes(keys);
        }
    }

    /// Frames a call of a dialect that was just decided on the keys, which are locked.
    #[inline]
    pub(crate) fn persist_call(&self, keys: &mut Keyspace, call: &DialectCall, now: Timestamp) {
        if let Some(binding) = &self.framing {
            binding.persist_call(keys, call, now);
        }
    }

    /// Returns whether decisions are made without being persisted.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.framing.as_ref().is_some_and(|binding| binding.is_away())
    }

    /// Waits until everything decided so far may be reported to callers.
    #[inline]
    pub async fn settled(&self) -> Result<(), PersistFailure> {
        match &self.framing {
            None => Ok(()),
            Some(binding) => binding.settled().await,
        }
    }
}

/// Marks a decision as made in memory alone.
fn local(decision: Decision) -> Decision {
    Decision { source: Source::Local, ..decision }
}
