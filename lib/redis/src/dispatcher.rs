//! One call from request to answer: finds the server, waits no longer than the deadline, follows redirections, and
//! sends again what `verdict.rs` permits.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;
use tokio::sync::oneshot;
use tokio::time::{Timeout, timeout_at};
use tollgate_kernel::StoreError;

use crate::call::RedisCall;
use crate::link::{Link, LinkContext};
use crate::router::{Router, SlotMove};
use crate::slot::slot;
use crate::stats::add;
use crate::verdict::{CallFailure, ErrorVerdict, RedirectAddress, command_verdict, is_unknown_command, verdict, words};

/// The maximum number of redirections of a call.
const MAX_REDIRECTIONS: u32 = 5;
/// The maximum number of times that a call waits for a temporary condition. The first wait is a millisecond, each
/// further one twice as long.
const MAX_WAITS: u32 = 3;

pub(crate) struct CallDispatcher {
    pub(crate) context: Arc<LinkContext>,
    pub(crate) router: Router,
}

/// A call in flight.
struct CallInFlight {
    call: Arc<RedisCall>,
    link: Link,
    answer: oneshot::Receiver<Result<Value, CallFailure>>,
    redirections: u32,
    waits: u32,
}

/// How a call continues after the server refused it.
enum CallRetry {
    Via(Link, AskingFlag),
    AfterWaiting,
}

type AskingFlag = bool;

impl CallDispatcher {
    /// Sends a call and returns the answer, within the deadline.
    pub(crate) async fn dispatch(&self, call: RedisCall) -> Result<Value, StoreError> {
        let deadline = self.deadline();
        let sent = self.start(Arc::new(call), deadline).await;
        self.finish(sent, deadline).await
    }

    /// Sends all calls at once, within one deadline. The answers are in the order of the calls.
    pub(crate) async fn dispatch_many(&self, calls: Vec<RedisCall>) -> Vec<Result<Value, StoreError>> {
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

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.context.settings.deadline
    }

    async fn start(&self, call: Arc<RedisCall>, deadline: Instant) -> Result<CallInFlight, StoreError> {
        let link = self.link(&call, deadline).await?;
        let answer = self.post(&link, &call, false, deadline).await?;
        Ok(CallInFlight { call, link, answer, redirections: 0, waits: 0 })
    }

    async fn link(&self, call: &RedisCall, deadline: Instant) -> Result<Link, StoreError> {
        let slot = if self.router.is_cluster() { call.keys.first().map_or(0, |key| slot(key)) } else { 0 };
        if self.router.breaker().is_some_and(|breaker| breaker.is_open()) {
            return Err(self.away("no node of the cluster answers".into(), true));
        }
        match self.within(deadline, self.router.link(slot, call.db)).await {
            Ok(Some(link)) if link.core.breaker.is_open() => {
                Err(away(format!("{} does not answer, and is probed", link.core.node), true))
            }
            Ok(Some(link)) => Ok(link),
            Ok(None) | Err(_) => {
                if let Some(breaker) = self.router.breaker() {
                    breaker.failure(Instant::now());
                }
                Err(self.away("no node of the cluster reported the slots in time".into(), true))
            }
        }
    }

