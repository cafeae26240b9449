//! Several keys, all or none, where some of their policies have rules.
//!
//! A key in an allow list passes and is not charged. A key that is in a deny list or banned refuses the whole request,
//! and nothing is charged. A policy in shadow mode does not affect the others: it is charged separately if the whole
//! request passes. The remaining keys are decided by the home as usual.

use std::sync::Arc;

use tollgate_kernel::{Decision, JointDecision, Mode, Request, StoreError, Wait};

use super::Engine;
use super::decide::{RuleOutcome, banned, passed, refused};
use crate::policies::{EnginePolicy, PolicyRules};
use crate::question::{EngineVerdict, QuestionPart};
use crate::rule::DecidingRule;

/// How a part is decided.
enum PartRole {
    /// The home decides it with the others of this kind; its place among them.
    Joins(usize),
    /// It is decided separately.
    Alone(RuleOutcome),
}

impl Engine {
    /// Decides several parts, all or none, and counts them.
    pub(crate) async fn decide_all_by_rules(
        &self,
        parts: &[QuestionPart],
    ) -> Result<(JointDecision, Vec<EngineVerdict>), StoreError> {
        self.refuse_twice(parts)?;
        let (mut roles, mut joined, mut overridden) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let rules = part.known.rules.as_deref();
            let found =
                rules.and_then(|rules| self.override_for(rules, &part.key)).map(|found| Arc::clone(&found.known));
            let outcome = rules.map_or(RuleOutcome::Nothing, |rules| self.rule_outcome(&part.known, rules, &part.key));
            let is_shadow = rules.is_some_and(|rules| rules.shadow);
            roles.push(match outcome {
                RuleOutcome::Nothing if !is_shadow => {
                    let known = found.clone().unwrap_or_else(|| Arc::clone(&part.known));
                    joined.push(QuestionPart { known, key: part.key.clone(), cost: part.cost });
                    PartRole::Joins(joined.len() - 1)
                }
                outcome => PartRole::Alone(outcome),
            });
            overridden.push(found);
        }
        // A refusal that no limit makes; the remaining parts are then only peeked at.
        let veto = |(role, part): (&PartRole, &QuestionPart)| match (role, part.known.rules.as_deref()) {
            (PartRole::Alone(_), Some(rules)) if rules.shadow => None,
            (PartRole::Alone(RuleOutcome::Deny), _) => Some(Wait::Never),
            (PartRole::Alone(RuleOutcome::Banned(left)), _) => Some(Wait::After(*left)),
            _ => None,
        };
        let veto = roles.iter().zip(parts).filter_map(veto).max();
        let home = self.decide_joined(&joined, veto).await?;
        let mut verdicts = Vec::with_capacity(parts.len());
        for ((part, role), overriding) in parts.iter().zip(&roles).zip(overridden) {
            let mut verdict = EngineVerdict { overriding, ..self.part(part, role, &home).await? };
            verdict.rule = match (verdict.rule, &verdict.overriding) {
                (DecidingRule::Policy, Some(_)) => DecidingRule::Override,
                (rule, _) => rule,
            };
            self.finish(part, home.allowed, &mut verdict).await?;
            verdicts.push(verdict);
        }
        let decisions: Vec<Decision> = verdicts.iter().map(|verdict| verdict.decision).collect();
        let mut retry_after = home.retry_after;
        if !home.allowed {
            // A part that was banned, or is banned from now on, must wait for that too.
            retry_after = decisions.iter().fold(retry_after, |wait, decision| wait.max(decision.retry_after));
        }
        Ok((JointDecision { decisions, retry_after, ..home }, verdicts))
    }

    /// Lets the home decide the parts that join.
    async fn decide_joined(&self, joined: &[QuestionPart], veto: Option<Wait>) -> Result<JointDecision, StoreError> {
        let Some(veto) = veto else {
            if joined.is_empty() {
                return Ok(JointDecision { allowed: true, retry_after: Wait::NONE, decisions: Vec::new() });
            }
            return self.home.check_all(&joined.iter().map(QuestionPart::at_home).collect::<Vec<_>>()).await;
        };
        let mut decisions = Vec::with_capacity(joined.len());
        for part in joined {
            let look = Request::cost(part.cost).mode(Mode::Binary).peek();
            let decision = self.home.check(part.known.at_home(), &part.key, &look).await?;
            decisions.push(Decision { granted: 0, ..decision });
        }
        let retry_after = decisions.iter().map(|decision| decision.retry_after).max().unwrap_or(veto).max(veto);
        Ok(JointDecision { allowed: false, retry_after, decisions })
    }

    /// Returns the verdict on one part.
    async fn part(
        &self,
        part: &QuestionPart,
        role: &PartRole,
        home: &JointDecision,
    ) -> Result<EngineVerdict, StoreError> {
        let ask = Request { peek: !home.allowed, ..Request::cost(part.cost).mode(Mode::Binary) };
        let granted = |decision: Decision| match home.allowed {
            true => decision,
            false => Decision { granted: 0, ..decision },
        };
        let applied = match (&part.known.rules, role) {
            (Some(rules), PartRole::Alone(_)) => {
                self.override_for(rules, &part.key).map(|found| Arc::clone(&found.known))
            }
            _ => None,
        };
        let applied = applied.as_deref().unwrap_or(&part.known);
        let (decision, rule) = match role {
            PartRole::Joins(place) => {
                let decided = home.decisions.get(*place).copied();
                (decided.unwrap_or_else(|| refused(Wait::Never, self.clock.now())), DecidingRule::Policy)
            }
            PartRole::Alone(RuleOutcome::Allow) => {
                let decision = self.home.check(applied.at_home(), &part.key, &ask.peek()).await?;
                (granted(passed(decision, &ask)), DecidingRule::Allow)
            }
            PartRole::Alone(RuleOutcome::Deny) => (refused(Wait::Never, self.clock.now()), DecidingRule::Deny),
            PartRole::Alone(RuleOutcome::Banned(left)) => {
                let limits = self.home.check(applied.at_home(), &part.key, &ask.peek()).await?;
                (banned(*left, &limits, self.clock.now()), DecidingRule::Ban)
            }
            PartRole::Alone(RuleOutcome::Nothing) => {
                (granted(self.home.check(applied.at_home(), &part.key, &ask).await?), DecidingRule::Policy)
            }
        };
        Ok(EngineVerdict { rule, ..EngineVerdict::plain(decision, Vec::new()) })
    }

    /// Evaluates the candidate, counts a refusal toward a ban, and counts the part.
    async fn finish(
        &self,
        part: &QuestionPart,
        all_passed: bool,
        verdict: &mut EngineVerdict,
    ) -> Result<(), StoreError> {
        let known: &EnginePolicy = &part.known;
        let request = Request::cost(part.cost).mode(Mode::Binary);
        let Some(rules) = known.rules.as_deref() else {
            self.record(known, [part.key.as_slice()], std::slice::from_ref(&verdict.decision), &verdict.details);
            return Ok(());
        };
        let by_limits = matches!(verdict.rule, DecidingRule::Policy | DecidingRule::Override);
        if let Some(candidate) = rules.candidate.as_ref().filter(|_| verdict.rule == DecidingRule::Policy) {
            // A part that was not charged is not charged here either.
            let ask = Request { peek: !all_passed, ..request };
            let tried = self.home.check(candidate.known.at_home(), &part.key, &ask).await?;
            if candidate.compare(&verdict.decision, &tried) {
                self.counts_of(known).flip(verdict.decision.allowed);
            }
        }
        if by_limits {
            self.count_refusal(known, rules, &part.key, &request, &mut verdict.decision).await?;
        }
        let ask = self.shadow_request(rules, &request, all_passed);
        self.settle(known, rules, &part.key, &ask, verdict);
        if !all_passed {
            verdict.decision.granted = 0;
        }
        Ok(())
    }

    /// Returns the request that a part in shadow mode is measured by: if the whole request does not pass, the part is
    /// granted nothing, like the others, and that is not a refusal by its own limits.
    fn shadow_request(&self, rules: &PolicyRules, request: &Request, all_passed: bool) -> Request {
        match rules.shadow && !all_passed {
            true => Request { cost: tollgate_kernel::Cost::new(0).unwrap_or(request.cost), ..*request },
            false => *request,
        }
    }

    /// Refuses duplicate keys. The home sees only some of the parts, so it cannot check this.
    fn refuse_twice(&self, parts: &[QuestionPart]) -> Result<(), StoreError> {
        for (place, part) in parts.iter().enumerate() {
            let is_same =
                |other: &QuestionPart| other.key == part.key && other.known.policy.name() == part.known.policy.name();
            if let Some(first) = parts[..place].iter().position(is_same) {
                return Err(StoreError::Twice(first, place));
            }
        }
        Ok(())
    }
}
