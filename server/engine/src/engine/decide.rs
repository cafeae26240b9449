//! Decides one key under a policy with rules: allow, deny, ban, override, policy.

use std::sync::Arc;

use tollgate_config::Ban;
use tollgate_kernel::{Decision, Detail, Micros, Mode, Request, Source, StoreError, Timestamp, Wait};

use super::Engine;
use crate::persist::Note;
use crate::policies::{BanCapacityError, BanRecord, BanRule, EnginePolicy, OverrideRule, PolicyRules};
use crate::question::EngineVerdict;
use crate::rule::DecidingRule;
use tollgate_telemetry::audit::{AuditAction, AuditEvent, AuditOutcome};
use tollgate_telemetry::log::LogFields;

/// The verdict of the rules on a key before any limit is consulted.
pub(super) enum RuleOutcome {
    Allow,
    Deny,
    Banned(Micros),
    /// The limits decide.
    Nothing,
}

impl Engine {
    /// Returns the verdict of the rules on a key now.
    pub(super) fn rule_outcome(&self, known: &EnginePolicy, rules: &PolicyRules, key: &[u8]) -> RuleOutcome {
        if rules.allow.has(key) {
            return RuleOutcome::Allow;
        }
        if rules.deny.has(key) {
            return RuleOutcome::Deny;
        }
        // Shadow mode neither creates nor enforces bans.
        if let Some(banning) = rules.ban.as_ref().filter(|_| !rules.shadow) {
            let policy = known.policy.name();
            return self.banned_for(policy, key, &banning.ban).map_or(RuleOutcome::Nothing, RuleOutcome::Banned);
        }
        RuleOutcome::Nothing
    }

    /// Returns how much longer a key is banned; a ban that had to be corrected is recorded.
    fn banned_for(&self, policy: &str, key: &[u8], ban: &Ban) -> Option<Micros> {
        let (left, corrected) = self.bans.left(policy, key, ban, self.clock.now())?;
        if let Some(BanRecord { until, level }) = corrected {
            self.home.persist_note(&Note::Ban { policy: policy.to_owned(), key: key.to_vec(), until, level });
        }
        Some(left)
    }

    /// Corrects the bans that were recovered at a start, as far as their policies have bans.
    pub(crate) fn correct_bans(&self) {
        let generation = self.generation();
        let mut found: Vec<(Arc<EnginePolicy>, Vec<u8>)> = Vec::new();
        self.bans.each(&mut |policy, key, _| {
            found.extend(generation.find(policy).map(|known| (Arc::clone(known), key.to_vec())))
        });
        for (known, key) in found {
            if let Some(BanRule { ban, .. }) = known.rules.as_ref().and_then(|rules| rules.ban.as_ref()) {
                self.banned_for(known.policy.name(), &key, ban);
            }
        }
    }

