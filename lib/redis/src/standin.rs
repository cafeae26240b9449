//! Makes decisions while the server does not answer, as the policy's `on_error` says. Law: the `source` of every
//! such decision says that the server did not make it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_kernel::{
    Cost, Decision, Detail, JointDecision, Micros, OnError, Request, Source, StoreError, Timestamp, Wait,
};
use tollgate_memory::Memory;

use crate::prepared::RedisPolicy;
use crate::scaled::scaled;

/// The wait that a refusal by `on_error` deny reports: the server is tried again within that time.
const CLOSED_FOR: Micros = Micros::from_secs(1);

#[derive(Debug)]
pub(crate) struct StandIn {
    memory: Memory,
    share: f64,
}

impl StandIn {
    pub(crate) fn new(cap: usize, share: f64) -> Self {
        Self { memory: Memory::new(cap), share }
    }

    pub(crate) fn check(&self, policy: &RedisPolicy, key: &[u8], request: &Request) -> Result<Decision, StoreError> {
        match policy.policy.on_error() {
            OnError::Local => {
                self.local(policy).and_then(|local| Ok(labelled(self.memory.check(local, key, request)?)))
            }
            OnError::Allow => Ok(Decision::open(&policy.policy, request.cost.get(), now())),
            OnError::Deny => Ok(closed()),
        }
    }

    pub(crate) fn check_full(
        &self,
        policy: &RedisPolicy,
        key: &[u8],
        request: &Request,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        if policy.policy.on_error() == OnError::Local {
            let (decision, details) = self.memory.check_full(self.local(policy)?, key, request)?;
            return Ok((labelled(decision), details));
        }
        let decision = self.check(policy, key, request)?;
        Ok((decision, decision.details(&policy.policy)))
    }

    /// Decides the parts whose policies have `on_error` local together. Each other part is allowed or refused by
    /// its own `on_error`; if one is refused, nothing is charged.
    pub(crate) fn check_all(&self, parts: &[(Arc<RedisPolicy>, &[u8], Cost)]) -> Result<JointDecision, StoreError> {
        let kind = |part: &(Arc<RedisPolicy>, &[u8], Cost)| part.0.policy.on_error();
        let refused = parts.iter().any(|part| kind(part) == OnError::Deny);
        let local: Vec<_> = parts.iter().filter(|part| kind(part) == OnError::Local).collect();
        let mut together = if refused { self.peek_all(&local)? } else { self.charge_all(&local)? };
        let mut locals = std::mem::take(&mut together.decisions).into_iter();
        let mut decisions = Vec::with_capacity(parts.len());
        for part in parts {
            decisions.push(match kind(part) {
                OnError::Local => labelled(locals.next().unwrap_or_else(closed)),
                OnError::Allow => {
                    Decision::open(&part.0.policy, if together.allowed { part.2.get() } else { 0 }, now())
                }
                OnError::Deny => closed(),
            });
        }
        Ok(JointDecision { decisions, ..together })
    }

    fn charge_all(&self, parts: &[&(Arc<RedisPolicy>, &[u8], Cost)]) -> Result<JointDecision, StoreError> {
        let items: Result<Vec<_>, StoreError> =
            parts.iter().map(|(policy, key, cost)| Ok((self.local(policy)?, *key, *cost))).collect();
        self.memory.check_all(&items?)
    }

    fn peek_all(&self, parts: &[&(Arc<RedisPolicy>, &[u8], Cost)]) -> Result<JointDecision, StoreError> {
        let mut decisions = Vec::with_capacity(parts.len());
        for (policy, key, cost) in parts {
            let request = Request::cost(*cost).mode(tollgate_kernel::Mode::Binary).peek();
            decisions.push(Decision { granted: 0, ..self.memory.check(self.local(policy)?, key, &request)? });
        }
        let waits = decisions.iter().map(|decision| decision.next_after);
        let retry_after = waits.fold(Wait::After(CLOSED_FOR), Ord::max);
        Ok(JointDecision { allowed: false, retry_after, decisions })
    }

    /// Resets the local state of a key, along with the server's.
    pub(crate) fn reset(&self, policy: &RedisPolicy, key: &[u8]) -> Result<(), StoreError> {
        match policy.local.get() {
            Some(local) => self.memory.reset(local, key),
            None => Ok(()),
        }
    }

    fn local<'a>(&self, policy: &'a RedisPolicy) -> Result<&'a tollgate_memory::MemoryPolicy, StoreError> {
        if let Some(local) = policy.local.get() {
            return Ok(local);
        }
        let local = self.memory.prepare(&scaled(&policy.policy, self.share))?;
        Ok(policy.local.get_or_init(|| local))
    }
}

fn labelled(decision: Decision) -> Decision {
    Decision { source: Source::Local, ..decision }
}

fn closed() -> Decision {
    Decision::closed(CLOSED_FOR, now())
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::saturating(Micros::from(since).get())
}
