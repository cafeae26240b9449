//! The engine: the single entry point for front-ends, whichever home decides.
//!
//! | file | what it is |
//! |---|---|
//! | `decide.rs` | one key under a policy with rules |
//! | `together.rs` | several keys, all or none |
//! | `adopt.rs` | from one generation of policies to the next |
//! | `facts.rs` | the explanation of a decision |
//! | `keys.rs`, `stand_in.rs` | the keys of the other conventions; their calls while a store does not answer |
//! | `status.rs` | what front-ends read besides answers |

mod adopt;
mod decide;
mod facts;
mod keys;
mod stand_in;
mod status;
#[cfg(test)]
mod tests;
mod together;

use std::sync::{Arc, Mutex};

use tollgate_kernel::{Clock, Decision, Detail, Policy, Request, Source, StoreError};
use tollgate_keyspace::{Fault, Keyspace};
use tollgate_telemetry::audit::{AuditAction, AuditActor, AuditEvent, AuditOutcome};
use tollgate_telemetry::log::ServerLog;

use crate::counts::{PolicyCounters, PolicyCounts, PolicyOwner};
use crate::home::Home;
use crate::ops::Ops;
use crate::policies::{Bans, EnginePolicy, PolicyGeneration, PolicyRegistry};
use crate::question::{DetailLevel, EngineAnswer, EngineCheck, EngineQuestion, EngineVerdict, QuestionPart};
use crate::usage::UsageRecord;
pub use adopt::{AdoptionOutcome, RecoveredState};
pub use facts::{DecisionFacts, moment};
pub use keys::{CallAnswer, LockedKeys};
pub use status::HomeStats;

/// Decides requests, and counts the decisions.
pub struct Engine {
    pub(crate) home: Home,
    pub(crate) policies: PolicyRegistry,
    /// The counters of decisions by policy.
    pub(crate) counts: PolicyCounters,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) ops: Ops,
    pub(crate) log: Arc<ServerLog>,
    pub(crate) keys: Mutex<Keyspace>,
    pub(crate) bans: Bans,
    /// The policies of the command line, which are in every generation.
    pub(crate) given: Vec<Policy>,
    /// Allows one generation to be built at a time.
    pub(crate) adopting: Mutex<()>,
}

impl Engine {
    /// Returns an engine with the policies of the command line, until it adopts those of a file.
    pub fn new(home: Home, given: Vec<Policy>, clock: Box<dyn Clock>, log: Arc<ServerLog>, keys: Keyspace) -> Self {
        let bans = Bans::with_room(keys.room_for_bans());
        let (policies, adopting) = (PolicyRegistry::default(), Mutex::default());
        let (ops, keys) = (Ops::default(), Mutex::new(keys));
        Self { home, policies, counts: PolicyCounters::default(), clock, ops, log, keys, bans, given, adopting }
    }

    /// Returns the same engine with these parts for its operators.
    pub fn with_ops(self, ops: Ops) -> Self {
        Self { ops, ..self }
    }

    /// Returns the policy with that text or name; its state is filed under `name` if one is given.
    pub fn policy(&self, text: &[u8], name: Option<&[u8]>) -> Result<Arc<EnginePolicy>, Fault> {
        self.policy_of(&self.policies.load(), text, name)
    }

    /// Returns the same in a given generation, so that a request that names several policies sees a single generation.
    pub fn policy_of(
        &self,
        generation: &PolicyGeneration,
        text: &[u8],
        name: Option<&[u8]>,
    ) -> Result<Arc<EnginePolicy>, Fault> {
        let make = |policy| Ok(EnginePolicy::new(policy, &self.home, PolicyOwner::Callers)?);
        self.policies.find(generation, text, name, make)
    }