    /// Returns the override that applies to a key.
    pub fn override_for<'a>(&self, rules: &'a PolicyRules, key: &[u8]) -> Option<&'a OverrideRule> {
        rules.overrides.find(key, || self.clock.wall())
    }

    /// Decides a key under a policy with rules, and counts it unless it is a peek. Returns the details of each limit if
    /// `full` is set.
    pub(crate) async fn decide_by_rules(
        &self,
        known: &EnginePolicy,
        rules: &PolicyRules,
        key: &[u8],
        request: &Request,
        full: bool,
    ) -> Result<EngineVerdict, StoreError> {
        let overriding = self.override_for(rules, key).map(|found| Arc::clone(&found.known));
        let applied = overriding.as_deref().unwrap_or(known);
        let peek = request.peek();
        let (decision, details, rule) = match self.rule_outcome(known, rules, key) {
            RuleOutcome::Allow => {
                let (decision, details) = self.ask(applied, key, &peek, full).await?;
                (passed(decision, request), details, DecidingRule::Allow)
            }
            outcome @ (RuleOutcome::Deny | RuleOutcome::Banned(_)) => {
                // A key may have to wait longer for its limits than for its ban. The state of the limits is also
                // returned if it was requested.
                let is_banned = matches!(outcome, RuleOutcome::Banned(_));
                let (limits, details) = match full || is_banned {
                    true => {
                        self.ask(applied, key, &peek, full).await.map(|(limits, details)| (Some(limits), details))?
                    }
                    false => (None, Vec::new()),
                };
                let now = self.clock.now();
                match (outcome, limits) {
                    (RuleOutcome::Banned(left), Some(limits)) => {
                        (banned(left, &limits, now), details, DecidingRule::Ban)
                    }
                    _ => (refused(Wait::Never, now), details, DecidingRule::Deny),
                }
            }
            RuleOutcome::Nothing => {
                let rule = if overriding.is_some() { DecidingRule::Override } else { DecidingRule::Policy };
                let (decision, details) = self.by_limits(known, rules, applied, key, request, full).await?;
                (decision, details, rule)
            }
        };
        let mut verdict = EngineVerdict { decision, details, rule, overriding };
        self.settle(known, rules, key, request, &mut verdict);
        Ok(verdict)
    }

    /// Lets the limits decide, evaluates the candidate beside them, and counts a refusal toward a ban.
    async fn by_limits(
        &self,
        known: &EnginePolicy,
        rules: &PolicyRules,
        applied: &EnginePolicy,
        key: &[u8],
        request: &Request,
        full: bool,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        let is_own = std::ptr::eq(applied, known);
        let candidate = rules.candidate.as_ref().filter(|_| is_own && !request.peek);
        let Some(candidate) = candidate else {
            let (mut decision, details) = self.ask(applied, key, request, full).await?;
            self.count_refusal(known, rules, key, request, &mut decision).await?;
            return Ok((decision, details));
        };
        // The candidate decides nothing, so both are evaluated at the same time and the request waits no longer.
        let (live, tried) = tokio::join!(
            self.ask(applied, key, request, full),
            self.home.check(candidate.known.at_home(), key, request)
        );
        let (mut decision, details) = live?;
        if let Ok(tried) = tried
            && candidate.compare(&decision, &tried)
        {
            self.counts_of(known).flip(decision.allowed);
        }
        self.count_refusal(known, rules, key, request, &mut decision).await?;
        Ok((decision, details))
    }

    /// Turns a decision into the final answer, which is never a refusal in shadow mode, and counts it.
    pub(super) fn settle(
        &self,
        known: &EnginePolicy,
        rules: &PolicyRules,
        key: &[u8],
        request: &Request,
        verdict: &mut EngineVerdict,
    ) {
        let would = verdict.decision;
        if rules.shadow && (!would.allowed || would.granted < request.cost.get()) {
            (verdict.decision, verdict.rule) = (passed(would, request), DecidingRule::Shadow);
        }
        if request.peek {
            return;
        }
        let applied = verdict.overriding.as_deref().unwrap_or(known);
        if verdict.rule != DecidingRule::Policy {
            self.counts_of(known).rule(verdict.rule);
        }
        self.record(applied, [key], std::slice::from_ref(&verdict.decision), &verdict.details);
        if verdict.rule == DecidingRule::Shadow {
            self.sample("shadowed", applied, &would, key);
        }
    }

    /// Counts a refusal by limits, and bans the key if there were too many: then it must wait for the ban too.
    pub(super) async fn count_refusal(
        &self,
        known: &EnginePolicy,
        rules: &PolicyRules,
        key: &[u8],
        request: &Request,
        decision: &mut Decision,
    ) -> Result<(), StoreError> {
        let Some(BanRule { ban, refusals }) = &rules.ban else { return Ok(()) };
        let by_limits = !decision.allowed && decision.source != Source::Closed;
        if !by_limits || request.peek || rules.shadow {
            return Ok(());
        }
        let counted = self.home.check(refusals.at_home(), key, &Request::ONE.mode(Mode::Binary)).await?;
        let by_nobody = matches!(counted.source, Source::Open | Source::Closed);
        if by_nobody || counted.allowed && counted.remaining > 0 {
            return Ok(());
        }
        let now = self.clock.now();
        let begun = self.bans.begin(known.policy.name(), key, ban, now).unwrap_or_else(|BanCapacityError| {
            // Logged at the first and then exponentially less often; the metrics count each.
            let count = self.bans.without_room();
            if count.is_power_of_two() {
                let (policy, bytes) = (known.policy.name(), self.bans.bytes());
                self.log.warn("ban_without_room", &[("policy", &policy), ("bytes", &bytes), ("count", &count)]);
            }
            None
        });
        if let Some(begun) = begun {
            self.counts_of(known).ban();
            let wait = Wait::After(begun.until.since(now));
            decision.retry_after = decision.retry_after.max(wait);
            decision.next_after = decision.next_after.max(wait);
            let (policy, hash, span) = (known.policy.name(), self.log.hash(key), begun.until.since(now));
            let fields: LogFields<'_> =
                &[("policy", &policy), ("key_hash", &hash), ("for", &span), ("level", &begun.level)];
            self.log.info("banned", fields);
            self.audit_ban(AuditAction::BanBegan, policy, key, &format!("for {span}, level {}", begun.level));
            let BanRecord { until, level } = begun;
            self.home.persist_note(&Note::Ban { policy: policy.to_owned(), key: key.to_vec(), until, level });
        }
        Ok(())
    }

    /// Resets a key under a policy with rules: its limits and its override, the candidate, and its refusals and bans.
    pub(crate) async fn reset_by_rules(
        &self,
        known: &EnginePolicy,
        rules: &PolicyRules,
        key: &[u8],
    ) -> Result<(), StoreError> {
        self.home.reset(known.at_home(), key).await?;
        if let Some(found) = self.override_for(rules, key) {
            self.home.reset(found.known.at_home(), key).await?;
        }
        if let Some(candidate) = &rules.candidate {
            self.home.reset(candidate.known.at_home(), key).await?;
        }
        if let Some(banning) = &rules.ban {
            self.home.reset(banning.refusals.at_home(), key).await?;
        }
        let policy = known.policy.name();
        if self.bans.lift(policy, key) {
            self.log.info("ban_lifted", &[("policy", &policy), ("key_hash", &self.log.hash(key))]);
            self.audit_ban(AuditAction::BanLifted, policy, key, "");
            let (policy, key, until) = (policy.to_owned(), key.to_vec(), self.clock.now());
            self.home.persist_note(&Note::Ban { policy, key, until, level: 0 });
        }
        Ok(())
    }

    fn audit_ban(&self, what: AuditAction, policy: &str, key: &[u8], detail: &str) {
        self.ops.audit.record(&AuditEvent {
            policy,
            key: Some(key),
            detail,
            ..AuditEvent::of_server(what, AuditOutcome::Done)
        });
    }

    async fn ask(
        &self,
        applied: &EnginePolicy,
        key: &[u8],
        request: &Request,
        full: bool,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        match full {
            true => self.home.check_full(applied.at_home(), key, request).await,
            false => Ok((self.home.check(applied.at_home(), key, request).await?, Vec::new())),
        }
    }
}

/// Returns a decision that is allowed. A key in the allow list was only peeked at, so nothing is charged.
pub(super) fn passed(decision: Decision, request: &Request) -> Decision {
    let granted = request.cost.get();
    Decision { allowed: true, granted, retry_after: Wait::NONE, next_after: Wait::NONE, ..decision }
}

/// Returns a refusal by a ban, for a key that may have to wait longer for its limits.
pub(super) fn banned(left: Micros, limits: &Decision, at: Timestamp) -> Decision {
    let ban = refused(Wait::After(left), at);
    let wait = ban.retry_after.max(limits.retry_after);
    Decision { retry_after: wait, next_after: wait, reset_after: ban.reset_after.max(limits.reset_after), ..ban }
}

/// Returns a refusal that no limit made.
pub(super) fn refused(wait: Wait, at: Timestamp) -> Decision {
    let reset_after = wait.span().unwrap_or_default();
    Decision { retry_after: wait, next_after: wait, source: Source::Home, ..Decision::closed(reset_after, at) }
}
