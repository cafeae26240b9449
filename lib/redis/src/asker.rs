//! One call from request to answer: finds the server, waits no longer than the deadline, follows redirections, and
//! sends again what verdict.rs permits.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;
use tokio::sync::oneshot;
use tokio::time::{Timeout, timeout_at};
use tollgate_kernel::StoreError;

use crate::call::Call;
use crate::link::{Link, Shared};
use crate::router::{Moved, Router};
use crate::slot::slot;
use crate::stats::add;
use crate::verdict::{Trouble, Verdict, command_verdict, is_unknown_command, verdict, words};

/// The maximum number of redirections of a call.
const MAX_REDIRECTIONS: u32 = 5;
/// The maximum number of times that a call waits for a temporary condition. The first wait is a millisecond, each
/// further one twice as long.
const MAX_WAITS: u32 = 3;

pub(crate) struct Asker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) router: Router,
}

/// A call in flight.
struct Sent {
    call: Arc<Call>,
    link: Link,
    answer: oneshot::Receiver<Result<Value, Trouble>>,
    redirections: u32,
    waits: u32,
}

/// How a call continues after the server refused it.
enum Next {
    To(Link, Asking),
    AfterWaiting,
}

type Asking = bool;

impl Asker {
    /// Sends a call and returns the answer, within the deadline.
    pub(crate) async fn ask(&self, call: Call) -> Result<Value, StoreError> {
        let deadline = self.deadline();
        let sent = self.start(Arc::new(call), deadline).await;
        self.finish(sent, deadline).await
    }

    /// Sends all calls at once, within one deadline. The answers are in the order of the calls.
    pub(crate) async fn ask_many(&self, calls: Vec<Call>) -> Vec<Result<Value, StoreError>> {
        let deadline = self.deadline();
        let (mut under_way, mut answers) = (Vec::with_capacity(calls.len()), Vec::with_capacity(calls.len()));
        for call in calls {
            under_way.push(self.start(Arc::new(call), deadline).await);
        }
        for sent in under_way {
            answers.push(self.finish(sent, deadline).await);
        }
        answers
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.shared.settings.deadline
    }

    async fn start(&self, call: Arc<Call>, deadline: Instant) -> Result<Sent, StoreError> {
        let link = self.link(&call, deadline).await?;
        let answer = self.post(&link, &call, false, deadline).await?;
        Ok(Sent { call, link, answer, redirections: 0, waits: 0 })
    }

    async fn link(&self, call: &Call, deadline: Instant) -> Result<Link, StoreError> {
        let slot = if self.router.is_cluster() { call.keys.first().map_or(0, |key| slot(key)) } else { 0 };
        if self.router.breaker().is_some_and(|breaker| breaker.is_open()) {
            return Err(self.away("no node of the cluster answers".into(), true));
        }
        match self.within(deadline, self.router.link(slot)).await {
            Ok(Some(link)) if link.core.breaker.is_open() => {
                Err(away(format!("{} does not answer, and is probed", link.core.node), true))
            }
            Ok(Some(link)) => Ok(link),
            Ok(None) | Err(_) => {
                if let Some(breaker) = self.router.breaker() {
                    breaker.failure(Instant::now());
                }
                Err(self.away("no node of the cluster told its slots in time".into(), true))
            }
        }
    }

