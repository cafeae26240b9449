//! One key under a policy with rules: allow, deny, ban, override, policy.

use std::sync::Arc;

use tollgate_config::Ban;
use tollgate_core::{Decision, Detail, Micros, Mode, Request, Source, StoreError, Timestamp, Wait};

use super::{Banned, Banning, NoRoom, Overriding, Rule, Rules};
use crate::audit::{Event, Outcome, What};
use crate::data::Note;
use crate::desk::{Desk, Known};
use crate::log::Fields;

/// What was decided, and by what.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) decision: Decision,
    /// Each limit's part, if that was asked.
    pub(crate) details: Vec<Detail>,
    pub(crate) rule: Rule,
    /// The limits that were asked instead of the policy's.
    pub(crate) overriding: Option<Arc<Known>>,
}

impl Verdict {
    /// What a policy without rules decided.
    pub(crate) fn plain(decision: Decision, details: Vec<Detail>) -> Self {
        Self { decision, details, rule: Rule::Policy, overriding: None }
    }

    /// The policy whose limits were asked.
    pub(crate) fn asked<'a>(&'a self, known: &'a Known) -> &'a Known {
        self.overriding.as_deref().unwrap_or(known)
    }
}

/// What rules say of a key before any limit is asked.
pub(super) enum Said {
    Allow,
    Deny,
    Banned(Micros),
    /// The limits decide.
    Nothing,
}

impl Desk {
    /// What the rules say of a key now.
    pub(super) fn said(&self, known: &Known, rules: &Rules, key: &[u8]) -> Said {
        if rules.allow.has(key) {
            return Said::Allow;
        }
        if rules.deny.has(key) {
            return Said::Deny;
        }
        // Who refuses nobody bans nobody, and holds nobody to a ban.
        if let Some(banning) = rules.ban.as_ref().filter(|_| !rules.shadow) {
            let policy = known.policy.name();
            return self.banned_for(policy, key, &banning.ban).map_or(Said::Nothing, Said::Banned);
        }
        Said::Nothing
    }

    /// How much longer a key is banned; a ban that had to be corrected is kept so.
    fn banned_for(&self, policy: &str, key: &[u8], ban: &Ban) -> Option<Micros> {
        let (left, corrected) = self.bans.left(policy, key, ban, self.clock.now())?;
        if let Some(Banned { until, level }) = corrected {
            self.home.note(&Note::Ban { policy: policy.to_owned(), key: key.to_vec(), until, level });
        }
        Some(left)
    }

    /// Corrects the bans that a start found, as far as their policies ban.
    pub(in crate::desk) fn correct_bans(&self) {
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

    /// The limits that a key has instead of the policy's.
    pub(crate) fn overriding<'a>(&self, rules: &'a Rules, key: &[u8]) -> Option<&'a Overriding> {
        rules.overrides.find(key, || self.clock.wall())
    }

    /// Decides a key under a policy with rules, and counts it unless it is a peek. Each limit's part is told if
    /// it is asked for.
    pub(in crate::desk) async fn decide_by_rules(
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
                // A key may have to wait for its limits for longer than for its ban. Whoever wants to know how the
                // limits stand is told that too.
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

    /// Has the limits decide, the candidate beside them, and counts a refusal toward a ban.
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
        // The candidate decides nothing, so nobody waits longer for it than for the limits.
        let (live, tried) =
            tokio::join!(self.ask(asked, key, request, full), self.home.check(&candidate.known, key, request));
        let (mut decision, details) = live?;
        if let Ok(tried) = tried
            && candidate.compare(&decision, &tried)
        {
            self.counts(known).flip(decision.allowed);
        }
        self.count_refusal(known, rules, key, request, &mut decision).await?;
        Ok((decision, details))
    }

    /// Makes an answer of what was decided: nobody is refused in shadow. Counts it.
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
            self.counts(known).rule(verdict.rule);
        }
        self.tell(asked, [key], std::slice::from_ref(&verdict.decision), &verdict.details);
        if verdict.rule == Rule::Shadow {
            self.sample("shadowed", asked, &would, key);
        }
    }

    /// Counts a refusal by limits, and bans the key if it was one too many: then it waits for that too.
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
        let counted = self.home.check(refusals, key, &Request::ONE.mode(Mode::Binary)).await?;
        let by_nobody = matches!(counted.source, Source::Open | Source::Closed);
        if by_nobody || counted.allowed && counted.remaining > 0 {
            return Ok(());
        }
        let now = self.clock.now();
        let begun = self.bans.begin(known.policy.name(), key, ban, now).unwrap_or_else(|NoRoom| {
            // Told at the first and then ever less often; the metrics tell of each.
            let count = self.bans.without_room();
            if count.is_power_of_two() {
                let (policy, bytes) = (known.policy.name(), self.bans.bytes());
                self.log.warn("ban_without_room", &[("policy", &policy), ("bytes", &bytes), ("count", &count)]);
            }
            None
        });
        if let Some(begun) = begun {
            self.counts(known).ban();
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

    /// Forgets a key under a policy with rules: under its limits and those it has instead, what is tried
    /// beside them, and its refusals and bans.
    pub(in crate::desk) async fn reset_by_rules(
        &self,
        known: &Known,
        rules: &Rules,
        key: &[u8],
    ) -> Result<(), StoreError> {
        self.home.reset(known, key).await?;
        if let Some(found) = self.overriding(rules, key) {
            self.home.reset(&found.known, key).await?;
        }
        if let Some(candidate) = &rules.candidate {
            self.home.reset(&candidate.known, key).await?;
        }
        if let Some(banning) = &rules.ban {
            self.home.reset(&banning.refusals, key).await?;
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
            true => self.home.check_full(asked, key, request).await,
            false => Ok((self.home.check(asked, key, request).await?, Vec::new())),
        }
    }
}

/// As it was decided, but let pass. What is in the allow list was only looked at, so nothing is charged.
pub(super) fn passed(decision: Decision, request: &Request) -> Decision {
    let granted = request.cost.get();
    Decision { allowed: true, granted, retry_after: Wait::NONE, next_after: Wait::NONE, ..decision }
}

/// A refusal by a ban, of a key that its limits may keep waiting for longer.
pub(super) fn banned(left: Micros, limits: &Decision, at: Timestamp) -> Decision {
    let ban = refused(Wait::After(left), at);
    let wait = ban.retry_after.max(limits.retry_after);
    Decision { retry_after: wait, next_after: wait, reset_after: ban.reset_after.max(limits.reset_after), ..ban }
}

/// A refusal that no limit made.
pub(super) fn refused(wait: Wait, at: Timestamp) -> Decision {
    Decision {
        allowed: false,
        granted: 0,
        charged: 0,
        remaining: 0,
        retry_after: wait,
        next_after: wait,
        reset_after: wait.span().unwrap_or_default(),
        limited_by: None,
        at,
        source: Source::Home,
    }
}
