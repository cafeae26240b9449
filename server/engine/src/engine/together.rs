//! Several keys, all or none, where some of their policies have rules.
//!
//! A key in an allow list passes and is not charged. A key that is in a deny list or banned refuses the whole request,
//! and nothing is charged. A policy in shadow mode does not affect the others: it is charged separately if the whole
//! request passes. The remaining keys are decided by the home as usual.

use std::sync::Arc;

use tollgate_kernel::{Decision, Mode, Request, StoreError, Together, Wait};

use super::Engine;
use super::decide::{Said, banned, passed, refused};
use crate::policies::{Known, Rules};
use crate::question::{Part, Verdict};
use crate::rule::Rule;

/// How a part is decided.
enum Role {
    /// The home decides it with the others of this kind; its place among them.
    Joins(usize),
    /// It is decided separately.
    Alone(Said),
}

impl Engine {
    /// Decides several parts, all or none, and counts them.
    pub(crate) async fn decide_all_by_rules(&self, parts: &[Part]) -> Result<(Together, Vec<Verdict>), StoreError> {
        self.refuse_twice(parts)?;
        let (mut roles, mut joined, mut overridden) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let rules = part.known.rules.as_deref();
            let found = rules.and_then(|rules| self.overriding(rules, &part.key)).map(|found| Arc::clone(&found.known));
            let said = rules.map_or(Said::Nothing, |rules| self.said(&part.known, rules, &part.key));
            let is_shadow = rules.is_some_and(|rules| rules.shadow);
            roles.push(match said {
                Said::Nothing if !is_shadow => {
                    let known = found.clone().unwrap_or_else(|| Arc::clone(&part.known));
                    joined.push(Part { known, key: part.key.clone(), cost: part.cost });
                    Role::Joins(joined.len() - 1)
                }
                said => Role::Alone(said),
            });
            overridden.push(found);
        }
        // A refusal that no limit makes; the remaining parts are then only peeked at.
        let veto = |(role, part): (&Role, &Part)| match (role, part.known.rules.as_deref()) {
            (Role::Alone(_), Some(rules)) if rules.shadow => None,
            (Role::Alone(Said::Deny), _) => Some(Wait::Never),
            (Role::Alone(Said::Banned(left)), _) => Some(Wait::After(*left)),
            _ => None,
        };
        let veto = roles.iter().zip(parts).filter_map(veto).max();
        let home = self.decide_joined(&joined, veto).await?;
        let mut verdicts = Vec::with_capacity(parts.len());
        for ((part, role), overriding) in parts.iter().zip(&roles).zip(overridden) {
            let mut verdict = Verdict { overriding, ..self.part(part, role, &home).await? };
            verdict.rule = match (verdict.rule, &verdict.overriding) {
                (Rule::Policy, Some(_)) => Rule::Override,
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
        Ok((Together { decisions, retry_after, ..home }, verdicts))
    }

    /// Lets the home decide the parts that join.
    async fn decide_joined(&self, joined: &[Part], veto: Option<Wait>) -> Result<Together, StoreError> {
        let Some(veto) = veto else {
            if joined.is_empty() {
                return Ok(Together { allowed: true, retry_after: Wait::NONE, decisions: Vec::new() });
            }
            return self.home.check_all(&joined.iter().map(Part::at_home).collect::<Vec<_>>()).await;
        };
        let mut decisions = Vec::with_capacity(joined.len());
        for part in joined {
            let look = Request::cost(part.cost).mode(Mode::Binary).peek();
            let decision = self.home.check(part.known.at_home(), &part.key, &look).await?;
            decisions.push(Decision { granted: 0, ..decision });
        }
        let retry_after = decisions.iter().map(|decision| decision.retry_after).max().unwrap_or(veto).max(veto);
        Ok(Together { allowed: false, retry_after, decisions })
    }

    /// Returns the verdict on one part.
    async fn part(&self, part: &Part, role: &Role, home: &Together) -> Result<Verdict, StoreError> {
        let ask = Request { peek: !home.allowed, ..Request::cost(part.cost).mode(Mode::Binary) };
        let granted = |decision: Decision| match home.allowed {
            true => decision,
            false => Decision { granted: 0, ..decision },
        };
        let asked = match (&part.known.rules, role) {
            (Some(rules), Role::Alone(_)) => self.overriding(rules, &part.key).map(|found| Arc::clone(&found.known)),
            _ => None,
        };
        let asked = asked.as_deref().unwrap_or(&part.known);
        let (decision, rule) = match role {
            Role::Joins(place) => {
                let decided = home.decisions.get(*place).copied();
                (decided.unwrap_or_else(|| refused(Wait::Never, self.clock.now())), Rule::Policy)
            }
            Role::Alone(Said::Allow) => {
                let decision = self.home.check(asked.at_home(), &part.key, &ask.peek()).await?;
                (granted(passed(decision, &ask)), Rule::Allow)
            }
            Role::Alone(Said::Deny) => (refused(Wait::Never, self.clock.now()), Rule::Deny),
            Role::Alone(Said::Banned(left)) => {
                let limits = self.home.check(asked.at_home(), &part.key, &ask.peek()).await?;
                (banned(*left, &limits, self.clock.now()), Rule::Ban)
            }
            Role::Alone(Said::Nothing) => {
                (granted(self.home.check(asked.at_home(), &part.key, &ask).await?), Rule::Policy)
            }
        };
        Ok(Verdict { rule, ..Verdict::plain(decision, Vec::new()) })
    }

    /// Evaluates the candidate, counts a refusal toward a ban, and counts the part.
    async fn finish(&self, part: &Part, all_passed: bool, verdict: &mut Verdict) -> Result<(), StoreError> {
        let known: &Known = &part.known;
        let request = Request::cost(part.cost).mode(Mode::Binary);
        let Some(rules) = known.rules.as_deref() else {
            self.tell(known, [part.key.as_slice()], std::slice::from_ref(&verdict.decision), &verdict.details);
            return Ok(());
        };
        let by_limits = matches!(verdict.rule, Rule::Policy | Rule::Override);
        if let Some(candidate) = rules.candidate.as_ref().filter(|_| verdict.rule == Rule::Policy) {
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
    fn shadow_request(&self, rules: &Rules, request: &Request, all_passed: bool) -> Request {
        match rules.shadow && !all_passed {
            true => Request { cost: tollgate_kernel::Cost::new(0).unwrap_or(request.cost), ..*request },
            false => *request,
        }
    }

    /// Refuses duplicate keys. The home sees only some of the parts, so it cannot check this.
    fn refuse_twice(&self, parts: &[Part]) -> Result<(), StoreError> {
        for (place, part) in parts.iter().enumerate() {
            let is_same = |other: &Part| other.key == part.key && other.known.policy.name() == part.known.policy.name();
            if let Some(first) = parts[..place].iter().position(is_same) {
                return Err(StoreError::Twice(first, place));
            }
        }
        Ok(())
    }
}
