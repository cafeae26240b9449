//! Decides one key under a policy with rules: allow, deny, ban, override, policy.

use std::sync::Arc;

use tollgate_config::Ban;
use tollgate_kernel::{Decision, Detail, Micros, Mode, Request, Source, StoreError, Timestamp, Wait};

use super::Engine;
use crate::persist::Note;
use crate::policies::{Banned, Banning, Known, NoRoom, Overriding, Rules};
use crate::question::Verdict;
use crate::rule::Rule;
use tollgate_telemetry::audit::{Event, Outcome, What};
use tollgate_telemetry::log::Fields;

/// The verdict of the rules on a key before any limit is consulted.
pub(super) enum Said {
    Allow,
    Deny,
    Banned(Micros),
    /// The limits decide.
    Nothing,
}

impl Engine {
    /// Returns the verdict of the rules on a key now.
    pub(super) fn said(&self, known: &Known, rules: &Rules, key: &[u8]) -> Said {
        if rules.allow.has(key) {
            return Said::Allow;
        }
        if rules.deny.has(key) {
            return Said::Deny;
        }
        // Shadow mode neither creates nor enforces bans.
        if let Some(banning) = rules.ban.as_ref().filter(|_| !rules.shadow) {
            let policy = known.policy.name();
            return self.banned_for(policy, key, &banning.ban).map_or(Said::Nothing, Said::Banned);
        }
        Said::Nothing
    }

    /// Returns how much longer a key is banned; a ban that had to be corrected is recorded.
    fn banned_for(&self, policy: &str, key: &[u8], ban: &Ban) -> Option<Micros> {
        let (left, corrected) = self.bans.left(policy, key, ban, self.clock.now())?;
        if let Some(Banned { until, level }) = corrected {
            self.home.note(&Note::Ban { policy: policy.to_owned(), key: key.to_vec(), until, level });
        }
        Some(left)
    }

    /// Corrects the bans that were recovered at a start, as far as their policies have bans.
    pub(crate) fn correct_bans(&self) {
        let generation = self.generation();
        let mut found: Vec<(Arc<Known>, Vec<u8>)> = Vec::new();
        self.bans.each(&mut |policy, key, _| {
            found.extend(generation.find(policy).map(|known| (Arc::clone(known), key.to_vec())))
        });
        for (known, key) in found {
            if let Some(Banning { ban, .. }) = known.rules.as_ref().and_then(|rules| rules.ban.as_ref()) {
                self.banned_for(known.policy.name(), &key, ban);
            }
        }
    }

