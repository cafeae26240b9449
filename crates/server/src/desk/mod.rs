//! The desk: the one place that both front-ends ask, whichever home decides.
//!
//! | file | what it is |
//! |---|---|
//! | `question.rs` | what can be asked, and what is answered |
//! | `policies.rs` | policy texts, parsed once and kept, within bounds |
//! | `home.rs` | the embedded store, or another one |

mod home;
mod policies;
mod question;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::{Clock, Decision, Request, Source, StoreError};

pub(crate) use home::Home;
pub(crate) use policies::{Known, Policies};
pub(crate) use question::{Answer, Ask, Part, Question, Tells};

use crate::fault::Fault;
use crate::keys::Keys;
use crate::log::Log;
use crate::metrics::Metrics;

/// What decides, and what is counted of it.
pub(crate) struct Desk {
    pub(crate) home: Home,
    pub(crate) policies: Policies,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Box<dyn Clock>,
    log: Arc<Log>,
    keys: Mutex<Keys>,
}

impl Desk {
    pub(crate) fn new(
        home: Home,
        policies: Policies,
        metrics: Arc<Metrics>,
        clock: Box<dyn Clock>,
        log: Arc<Log>,
        keys: Keys,
    ) -> Self {
        // Those of the server are counted by themselves, however many callers bring.
        policies.listed().iter().for_each(|policy| drop(metrics.policy(policy)));
        Self { home, policies, metrics, clock, log, keys: Mutex::new(keys) }
    }

    /// The keys of the other conventions, nobody else's for as long as they are held.
    pub(crate) fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policy of that text or name, its state filed under `name` if one is given.
    pub(crate) fn policy(&self, text: &[u8], name: Option<&[u8]>) -> Result<Arc<Known>, Fault> {
        self.policies.find(text, name, |policy| {
            let counts = self.metrics.policy(policy);
            Ok(Known { prepared: self.home.prepare(policy)?, counts, policy: policy.clone() })
        })
    }

    /// Decides one request on each of `keys`, in order, if the home answers at once. They must be 1 to 512
    /// bytes each; `decisions` is emptied first.
    #[inline]
    pub(crate) fn check_many_now(
        &self,
        known: &Known,
        keys: &[&[u8]],
        request: &Request,
        decisions: &mut Vec<Decision>,
    ) -> Option<Result<(), StoreError>> {
        let (Home::Embedded(memory), Some(prepared)) = (&self.home, &known.prepared) else { return None };
        let done = match keys {
            [key] => {
                decisions.clear();
                memory.check(prepared, key, request).map(|decision| decisions.push(decision))
            }
            keys => memory.check_many(prepared, keys, request, decisions),
        };
        self.tell(known, keys.iter().copied(), decisions);
        Some(done)
    }

    /// The same by whichever home.
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
        *decisions = self.home.store().check_many(&known.policy, keys, *request).await?;
        self.tell(known, keys.iter().copied(), decisions);
        Ok(())
    }

    /// Counts decisions, and logs a sample of those that refuse or that the home did not make.
    #[inline]
    fn tell<'a>(&self, known: &Known, keys: impl IntoIterator<Item = &'a [u8]>, decisions: &[Decision]) {
        known.counts.count(decisions);
        for (decision, key) in decisions.iter().zip(keys) {
            if !decision.allowed || decision.source != Source::Home {
                let limit = decision.limited_by.and_then(|place| known.policy.limits().get(place));
                self.log.sampled(decision, known.counts.label(), limit.map(|limit| &**limit), key);
            }
        }
    }

    /// Answers a question.
    pub(crate) async fn answer(&self, question: &Question) -> Result<Answer, Fault> {
        match question {
            Question::Check(ask) => self.check(ask).await,
            Question::Reset(part) => {
                self.home.reset(&part.known, &part.key).await?;
                Ok(Answer::Done)
            }
            Question::Refund { part, units, at } => {
                Ok(Answer::Units(self.home.refund(&part.known, &part.key, *units, *at).await?))
            }
            Question::All(parts) => {
                let together = self.home.check_all(parts).await?;
                for (part, decision) in parts.iter().zip(&together.decisions) {
                    self.tell(&part.known, [part.key.as_slice()], std::slice::from_ref(decision));
                }
                Ok(Answer::Together(together))
            }
        }
    }

    async fn check(&self, ask: &Ask) -> Result<Answer, Fault> {
        let known = &ask.part.known;
        let (decision, details) = match ask.tells {
            Tells::Full => self.home.check_full(known, &ask.part.key, &ask.request()).await?,
            Tells::Flat | Tells::Rest => (self.home.check(known, &ask.part.key, &ask.request()).await?, Vec::new()),
        };
        if !ask.peek {
            self.tell(known, [ask.part.key.as_slice()], std::slice::from_ref(&decision));
        }
        Ok(Answer::Decided(decision, details))
    }
}