    async fn post(
        &self,
        link: &Link,
        call: &Arc<Call>,
        asking: Asking,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Result<Value, Trouble>>, StoreError> {
        match self.within(deadline, link.post(call.clone(), asking)).await {
            Ok(answer) => Ok(answer),
            Err(_) => {
                link.failed();
                Err(self.away(format!("too many calls wait for {}", link.core.node), true))
            }
        }
    }

    async fn finish(&self, sent: Result<Sent, StoreError>, deadline: Instant) -> Result<Value, StoreError> {
        let mut sent = sent?;
        loop {
            let next = match self.answer(&mut sent, deadline).await {
                Ok(value) => {
                    sent.link.core.breaker.success();
                    return Ok(value);
                }
                Err(trouble) => self.judge(&mut sent, trouble)?,
            };
            add(&self.shared.counters.retries, 1);
            let (link, asking) = match next {
                Next::To(link, asking) => (link, asking),
                Next::AfterWaiting => {
                    self.wait(sent.waits, deadline).await;
                    (self.link(&sent.call, deadline).await?, false)
                }
            };
            sent.answer = self.post(&link, &sent.call, asking, deadline).await?;
            sent.link = link;
        }
    }

    async fn answer(&self, sent: &mut Sent, deadline: Instant) -> Result<Value, Trouble> {
        match self.within(deadline, &mut sent.answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(given_up(&sent.call, "the runtime of the store has ended".into())),
            Err(_) => {
                sent.answer.close();
                let why = format!("{}: no answer within {:?}", sent.link.core.node, self.shared.settings.deadline);
                Err(given_up(&sent.call, why))
            }
        }
    }

    fn judge(&self, sent: &mut Sent, trouble: Trouble) -> Result<Next, StoreError> {
        let error = match trouble {
            Trouble::Server(error) => error,
            Trouble::Wrong(why) => return Err(StoreError::Refused(why)),
            Trouble::Unsent(why) => {
                sent.link.failed();
                return Err(self.away(why, true));
            }
            Trouble::Unknown(why) => {
                sent.link.failed();
                return Err(self.away(why, false));
            }
        };
        // A user's own script may have returned this error after it wrote.
        let ours = sent.call.is_ours();
        match if sent.call.is_command() { command_verdict(&error) } else { verdict(&error) } {
            Verdict::Moved(place) if sent.may_redirect() => {
                self.redirect(sent, &place, Moved::ForGood).ok_or_else(|| needs_cluster(&error))
            }
            Verdict::Asked(place) if sent.may_redirect() => {
                self.redirect(sent, &place, Moved::Now).ok_or_else(|| needs_cluster(&error))
            }
            verdict @ (Verdict::Wait | Verdict::Elsewhere) if ours && sent.waits < MAX_WAITS => {
                sent.waits += 1;
                if verdict == Verdict::Elsewhere {
                    self.look_elsewhere(sent);
                }
                Ok(Next::AfterWaiting)
            }
            Verdict::Wait | Verdict::Elsewhere => {
                sent.link.failed();
                Err(self.away(words(&error), ours))
            }
            Verdict::Wrong if sent.call.is_command() && is_unknown_command(&error) => {
                let hint = "expected a Tollgate server; name a Redis or Valkey redis://";
                Err(StoreError::Refused(format!("{hint}: {}", words(&error))))
            }
            Verdict::Wrong => Err(StoreError::Refused(words(&error))),
            Verdict::Unsure => Err(self.away(words(&error), false)),
            Verdict::Missing | Verdict::Moved(_) | Verdict::Asked(_) | Verdict::Unable => {
                Err(self.away(words(&error), ours))
            }
        }
    }

    fn redirect(&self, sent: &mut Sent, place: &crate::verdict::Place, moved: Moved) -> Option<Next> {
        sent.redirections += 1;
        let link = self.router.redirected(&sent.link, place, moved)?;
        Some(Next::To(link, moved == Moved::Now))
    }

    /// Reacts to a node that is not a master, or knows of none: the cluster or the sentinels are queried for the
    /// master.
    fn look_elsewhere(&self, sent: &Sent) {
        self.shared.trouble.notify_one();
        if !self.router.is_cluster() {
            sent.link.core.leave();
        }
    }

    async fn wait(&self, waits: u32, deadline: Instant) {
        let span = Duration::from_millis(1 << waits.saturating_sub(1));
        let until = deadline.min(Instant::now() + span);
        let _ = self.within(until, std::future::pending::<()>()).await;
    }

    /// Like `timeout_at`, but also works if the caller's executor is not tokio.
    pub(crate) fn within<F: Future>(&self, deadline: Instant, future: F) -> Timeout<F> {
        let _runtime = self.shared.runtime.enter();
        timeout_at(deadline.into(), future)
    }

    fn away(&self, why: String, untouched: bool) -> StoreError {
        add(&self.shared.counters.errors, 1);
        away(why, untouched)
    }
}

impl Sent {
    fn may_redirect(&self) -> bool {
        self.redirections < MAX_REDIRECTIONS
    }
}

fn away(why: String, untouched: bool) -> StoreError {
    StoreError::Away { why, untouched }
}

/// Requires that the answer's receiver is closed before this checks whether the call was sent.
fn given_up(call: &Call, why: String) -> Trouble {
    if call.is_untouched() { Trouble::Unsent(why) } else { Trouble::Unknown(why) }
}

fn needs_cluster(error: &redis::ServerError) -> StoreError {
    StoreError::Refused(format!("expected redis+cluster:// for a node of a cluster: {}", words(error)))
}
