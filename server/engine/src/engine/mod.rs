//! The engine: the single entry point for front-ends, whichever home decides.
//!
//! | file | what it is |
//! |---|---|
//! | `decide.rs` | one key under a policy with rules |
//! | `together.rs` | several keys, all or none |
//! | `adopt.rs` | from one generation of policies to the next |
//! | `facts.rs` | the explanation of a decision |
//! | `status.rs` | what front-ends read besides answers |

mod adopt;
mod decide;
mod facts;
mod status;
#[cfg(test)]
mod tests;
mod together;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_kernel::{Clock, Decision, Detail, Policy, Request, Source, StoreError};
use tollgate_keyspace::{Fault, Keys};
use tollgate_telemetry::audit::{By, Event, Outcome, What};
use tollgate_telemetry::log::Log;

use crate::counts::{PolicyCounters, PolicyCounts, Whose};
use crate::home::Home;
use crate::ops::Ops;
use crate::policies::{Bans, Generation, Known, Policies};
use crate::question::{Answer, Ask, Part, Question, Tells, Verdict};
use crate::usage::Used;
pub use adopt::{Adopted, Recovered};
pub use facts::{Facts, moment};
pub use status::HomeStats;

/// Decides requests, and counts the decisions.
pub struct Engine {
    pub(crate) home: Home,
    pub(crate) policies: Policies,
    /// The counters of decisions by policy.
    pub counts: PolicyCounters,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) ops: Ops,
    pub(crate) log: Arc<Log>,
    pub(crate) keys: Mutex<Keys>,
    pub(crate) bans: Bans,
    /// The policies of the command line, which are in every generation.
    pub(crate) given: Vec<Policy>,
    /// Allows one generation to be built at a time.
    pub(crate) adopting: Mutex<()>,
}

impl Engine {
    /// Returns an engine with the policies of the command line, until it adopts those of a file.
    pub fn new(home: Home, given: Vec<Policy>, clock: Box<dyn Clock>, log: Arc<Log>, keys: Keys) -> Self {
        let bans = Bans::with_room(keys.room_for_bans());
        let (policies, adopting) = (Policies::default(), Mutex::default());
        let (ops, keys) = (Ops::default(), Mutex::new(keys));
        Self { home, policies, counts: PolicyCounters::default(), clock, ops, log, keys, bans, given, adopting }
    }

    /// Returns the same engine with these parts for its operators.
    pub fn with_ops(self, ops: Ops) -> Self {
        Self { ops, ..self }
    }

    /// Locks the keys of the other conventions.
    pub fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the policy with that text or name; its state is filed under `name` if one is given.
    pub fn policy(&self, text: &[u8], name: Option<&[u8]>) -> Result<Arc<Known>, Fault> {
        self.policy_of(&self.policies.load(), text, name)
    }

    /// Returns the same in a given generation, so that a request that names several policies sees a single generation.
    pub fn policy_of(&self, generation: &Generation, text: &[u8], name: Option<&[u8]>) -> Result<Arc<Known>, Fault> {
        let make = |policy| Ok(Known::new(policy, &self.home, Whose::Callers)?);
        self.policies.find(generation, text, name, make)
    }