    async fn post(
        &self,
        link: &Link,
        call: &Arc<RedisCall>,
        asking: AskingFlag,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Result<Value, CallFailure>>, StoreError> {
        match self.within(deadline, link.post(call.clone(), asking)).await {
            Ok(answer) => Ok(answer),
            Err(_) => {
                link.failed();
                Err(self.away(format!("too many calls wait for {}", link.core.node), true))
            }
        }
    }

    async fn finish(&self, sent: Result<CallInFlight, StoreError>, deadline: Instant) -> Result<Value, StoreError> {
        let mut sent = sent?;
        loop {
            let retry = match self.answer(&mut sent, deadline).await {
                Ok(value) => {
                    sent.link.core.breaker.success();
                    return Ok(value);
                }
                Err(failure) => self.handle_failure(&mut sent, failure)?,
            };
            add(&self.context.counters.retries, 1);
            let (link, asking) = match retry {
                CallRetry::Via(link, asking) => (link, asking),
                CallRetry::AfterWaiting => {
                    self.wait(sent.waits, deadline).await;
                    (self.link(&sent.call, deadline).await?, false)
                }
            };
            sent.answer = self.post(&link, &sent.call, asking, deadline).await?;
            sent.link = link;
        }
    }

    async fn answer(&self, sent: &mut CallInFlight, deadline: Instant) -> Result<Value, CallFailure> {
        match self.within(deadline, &mut sent.answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(given_up(&sent.call, "the runtime of the store has ended".into())),
            Err(_) => {
                sent.answer.close();
                let why = format!("{}: no answer within {:?}", sent.link.core.node, self.context.settings.deadline);
                Err(given_up(&sent.call, why))
            }
        }
    }

    fn handle_failure(&self, sent: &mut CallInFlight, failure: CallFailure) -> Result<CallRetry, StoreError> {
        let error = match failure {
            CallFailure::Server(error) => error,
            CallFailure::Wrong(why) => return Err(StoreError::Refused(why)),
            CallFailure::Unsent(why) => {
                sent.link.failed();
                return Err(self.away(why, true));
            }
            CallFailure::Unknown(why) => {
                sent.link.failed();
                return Err(self.away(why, false));
            }
        };
        // A user's own script may have returned this error after it wrote.
        let ours = sent.call.is_ours();
        match if sent.call.is_command() { command_verdict(&error) } else { verdict(&error) } {
            ErrorVerdict::Moved(address) if sent.may_redirect() => {
                self.redirect(sent, &address, SlotMove::Permanent).ok_or_else(|| needs_cluster(&error))
            }
            ErrorVerdict::Ask(address) if sent.may_redirect() => {
                self.redirect(sent, &address, SlotMove::Temporary).ok_or_else(|| needs_cluster(&error))
            }
            verdict @ (ErrorVerdict::Wait | ErrorVerdict::Elsewhere) if ours && sent.waits < MAX_WAITS => {
                sent.waits += 1;
                if verdict == ErrorVerdict::Elsewhere {
                    self.look_elsewhere(sent);
                }
                Ok(CallRetry::AfterWaiting)
            }
            ErrorVerdict::Wait | ErrorVerdict::Elsewhere => {
                sent.link.failed();
                Err(self.away(words(&error), ours))
            }
            ErrorVerdict::Missing | ErrorVerdict::Unable if sent.call.is_forwarded() => {
                Err(StoreError::Refused(words(&error)))
            }
            ErrorVerdict::Wrong if sent.call.is_command() && is_unknown_command(&error) => {
                let hint = "expected a Tollgate server; name a Redis or Valkey redis://";
                Err(StoreError::Refused(format!("{hint}: {}", words(&error))))
            }
            ErrorVerdict::Wrong => Err(StoreError::Refused(words(&error))),
            ErrorVerdict::Unsure => Err(self.away(words(&error), false)),
            ErrorVerdict::Missing | ErrorVerdict::Moved(_) | ErrorVerdict::Ask(_) | ErrorVerdict::Unable => {
                Err(self.away(words(&error), ours))
            }
        }
    }

    fn redirect(&self, sent: &mut CallInFlight, address: &RedirectAddress, moved: SlotMove) -> Option<CallRetry> {
        sent.redirections += 1;
        let link = self.router.redirected(&sent.link, address, moved)?;
        Some(CallRetry::Via(link, moved == SlotMove::Temporary))
    }

    /// Reacts to a node that is not a master, or knows of none: the cluster or the sentinels are queried for the
    /// master.
    fn look_elsewhere(&self, sent: &CallInFlight) {
        self.context.failures.notify_one();
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
        let _runtime = self.context.runtime.enter();
        timeout_at(deadline.into(), future)
    }

    fn away(&self, why: String, untouched: bool) -> StoreError {
        add(&self.context.counters.errors, 1);
        away(why, untouched)
    }
}

impl CallInFlight {
    fn may_redirect(&self) -> bool {
        self.redirections < MAX_REDIRECTIONS
    }
}

fn away(why: String, untouched: bool) -> StoreError {
    StoreError::Away { why, untouched }
}

/// Requires that the answer's receiver is closed before this checks whether the call was sent.
fn given_up(call: &RedisCall, why: String) -> CallFailure {
    if call.is_untouched() { CallFailure::Unsent(why) } else { CallFailure::Unknown(why) }
}

fn needs_cluster(error: &redis::ServerError) -> StoreError {
    StoreError::Refused(format!("expected redis+cluster:// for a node of a cluster: {}", words(error)))
}