    /// Returns the override that applies to a key.
    pub fn overriding<'a>(&self, rules: &'a Rules, key: &[u8]) -> Option<&'a Overriding> {
        rules.overrides.find(key, || self.clock.wall())
    }

    /// Decides a key under a policy with rules, and counts it unless it is a peek. Returns the details of each limit if
    /// `full` is set.
    pub(crate) async fn decide_by_rules(
        &self,
        known: &Known,
        rules: &Rules,
        key: &[u8],
        request: &Request,
        full: bool,
    ) -> Result<Verdict, StoreError> {
        let overriding = self.overriding(rules, key).map(|found| Arc::clone(&found.known));
        let asked = overriding.as_deref().unwrap_or(known);
        let look = request.peek();
        let (decision, details, rule) = match self.said(known, rules, key) {
            Said::Allow => {
                let (decision, details) = self.ask(asked, key, &look, full).await?;
                (passed(decision, request), details, Rule::Allow)
            }
            said @ (Said::Deny | Said::Banned(_)) => {
                // A key may have to wait longer for its limits than for its ban. The state of the limits is also
                // returned if it was requested.
                let is_banned = matches!(said, Said::Banned(_));
                let (limits, details) = match full || is_banned {
                    true => self.ask(asked, key, &look, full).await.map(|(limits, details)| (Some(limits), details))?,
                    false => (None, Vec::new()),
                };
                let now = self.clock.now();
                match (said, limits) {
                    (Said::Banned(left), Some(limits)) => (banned(left, &limits, now), details, Rule::Ban),
                    _ => (refused(Wait::Never, now), details, Rule::Deny),
                }
            }
            Said::Nothing => {
                let rule = if overriding.is_some() { Rule::Override } else { Rule::Policy };
                let (decision, details) = self.by_limits(known, rules, asked, key, request, full).await?;
                (decision, details, rule)
            }
        };
        let mut verdict = Verdict { decision, details, rule, overriding };
        self.settle(known, rules, key, request, &mut verdict);
        Ok(verdict)
    }

    /// Lets the limits decide, evaluates the candidate beside them, and counts a refusal toward a ban.
    async fn by_limits(
        &self,
        known: &Known,
        rules: &Rules,
        asked: &Known,
        key: &[u8],
        request: &Request,
        full: bool,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        let is_own = std::ptr::eq(asked, known);
        let candidate = rules.candidate.as_ref().filter(|_| is_own && !request.peek);
        let Some(candidate) = candidate else {
            let (mut decision, details) = self.ask(asked, key, request, full).await?;
            self.count_refusal(known, rules, key, request, &mut decision).await?;
            return Ok((decision, details));
        };
        // The candidate decides nothing, so both are evaluated at the same time and the request waits no longer.
        let (live, tried) =
            tokio::join!(self.ask(asked, key, request, full), self.home.check(candidate.known.at_home(), key, request));
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
    pub(super) fn settle(&self, known: &Known, rules: &Rules, key: &[u8], request: &Request, verdict: &mut Verdict) {
        let would = verdict.decision;
        if rules.shadow && (!would.allowed || would.granted < request.cost.get()) {
            (verdict.decision, verdict.rule) = (passed(would, request), Rule::Shadow);
        }
        if request.peek {
            return;
        }
        let asked = verdict.overriding.as_deref().unwrap_or(known);
        if verdict.rule != Rule::Policy {
            self.counts_of(known).rule(verdict.rule);
        }
        self.tell(asked, [key], std::slice::from_ref(&verdict.decision), &verdict.details);
        if verdict.rule == Rule::Shadow {
            self.sample("shadowed", asked, &would, key);
        }
    }

    /// Counts a refusal by limits, and bans the key if there were too many: then it must wait for the ban too.
    pub(super) async fn count_refusal(
        &self,
        known: &Known,
        rules: &Rules,
        key: &[u8],
        request: &Request,
        decision: &mut Decision,
    ) -> Result<(), StoreError> {
        let Some(Banning { ban, refusals }) = &rules.ban else { return Ok(()) };
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
        let begun = self.bans.begin(known.policy.name(), key, ban, now).unwrap_or_else(|NoRoom| {
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
            let fields: Fields<'_> =
                &[("policy", &policy), ("key_hash", &hash), ("for", &span), ("level", &begun.level)];
            self.log.info("banned", fields);
            self.audit_ban(What::BanBegan, policy, key, &format!("for {span}, level {}", begun.level));
            let Banned { until, level } = begun;
            self.home.note(&Note::Ban { policy: policy.to_owned(), key: key.to_vec(), until, level });
        }
        Ok(())
    }

    /// Resets a key under a policy with rules: its limits and its override, the candidate, and its refusals and bans.
    pub(crate) async fn reset_by_rules(&self, known: &Known, rules: &Rules, key: &[u8]) -> Result<(), StoreError> {
        self.home.reset(known.at_home(), key).await?;
        if let Some(found) = self.overriding(rules, key) {
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
            self.audit_ban(What::BanLifted, policy, key, "");
            let (policy, key, until) = (policy.to_owned(), key.to_vec(), self.clock.now());
            self.home.note(&Note::Ban { policy, key, until, level: 0 });
        }
        Ok(())
    }

    fn audit_ban(&self, what: What, policy: &str, key: &[u8], detail: &str) {
        self.ops.audit.tell(&Event { policy, key: Some(key), detail, ..Event::of_server(what, Outcome::Done) });
    }

    async fn ask(
        &self,
        asked: &Known,
        key: &[u8],
        request: &Request,
        full: bool,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        match full {
            true => self.home.check_full(asked.at_home(), key, request).await,
            false => Ok((self.home.check(asked.at_home(), key, request).await?, Vec::new())),
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
