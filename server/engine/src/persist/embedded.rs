//! The embedded home: the store in this process, and the persistence of its decisions, if it is enabled.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_kernel::{
    Clock, Cost, Decision, Detail, Micros, OnError, Policy, Request, Source, StoreError, Timestamp, Together, Wait,
};
use tollgate_memory::{Memory, Refunded};

use super::binding::{Binding, Unkept};
use super::filed::Filed;
use super::frame::{Charge, Refund};
use super::hand::Asked;
use super::note::Note;
use crate::counts::Whose;
use tollgate_keyspace::{DialectCall, Keys};

/// The time to wait that a refusal reports while nothing can be persisted.
const CLOSED_FOR: Micros = Micros::from_secs(5);

/// The store in this process.
pub struct Embedded {
    memory: Memory,
    binding: Option<Arc<Binding>>,
    /// The binding again, if decisions are framed.
    framing: Option<Arc<Binding>>,
    clock: Box<dyn Clock>,
    next_id: AtomicU64,
}

impl Embedded {
    /// Returns the store, with or without persistence.
    pub fn new(memory: Memory, binding: Option<Arc<Binding>>, clock: Box<dyn Clock>) -> Self {
        let framing = binding.clone().filter(|binding| binding.frames());
        Self { memory, binding, framing, clock, next_id: AtomicU64::new(1) }
    }

    /// Returns the binding to the journal, if persistence is enabled.
    pub fn binding(&self) -> Option<&Arc<Binding>> {
        self.binding.as_ref()
    }

    /// Prepares a policy for decisions.
    pub fn prepare(&self, policy: &Policy, whose: Whose) -> Result<Filed, StoreError> {
        let latest = self.framing.as_ref().map(|binding| Arc::clone(&binding.latest)).unwrap_or_default();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let prepared = match whose {
            Whose::Servers | Whose::Overrides => self.memory.prepare(policy)?,
            Whose::Callers => self.memory.prepare_for_caller(policy)?,
        };
        Ok(Filed::new(prepared, policy, whose, id, latest))
    }

