//! Several keys decided together. On one server, or in one slot, this is one atomic call. Across slots it is an
//! error, unless the store was opened with `charge_then_refund`: then the keys are charged one after the other, and
//! the charges are refunded if one key refuses.

use tollgate_kernel::{Cost, Decision, JointDecision, KeyCheck, Mode, Request, StoreError, Wait};

use crate::prepared::{CallPart, RedisPolicy, ReplyDetail};
use crate::reply;
use crate::slot::slot;
use crate::store::{RedisInner, or_stand_in};

impl RedisInner {
    pub(crate) async fn check_all(&self, items: &[KeyCheck<'_>]) -> Result<JointDecision, StoreError> {
        items.iter().try_for_each(|item| StoreError::check_key(item.key))?;
        check_once(items)?;
        if items.is_empty() {
            return Ok(JointDecision { allowed: true, retry_after: Wait::NONE, decisions: Vec::new() });
        }
        let mut parts: Vec<CallPart<'_>> = Vec::with_capacity(items.len());
        for item in items {
            parts.push((self.policies.get(item.policy)?, item.key, item.cost));
        }
        let answer = match self.apart(&parts) {
            None => {
                let answer = self.dispatcher.dispatch(RedisPolicy::all(&parts)).await;
                answer.and_then(|value| reply::together(&value, self.policies.reply_ending(), parts.len()))
            }
            Some(_) if self.dispatcher.context.settings.charge_then_refund => self.charge_then_refund(&parts).await,
            Some((first, second)) => return Err(StoreError::Slots(first, second)),
        };
        let together = or_stand_in(answer, || self.standin.check_all(&parts))?;
        together.decisions.iter().for_each(|decision| self.dispatcher.context.counters.count_decision(decision.source));
        Ok(together)
    }

    /// Returns the indices of two parts in different slots of a cluster, if there are any.
    fn apart(&self, parts: &[CallPart<'_>]) -> Option<(usize, usize)> {
        if !self.dispatcher.router.is_cluster() {
            return None;
        }
        let slots: Vec<u16> = parts.iter().map(|(policy, key, _)| slot(&policy.state_key(key))).collect();
        slots.iter().position(|slot| Some(slot) != slots.first()).map(|second| (0, second))
    }

    /// Charges the parts one after the other. If one refuses or does not answer, the charged parts are refunded,
    /// and the parts after it are only peeked. In between, other requests may be refused units that are refunded a
    /// moment later; no request is admitted beyond a limit.
    async fn charge_then_refund(&self, parts: &[CallPart<'_>]) -> Result<JointDecision, StoreError> {
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
                Ok(JointDecision { allowed, retry_after, decisions })
            }
        }
    }

    async fn one(&self, (policy, key, cost): &CallPart<'_>, refused: bool) -> Result<Decision, StoreError> {
        let mut request = Request::cost(*cost).mode(Mode::Binary);
        request.peek = refused;
        let value = self.dispatcher.dispatch(policy.check(key, &request, ReplyDetail::Rest)).await?;
        reply::decision(&value, self.policies.reply_ending())
    }

    /// Refunds a part; `charged` is then the number of units that could not be refunded.
    async fn give_back(&self, (policy, key, _): &CallPart<'_>, decision: &mut Decision) {
        decision.granted = 0;
        let Some(units) = Cost::new(decision.charged).filter(|units| units.get() > 0) else { return };
        let answer = self.dispatcher.dispatch(policy.refund(key, units, decision.at)).await;
        if let Ok(back) = answer.and_then(|value| reply::count(&value)) {
            decision.charged = decision.charged.saturating_sub(back);
            decision.remaining = decision.remaining.saturating_add_unsigned(back);
        }
    }
}

fn check_once(items: &[KeyCheck<'_>]) -> Result<(), StoreError> {
    let same = |a: &KeyCheck<'_>, b: &KeyCheck<'_>| a.key == b.key && a.policy.name() == b.policy.name();
    for (index, item) in items.iter().enumerate() {
        if let Some(first) = items.iter().take(index).position(|other| same(other, item)) {
            return Err(StoreError::Twice(first, index));
        }
    }
    Ok(())
}