    /// Returns the counters for decisions under a policy.
    #[inline]
    pub(crate) fn counts_of<'a>(&self, known: &'a Known) -> &'a PolicyCounts {
        known.counts.get_or_init(|| self.counts.policy(&known.policy, known.whose))
    }

    /// Decides one request on each of `keys`, in order, if the home answers at once and the policy has no rules. Keys
    /// must be 1 to 512 bytes each; `decisions` is cleared first.
    #[inline]
    pub fn check_many_now(
        &self,
        known: &Known,
        keys: &[&[u8]],
        request: &Request,
        decisions: &mut Vec<Decision>,
    ) -> Option<Result<(), StoreError>> {
        let (Home::Embedded(embedded), Some(filed), None) = (&self.home, &known.prepared, &known.rules) else {
            return None;
        };
        let done = embedded.check_many(filed, keys, request, decisions);
        self.tell(known, keys.iter().copied(), decisions, &[]);
        Some(done)
    }

    /// Does the same for any home, and for policies with rules.
    pub async fn check_many(
        &self,
        known: &Known,
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
        *decisions = self.home.store().check_many(known.at_home().stored, keys, *request).await?;
        self.tell(known, keys.iter().copied(), decisions, &[]);
        Ok(())
    }

    /// Counts decisions, and logs a sample of those that refuse or that the home did not make.
    #[inline]
    pub(crate) fn tell<'a>(
        &self,
        known: &Known,
        keys: impl IntoIterator<Item = &'a [u8]> + Clone,
        decisions: &[Decision],
        parts: &[Detail],
    ) {
        self.counts_of(known).count(decisions);
        if let Some(watched) = &known.watched {
            watched.look(&self.ops.usage, &self.home, known.at_home(), keys.clone(), decisions, parts);
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
    pub(crate) fn sample(&self, event: &'static str, known: &Known, decision: &Decision, key: &[u8]) {
        let limit = decision.limited_by.and_then(|place| known.policy.limits().get(place));
        let name = known.policy.name();
        let label = if name.is_empty() { self.counts_of(known).label() } else { name };
        self.log.sampled(event, decision, label, limit.map(|limit| &**limit), key);
    }

    /// Returns the usage of a key under a policy, `None` if it is not recorded.
    pub fn used(&self, known: &Known, key: &[u8]) -> Option<Used> {
        let is_kept = known.watched.as_ref().is_some_and(|watched| watched.usage);
        is_kept.then(|| self.ops.usage.of(known.policy.name(), key))
    }

    /// Answers a question.
    pub async fn answer(&self, question: &Question) -> Result<Answer, Fault> {
        match question {
            Question::Check(ask) => Ok(Answer::Decided(self.check(ask).await?)),
            Question::Reset(Part { known, key, .. }) => {
                match &known.rules {
                    Some(rules) => self.reset_by_rules(known, rules, key).await?,
                    None => self.home.reset(known.at_home(), key).await?,
                }
                Ok(Answer::Done)
            }
            Question::Refund { part: Part { known, key, .. }, units, at } => {
                let overriding = known.rules.as_deref().and_then(|rules| self.overriding(rules, key));
                let known = overriding.map_or(known, |found| &found.known);
                Ok(Answer::Units(self.home.refund(known.at_home(), key, *units, *at).await?))
            }
            Question::All(parts) => {
                if parts.iter().any(|part| part.known.rules.is_some()) {
                    let (together, verdicts) = self.decide_all_by_rules(parts).await?;
                    return Ok(Answer::Together(together, verdicts));
                }
                let together = self.home.check_all(&parts.iter().map(Part::at_home).collect::<Vec<_>>()).await?;
                for (part, decision) in parts.iter().zip(&together.decisions) {
                    self.tell(&part.known, [part.key.as_slice()], std::slice::from_ref(decision), &[]);
                }
                Ok(Answer::Together(together, Vec::new()))
            }
        }
    }

    /// Answers a question of a caller, who is named in the audit log if the question is a reset.
    pub async fn answer_by(&self, question: &Question, by: &By) -> Result<Answer, Fault> {
        let answer = self.answer(question).await;
        if let Question::Reset(part) = question {
            self.audit_reset(by, part, answer.as_ref().err());
        }
        answer
    }

    /// Writes to the audit log that a key was reset, or why it was not.
    fn audit_reset(&self, by: &By, part: &Part, fault: Option<&Fault>) {
        let outcome = fault.map_or(Outcome::Done, |fault| Outcome::Failed(&fault.text));
        let (label, text) = (part.known.label(), part.known.policy.to_string());
        let detail = if label == text { "" } else { &text };
        let (policy, key) = (label.as_str(), Some(part.key.as_slice()));
        self.ops.audit.tell(&Event { what: What::Reset, by, policy, key, outcome, detail });
    }

    async fn check(&self, ask: &Ask) -> Result<Verdict, StoreError> {
        let Part { known, key, .. } = &ask.part;
        if let Some(rules) = &known.rules {
            return self.decide_by_rules(known, rules, key, &ask.request(), ask.tells == Tells::Full).await;
        }
        let (decision, details) = match ask.tells {
            Tells::Full => self.home.check_full(known.at_home(), key, &ask.request()).await?,
            Tells::Flat | Tells::Rest => (self.home.check(known.at_home(), key, &ask.request()).await?, Vec::new()),
        };
        if !ask.peek {
            self.tell(known, [key.as_slice()], std::slice::from_ref(&decision), &details);
        }
        Ok(Verdict::plain(decision, details))
    }
}