    /// Decides one request on each of the keys, in order.
    #[inline]
    pub fn check_many(
        &self,
        policy: &Filed,
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
            let mut hand = binding.lock();
            decide(decisions)?;
            hand.charged(&self.memory, &Asked { policy, keys, request }, decisions);
        }
        if away {
            decisions.iter_mut().for_each(|decision| *decision = local(*decision));
        }
        Ok(())
    }

    /// Decides a request.
    pub fn check(&self, policy: &Filed, key: &[u8], request: &Request) -> Result<Decision, StoreError> {
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
        policy: &Filed,
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
        let mut hand = (!request.peek).then(|| binding.lock());
        let (decision, details) = self.memory.check_full(policy, key, request)?;
        if let Some(hand) = &mut hand {
            let asked = Asked { policy, keys: &[key], request };
            hand.charged(&self.memory, &asked, std::slice::from_ref(&decision));
        }
        Ok((if away { local(decision) } else { decision }, details))
    }

    /// Decides several keys together: all are charged or none is.
    pub fn check_all(&self, parts: &[(&Filed, &[u8], Cost)]) -> Result<Together, StoreError> {
        let Some(binding) = &self.framing else {
            let items: Vec<_> = parts.iter().map(|(policy, key, cost)| (&***policy, *key, *cost)).collect();
            return self.memory.check_all(&items);
        };
        let decide = |parts: &[(&Filed, &[u8], Cost)]| self.decide_all(binding, parts);
        if binding.is_away() { self.check_all_away(parts, decide) } else { decide(parts) }
    }

    fn decide_all(&self, binding: &Binding, parts: &[(&Filed, &[u8], Cost)]) -> Result<Together, StoreError> {
        let items: Vec<_> = parts.iter().map(|(policy, key, cost)| (&***policy, *key, *cost)).collect();
        let mut hand = binding.lock();
        let together = self.memory.check_all(&items)?;
        // Keys that share a place are charged as one there, and individually here.
        let charged = parts.iter().zip(&together.decisions).map(|((policy, key, cost), decision)| {
            let units = if together.allowed { cost.get() } else { 0 };
            (*policy, Charge { key, units, at: decision.at })
        });
        hand.charged_together(&self.memory, &charged.collect::<Vec<_>>());
        Ok(together)
    }

    /// Decides several keys while nothing can be persisted. Parts of local policies are decided together. Each of the
    /// others is allowed or refused by its `on_error`; if one is refused, nothing is charged.
    fn check_all_away(
        &self,
        parts: &[(&Filed, &[u8], Cost)],
        decide: impl Fn(&[(&Filed, &[u8], Cost)]) -> Result<Together, StoreError>,
    ) -> Result<Together, StoreError> {
        parts.iter().try_for_each(|(_, key, _)| StoreError::check_key(key))?;
        let kind = |part: &(&Filed, &[u8], Cost)| part.0.on_error();
        if parts.iter().any(|part| kind(part) == OnError::Deny) {
            let decisions: Vec<_> = parts.iter().map(|_| self.closed()).collect();
            let waits = decisions.iter().map(|decision| decision.next_after);
            return Ok(Together { allowed: false, retry_after: waits.fold(Wait::NONE, Ord::max), decisions });
        }
        let locals: Vec<_> = parts.iter().filter(|part| kind(part) == OnError::Local).copied().collect();
        let mut together = decide(&locals)?;
        let allowed = together.allowed;
        let mut decided = std::mem::take(&mut together.decisions).into_iter();
        let each = parts.iter().map(|part| match kind(part) {
            OnError::Local => decided.next().map_or_else(|| self.closed(), local),
            _ => Decision::open(part.0.policy(), if allowed { part.2.get() } else { 0 }, self.clock.now()),
        });
        Ok(Together { decisions: each.collect(), ..together })
    }

    /// Resets a key under a policy.
    pub fn reset(&self, policy: &Filed, key: &[u8]) -> Result<(), StoreError> {
        let Some(binding) = &self.framing else { return self.memory.reset(policy, key) };
        let mut hand = binding.lock();
        self.memory.reset(policy, key)?;
        hand.state(&self.memory, policy, key);
        Ok(())
    }

    /// Refunds units that were charged at a time; returns how many.
    pub fn refund(&self, policy: &Filed, key: &[u8], units: Cost, at: Timestamp) -> Result<u64, StoreError> {
        let Some(binding) = &self.framing else { return self.memory.refund(policy, key, units, at) };
        let mut hand = binding.lock();
        let Refunded { units: given, t, changed, .. } = self.memory.refund_telling(policy, key, units, at)?;
        hand.refunded(&self.memory, policy, key, changed.then_some(Refund { units: units.get(), at, t }), t);
        Ok(given)
    }

    /// Returns the decision by a policy's `on_error` while nothing can be persisted; local policies are decided in
    /// memory instead.
    fn away(&self, policy: &Filed, cost: Cost) -> Decision {
        match policy.on_error() {
            OnError::Allow => Decision::open(policy.policy(), cost.get(), self.clock.now()),
            OnError::Deny | OnError::Local => self.closed(),
        }
    }

    /// Returns a refusal because nothing can be persisted; persistence is retried by the time it names.
    fn closed(&self) -> Decision {
        // No state is waited for, so there is none whose reset could be announced.
        Decision { reset_after: Micros::ZERO, ..Decision::closed(CLOSED_FOR, self.clock.now()) }
    }

    /// Persists a fact, if persistence is enabled.
    pub fn note(&self, note: &Note) {
        if let Some(binding) = &self.binding {
            binding.note(note);
        }
    }

    /// Frames what a plain command changed of the keys, which are locked.
    #[inline]
    pub fn changed(&self, keys: &mut Keys) {
        if let Some(binding) = &self.framing {
            binding.changed(keys);
        }
    }

    /// Frames a call of a dialect that was just decided on the keys, which are locked.
    #[inline]
    pub fn spoken(&self, keys: &mut Keys, spoken: &DialectCall, now: Timestamp) {
        if let Some(binding) = &self.framing {
            binding.spoken(keys, spoken, now);
        }
    }

    /// Returns whether decisions are made without being persisted.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.framing.as_ref().is_some_and(|binding| binding.is_away())
    }

    /// Waits until everything decided so far may be reported to callers.
    #[inline]
    pub async fn settled(&self) -> Result<(), Unkept> {
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

impl Deref for Embedded {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}
