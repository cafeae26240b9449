//! Several keys decided together. On one server, or in one slot, this is one atomic call. Across slots it is an
//! error, unless the store was opened with `charge_then_refund`: then the keys are charged one after the other, and
//! the charges are refunded if one key refuses.

use tollgate_kernel::{Cost, Decision, Item, Mode, Request, StoreError, Together, Wait};

use crate::prepared::{Part, Prepared, Tells};
use crate::reply;
use crate::slot::slot;
use crate::store::{Inner, or_else};

impl Inner {
    pub(crate) async fn check_all(&self, items: &[Item<'_>]) -> Result<Together, StoreError> {
        items.iter().try_for_each(|item| StoreError::check_key(item.key))?;
        check_once(items)?;
        if items.is_empty() {
            return Ok(Together { allowed: true, retry_after: Wait::NONE, decisions: Vec::new() });
        }
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(items.len());
        for item in items {
            parts.push((self.policies.get(item.policy)?, item.key, item.cost));
        }
        let answer = match self.apart(&parts) {
            None => {
                let answer = self.asker.ask(Prepared::all(&parts)).await;
                answer.and_then(|value| reply::together(&value, self.policies.ends(), parts.len()))
            }
            Some(_) if self.asker.shared.settings.charge_then_refund => self.charge_then_refund(&parts).await,
            Some((first, second)) => return Err(StoreError::Slots(first, second)),
        };
        let together = or_else(answer, || self.standin.check_all(&parts))?;
        together.decisions.iter().for_each(|decision| self.asker.shared.counters.decided(decision.source));
        Ok(together)
    }

    /// Returns the indices of two parts in different slots of a cluster, if there are any.
    fn apart(&self, parts: &[Part<'_>]) -> Option<(usize, usize)> {
        if !self.asker.router.is_cluster() {
            return None;
        }
        let slots: Vec<u16> = parts.iter().map(|(policy, key, _)| slot(&policy.state_key(key))).collect();
        slots.iter().position(|slot| Some(slot) != slots.first()).map(|second| (0, second))
    }

    /// Charges the parts one after the other. If one refuses or does not answer, the charged parts are refunded,
    /// and the parts after it are only peeked. In between, other requests may be refused units that are refunded a
    /// moment later; no request is admitted beyond a limit.
    async fn charge_then_refund(&self, parts: &[Part<'_>]) -> Result<Together, StoreError> {
        let mut decisions: Vec<Decision> = Vec::with_capacity(parts.len());
        let mut failed = None;
        for part in parts {
            match self.one(part, decisions.iter().any(|decision| !decision.allowed)).await {
                Ok(decision) => decisions.push(decision),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let allowed = failed.is_none() && decisions.iter().all(|decision| decision.allowed);
        if !allowed {
            for (part, decision) in parts.iter().zip(&mut decisions) {
                self.give_back(part, decision).await;
            }
        }
        match failed {
            Some(error) => Err(error),
            None => {
                let waits = decisions.iter().map(|decision| decision.retry_after);
                let retry_after = waits.fold(Wait::NONE, Ord::max);
                Ok(Together { allowed, retry_after, decisions })
            }
        }
    }

    async fn one(&self, (policy, key, cost): &Part<'_>, refused: bool) -> Result<Decision, StoreError> {
        let mut request = Request::cost(*cost).mode(Mode::Binary);
        request.peek = refused;
        let value = self.asker.ask(policy.check(key, &request, Tells::Rest)).await?;
        reply::decision(&value, self.policies.ends())
    }

    /// Refunds a part; `charged` is then the number of units that could not be refunded.
    async fn give_back(&self, (policy, key, _): &Part<'_>, decision: &mut Decision) {
        decision.granted = 0;
        let Some(units) = Cost::new(decision.charged).filter(|units| units.get() > 0) else { return };
        let answer = self.asker.ask(policy.refund(key, units, decision.at)).await;
        if let Ok(back) = answer.and_then(|value| reply::count(&value)) {
            decision.charged = decision.charged.saturating_sub(back);
            decision.remaining = decision.remaining.saturating_add_unsigned(back);
        }
    }
}

fn check_once(items: &[Item<'_>]) -> Result<(), StoreError> {
    let same = |a: &Item<'_>, b: &Item<'_>| a.key == b.key && a.policy.name() == b.policy.name();
    for (index, item) in items.iter().enumerate() {
        if let Some(first) = items.iter().take(index).position(|other| same(other, item)) {
            return Err(StoreError::Twice(first, index));
        }
    }
    Ok(())
}
