//! The embedded home: the store in this process, and what is kept of what it decides, if anything is.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Clock, Cost, Decision, Detail, OnError, Policy, Request, StoreError, Timestamp, Together, Wait};
use tollgate_memory::{Memory, Refunded};

use super::binding::{Binding, Unkept};
use super::filed::Filed;
use super::frame::{Charge, Refund};
use super::hand::Asked;
use super::note::Note;
use super::standin::{closed, details, local, open};
use crate::keys::{Keys, Spoken};
use crate::metrics::Whose;

/// The store in this process.
pub(crate) struct Embedded {
    memory: Memory,
    binding: Option<Arc<Binding>>,
    /// The same if decisions are framed.
    framing: Option<Arc<Binding>>,
    clock: Box<dyn Clock>,
    next_id: AtomicU64,
}

impl Embedded {
    /// The store by itself, or with what is kept of it.
    pub(crate) fn new(memory: Memory, binding: Option<Arc<Binding>>, clock: Box<dyn Clock>) -> Self {
        let framing = binding.clone().filter(|binding| binding.frames());
        Self { memory, binding, framing, clock, next_id: AtomicU64::new(1) }
    }

    pub(crate) fn binding(&self) -> Option<&Arc<Binding>> {
        self.binding.as_ref()
    }

    pub(crate) fn prepare(&self, policy: &Policy, whose: Whose) -> Result<Filed, StoreError> {
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
    pub(crate) fn check_many(
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
            // A journal that failed keeps nothing; one that is about to be well again already does.
            let mut hand = binding.lock();
            decide(decisions)?;
            hand.charged(&self.memory, &Asked { policy, keys, request }, decisions);
        }
        if away {
            decisions.iter_mut().for_each(|decision| *decision = local(*decision));
        }
        Ok(())
    }

    pub(crate) fn check(&self, policy: &Filed, key: &[u8], request: &Request) -> Result<Decision, StoreError> {
        if self.framing.is_none() {
            return self.memory.check(policy, key, request);
        }
        let mut decisions = Vec::with_capacity(1);
        self.check_many(policy, &[key], request, &mut decisions)?;
        Ok(decisions.pop().unwrap_or_else(|| closed(&*self.clock)))
    }

    pub(crate) fn check_full(
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
            return Ok((decision, details(policy.policy(), &decision)));
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
    pub(crate) fn check_all(&self, parts: &[(&Filed, &[u8], Cost)]) -> Result<Together, StoreError> {
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
        // Keys that share a place are charged as one there, and each by itself here.
        let charged = parts.iter().zip(&together.decisions).map(|((policy, key, cost), decision)| {
            let units = if together.allowed { cost.get() } else { 0 };
            (*policy, Charge { key, units, at: decision.at })
        });
        hand.charged_together(&self.memory, &charged.collect::<Vec<_>>());
        Ok(together)
    }

    /// Parts of local policies are decided together. The others pass or do not, by themselves; if one does not,
    /// nothing is charged.
    fn check_all_away(
        &self,
        parts: &[(&Filed, &[u8], Cost)],
        decide: impl Fn(&[(&Filed, &[u8], Cost)]) -> Result<Together, StoreError>,
    ) -> Result<Together, StoreError> {
        parts.iter().try_for_each(|(_, key, _)| StoreError::check_key(key))?;
        let kind = |part: &(&Filed, &[u8], Cost)| part.0.on_error();
        if parts.iter().any(|part| kind(part) == OnError::Deny) {
            let decisions: Vec<_> = parts.iter().map(|_| closed(&*self.clock)).collect();
            let waits = decisions.iter().map(|decision| decision.next_after);
            return Ok(Together { allowed: false, retry_after: waits.fold(Wait::NONE, Ord::max), decisions });
        }
        let locals: Vec<_> = parts.iter().filter(|part| kind(part) == OnError::Local).copied().collect();
        let mut together = decide(&locals)?;
        let allowed = together.allowed;
        let mut decided = std::mem::take(&mut together.decisions).into_iter();
        let each = parts.iter().map(|part| match kind(part) {
            OnError::Local => decided.next().map_or_else(|| closed(&*self.clock), local),
            _ => open(part.0.policy(), if allowed { part.2.get() } else { 0 }, &*self.clock),
        });
        Ok(Together { decisions: each.collect(), ..together })
    }

    pub(crate) fn reset(&self, policy: &Filed, key: &[u8]) -> Result<(), StoreError> {
        let Some(binding) = &self.framing else { return self.memory.reset(policy, key) };
        let mut hand = binding.lock();
        self.memory.reset(policy, key)?;
        hand.state(&self.memory, policy, key);
        Ok(())
    }

    pub(crate) fn refund(&self, policy: &Filed, key: &[u8], units: Cost, at: Timestamp) -> Result<u64, StoreError> {
        let Some(binding) = &self.framing else { return self.memory.refund(policy, key, units, at) };
        let mut hand = binding.lock();
        let Refunded { units: given, t, changed, .. } = self.memory.refund_telling(policy, key, units, at)?;
        hand.refunded(&self.memory, policy, key, changed.then_some(Refund { units: units.get(), at, t }), t);
        Ok(given)
    }

    /// Who decides by the policy while nothing can be kept; a local one decides in memory.
    fn away(&self, policy: &Filed, cost: Cost) -> Decision {
        match policy.on_error() {
            OnError::Allow => open(policy.policy(), cost.get(), &*self.clock),
            OnError::Deny | OnError::Local => closed(&*self.clock),
        }
    }

    /// Keeps a fact over a restart, if anything is kept.
    pub(crate) fn note(&self, note: &Note) {
        if let Some(binding) = &self.binding {
            binding.note(note);
        }
    }

    /// Frames what a plain command changed of the keys, which are held.
    #[inline]
    pub(crate) fn changed(&self, keys: &mut Keys) {
        if let Some(binding) = &self.framing {
            binding.changed(keys);
        }
    }

    /// Frames a call of a dialect that was just decided on the keys, which are held.
    #[inline]
    pub(crate) fn spoken(&self, keys: &mut Keys, spoken: &Spoken, now: Timestamp) {
        if let Some(binding) = &self.framing {
            binding.spoken(keys, spoken, now);
        }
    }

    /// Whether decisions are made without being kept.
    #[inline]
    pub(crate) fn is_away(&self) -> bool {
        self.framing.as_ref().is_some_and(|binding| binding.is_away())
    }

    /// Waits until everything decided so far may be told.
    #[inline]
    pub(crate) async fn settled(&self) -> Result<(), Unkept> {
        match &self.framing {
            None => Ok(()),
            Some(binding) => binding.settled().await,
        }
    }
}

impl Deref for Embedded {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}
