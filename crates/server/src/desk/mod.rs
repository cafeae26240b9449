//! The desk: the one place that both front-ends ask, whichever home decides.
//!
//! | file | what it is |
//! |---|---|
//! | `question.rs` | what can be asked, and what is answered |
//! | `policies.rs` | policies by name and by text, within bounds |
//! | `generation.rs` | the policies that the server was told of, under a number |
//! | `adopt.rs` | from one generation to the next |
//! | `rules/` | what policies have beside their limits |
//! | `home.rs` | the embedded store, or another one |

mod adopt;
mod generation;
mod home;
mod policies;
mod question;
mod rules;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::{Clock, Decision, Detail, Policy, Request, Source, StoreError};

pub(crate) use adopt::{Adopted, Recovered};
pub(crate) use generation::{Generation, GenerationError, Known};
pub(crate) use home::Home;
pub(crate) use policies::Policies;
pub(crate) use question::{Answer, Ask, Part, Question, Tells};
pub(crate) use rules::{Facts, Flips, Rule, Verdict, moment};

use crate::audit::By;
use crate::fault::Fault;
use crate::keys::Keys;
use crate::log::Log;
use crate::metrics::{Metrics, PolicyCounts, Whose};
use crate::ops::Ops;
use crate::usage::Used;
use rules::Bans;

/// What decides, and what is counted of it.
pub(crate) struct Desk {
    pub(crate) home: Home,
    pub(crate) policies: Policies,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) ops: Ops,
    log: Arc<Log>,
    pub(crate) keys: Mutex<Keys>,
    pub(crate) bans: Bans,
    /// Policies of the command line, which every generation has.
    given: Vec<Policy>,
    /// One generation is made at a time.
    adopting: Mutex<()>,
}

impl Desk {
    /// A desk whose policies are those of the command line, until it is given a file's.
    pub(crate) fn new(
        home: Home,
        given: Vec<Policy>,
        metrics: Arc<Metrics>,
        clock: Box<dyn Clock>,
        log: Arc<Log>,
        keys: Keys,
    ) -> Self {
        let bans = Bans::with_room(keys.room_for_bans());
        let (policies, adopting) = (Policies::default(), Mutex::default());
        let (ops, keys) = (Ops::default(), Mutex::new(keys));
        Self { home, policies, metrics, clock, ops, log, keys, bans, given, adopting }
    }

    /// The same, seen by those who run it.
    pub(crate) fn with_ops(self, ops: Ops) -> Self {
        Self { ops, ..self }
    }

    /// The keys of the other conventions, nobody else's for as long as they are held.
    pub(crate) fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policy of that text or name, its state filed under `name` if one is given.
    pub(crate) fn policy(&self, text: &[u8], name: Option<&[u8]>) -> Result<Arc<Known>, Fault> {
        self.policy_of(&self.policies.load(), text, name)
    }

    /// The same in a generation: a request that names several policies sees all of one.
    pub(crate) fn policy_of(
        &self,
        generation: &Generation,
        text: &[u8],
        name: Option<&[u8]>,
    ) -> Result<Arc<Known>, Fault> {
        let make = |policy| Ok(Known::new(policy, &self.home, Whose::Callers)?);
        self.policies.find(generation, text, name, make)
    }

    /// Where decisions under a policy are counted.
    #[inline]
    fn counts<'a>(&self, known: &'a Known) -> &'a PolicyCounts {
        known.counts.get_or_init(|| self.metrics.policy(&known.policy, known.whose))
    }

    /// Decides one request on each of `keys`, in order, if the home answers at once and the policy has no rules.
    /// They must be 1 to 512 bytes each; `decisions` is emptied first.
    #[inline]
    pub(crate) fn check_many_now(
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

    /// The same by whichever home, and by the policy's rules.
    pub(crate) async fn check_many(
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
        *decisions = self.home.store().check_many(known.stored(), keys, *request).await?;
        self.tell(known, keys.iter().copied(), decisions, &[]);
        Ok(())
    }

    /// Counts decisions, and logs a sample of those that refuse or that the home did not make.
    #[inline]
    fn tell<'a>(
        &self,
        known: &Known,
        keys: impl IntoIterator<Item = &'a [u8]> + Clone,
        decisions: &[Decision],
        parts: &[Detail],
    ) {
        self.counts(known).count(decisions);
        if let Some(watched) = &known.watched {
            watched.look(&self.ops.usage, &self.home, known, keys.clone(), decisions, parts);
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
    fn sample(&self, event: &'static str, known: &Known, decision: &Decision, key: &[u8]) {
        let limit = decision.limited_by.and_then(|place| known.policy.limits().get(place));
        let name = known.policy.name();
        let label = if name.is_empty() { self.counts(known).label() } else { name };
        self.log.sampled(event, decision, label, limit.map(|limit| &**limit), key);
    }

    /// What a key used of a policy; nothing if that is not kept.
    pub(crate) fn used(&self, known: &Known, key: &[u8]) -> Option<Used> {
        let is_kept = known.watched.as_ref().is_some_and(|watched| watched.usage);
        is_kept.then(|| self.ops.usage.of(known.policy.name(), key))
    }

    /// Answers a question.
    pub(crate) async fn answer(&self, question: &Question) -> Result<Answer, Fault> {
        match question {
            Question::Check(ask) => Ok(Answer::Decided(self.check(ask).await?)),
            Question::Reset(Part { known, key, .. }) => {
                match &known.rules {
                    Some(rules) => self.reset_by_rules(known, rules, key).await?,
                    None => self.home.reset(known, key).await?,
                }
                Ok(Answer::Done)
            }
            Question::Refund { part: Part { known, key, .. }, units, at } => {
                let overriding = known.rules.as_deref().and_then(|rules| self.overriding(rules, key));
                let known = overriding.map_or(known, |found| &found.known);
                Ok(Answer::Units(self.home.refund(known, key, *units, *at).await?))
            }
            Question::All(parts) => {
                if parts.iter().any(|part| part.known.rules.is_some()) {
                    let (together, verdicts) = self.decide_all_by_rules(parts).await?;
                    return Ok(Answer::Together(together, verdicts));
                }
                let together = self.home.check_all(parts).await?;
                for (part, decision) in parts.iter().zip(&together.decisions) {
                    self.tell(&part.known, [part.key.as_slice()], std::slice::from_ref(decision), &[]);
                }
                Ok(Answer::Together(together, Vec::new()))
            }
        }
    }

    /// The same for somebody, who is named in the audit log if he resets.
    pub(crate) async fn answer_by(&self, question: &Question, by: &By) -> Result<Answer, Fault> {
        let answer = self.answer(question).await;
        if let Question::Reset(part) = question {
            self.ops.audit.reset(by, part, answer.as_ref().err());
        }
        answer
    }

    async fn check(&self, ask: &Ask) -> Result<Verdict, StoreError> {
        let Part { known, key, .. } = &ask.part;
        if let Some(rules) = &known.rules {
            return self.decide_by_rules(known, rules, key, &ask.request(), ask.tells == Tells::Full).await;
        }
        let (decision, details) = match ask.tells {
            Tells::Full => self.home.check_full(known, key, &ask.request()).await?,
            Tells::Flat | Tells::Rest => (self.home.check(known, key, &ask.request()).await?, Vec::new()),
        };
        if !ask.peek {
            self.tell(known, [key.as_slice()], std::slice::from_ref(&decision), &details);
        }
        Ok(Verdict::plain(decision, details))
    }
}