    /// Returns the counters for decisions under a policy.
    #[inline]
    pub(crate) fn counts_of<'a>(&self, known: &'a EnginePolicy) -> &'a PolicyCounts {
        known.counts.get_or_init(|| self.counts.policy(&known.policy, known.owner))
    }

    /// Decides one request on each of `keys`, in order, if the home answers at once and the policy has no rules. Keys
    /// must be 1 to 512 bytes each; `decisions` is cleared first.
    #[inline]
    pub fn check_many_now(
        &self,
        known: &EnginePolicy,
        keys: &[&[u8]],
        request: &Request,
        decisions: &mut Vec<Decision>,
    ) -> Option<Result<(), StoreError>> {
        let (Home::Embedded(embedded), Some(prepared), None) = (&self.home, &known.prepared, &known.rules) else {
            return None;
        };
        let done = embedded.check_many(prepared, keys, request, decisions);
        self.record(known, keys.iter().copied(), decisions, &[]);
        Some(done)
    }

    /// Does the same for any home, and for policies with rules.
    pub async fn check_many(
        &self,
        known: &EnginePolicy,
        keys: &[&[u8]],
        request: &Request,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), StoreError> {
        if let Some(done) = self.check_many_now(known, keys, request, decisions) {
            return done;
        }
        if let Some(rules) = &known.rules {
            decisions.clear();
            for key in keys {
                decisions.push(self.decide_by_rules(known, rules, key, request, false).await?.decision);
            }
            return Ok(());
        }
        self.home.check_many(known.at_home(), keys, request, decisions).await?;
        self.record(known, keys.iter().copied(), decisions, &[]);
        Ok(())
    }

    /// Counts decisions, and logs a sample of those that refuse or that the home did not make.
    #[inline]
    pub(crate) fn record<'a>(
        &self,
        known: &EnginePolicy,
        keys: impl IntoIterator<Item = &'a [u8]> + Clone,
        decisions: &[Decision],
        parts: &[Detail],
    ) {
        self.counts_of(known).count(decisions);
        if let Some(observers) = &known.observers {
            observers.observe(&self.ops.usage, &self.home, known.at_home(), keys.clone(), decisions, parts);
        }
        for (decision, key) in decisions.iter().zip(keys) {
            if !decision.allowed {
                self.sample("refused", known, decision, key);
            } else if decision.source != Source::Home {
                self.sample("stood_in", known, decision, key);
            }
        }
    }

    /// Logs a decision, if it is the first of its second.
    pub(crate) fn sample(&self, event: &'static str, known: &EnginePolicy, decision: &Decision, key: &[u8]) {
        let limit = decision.limited_by.and_then(|place| known.policy.limits().get(place));
        let name = known.policy.name();
        let label = if name.is_empty() { self.counts_of(known).label() } else { name };
        self.log.sampled(event, decision, label, limit.map(|limit| &**limit), key);
    }

    /// Returns the usage of a key under a policy, `None` if it is not recorded.
    pub fn usage_of(&self, known: &EnginePolicy, key: &[u8]) -> Option<UsageRecord> {
        let is_kept = known.observers.as_ref().is_some_and(|observers| observers.usage);
        is_kept.then(|| self.ops.usage.of(known.policy.name(), key))
    }

    /// Answers a question.
    pub async fn answer(&self, question: &EngineQuestion) -> Result<EngineAnswer, Fault> {
        match question {
            EngineQuestion::Check(ask) => Ok(EngineAnswer::Decided(self.check(ask).await?)),
            EngineQuestion::Reset(QuestionPart { known, key, .. }) => {
                match &known.rules {
                    Some(rules) => self.reset_by_rules(known, rules, key).await?,
                    None => self.home.reset(known.at_home(), key).await?,
                }
                Ok(EngineAnswer::Done)
            }
            EngineQuestion::Refund { part: QuestionPart { known, key, .. }, units, at } => {
                let overriding = known.rules.as_deref().and_then(|rules| self.override_for(rules, key));
                let known = overriding.map_or(known, |found| &found.known);
                Ok(EngineAnswer::Units(self.home.refund(known.at_home(), key, *units, *at).await?))
            }
            EngineQuestion::All(parts) => {
                if parts.iter().any(|part| part.known.rules.is_some()) {
                    let (together, verdicts) = self.decide_all_by_rules(parts).await?;
                    return Ok(EngineAnswer::Together(together, verdicts));
                }
                let together =
                    self.home.check_all(&parts.iter().map(QuestionPart::at_home).collect::<Vec<_>>()).await?;
                for (part, decision) in parts.iter().zip(&together.decisions) {
                    self.record(&part.known, [part.key.as_slice()], std::slice::from_ref(decision), &[]);
                }
                Ok(EngineAnswer::Together(together, Vec::new()))
            }
        }
    }

    /// Answers a question of a caller, who is named in the audit log if the question is a reset.
    pub async fn answer_by(&self, question: &EngineQuestion, by: &AuditActor) -> Result<EngineAnswer, Fault> {
        let answer = self.answer(question).await;
        if let EngineQuestion::Reset(part) = question {
            self.audit_reset(by, part, answer.as_ref().err());
        }
        answer
    }

    /// Writes to the audit log that a key was reset, or why it was not.
    fn audit_reset(&self, by: &AuditActor, part: &QuestionPart, fault: Option<&Fault>) {
        let outcome = fault.map_or(AuditOutcome::Done, |fault| AuditOutcome::Failed(&fault.text));
        let (label, text) = (part.known.label(), part.known.policy.to_string());
        let detail = if label == text { "" } else { &text };
        let (policy, key) = (label.as_str(), Some(part.key.as_slice()));
        self.ops.audit.record(&AuditEvent { action: AuditAction::Reset, actor: by, policy, key, outcome, detail });
    }

    async fn check(&self, ask: &EngineCheck) -> Result<EngineVerdict, StoreError> {
        let QuestionPart { known, key, .. } = &ask.part;
        if let Some(rules) = &known.rules {
            return self.decide_by_rules(known, rules, key, &ask.request(), ask.detail == DetailLevel::Full).await;
        }
        let (decision, details) = match ask.detail {
            DetailLevel::Full => self.home.check_full(known.at_home(), key, &ask.request()).await?,
            DetailLevel::Flat | DetailLevel::Rest => {
                (self.home.check(known.at_home(), key, &ask.request()).await?, Vec::new())
            }
        };
        if !ask.peek {
            self.record(known, [key.as_slice()], std::slice::from_ref(&decision), &details);
        }
        Ok(EngineVerdict::plain(decision, details))
    }
}
