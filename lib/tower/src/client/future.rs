//! The course of a request: it waits, is sent, and its answer is recorded.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate_kernel::Timestamp;
use tower_service::Service;

use super::account::{Account, Step, Ticket, Turned};
use super::error::ObeyError;
use super::layer::Shared;
use crate::timer::{Sleep, Timer};

pin_project! {
    /// The response future of [`Obey`](super::Obey), which may have to wait before its request is sent. If it is
    /// dropped while it waits, it leaves the line and nothing is sent.
    pub struct ObeyFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
        shared: Arc<Shared>,
    }
}

pin_project! {
    #[project = StateNow]
    enum State<S, B, F> {
        Waiting { service: S, request: Option<Request<B>>, place: Place },
        Sent { #[pin] future: F, ticket: Option<Ticket> },
        Turned { turned: Turned },
    }
}

impl<S: Service<Request<B>>, B> ObeyFuture<S, B> {
    pub(super) fn sent(future: S::Future, ticket: Option<Ticket>, shared: &Arc<Shared>) -> Self {
        Self { state: State::Sent { future, ticket }, shared: Arc::clone(shared) }
    }

    pub(super) fn waiting(service: S, request: Request<B>, place: Place, shared: &Arc<Shared>) -> Self {
        Self { state: State::Waiting { service, request: Some(request), place }, shared: Arc::clone(shared) }
    }

    pub(super) fn turned(turned: Turned, shared: &Arc<Shared>) -> Self {
        Self { state: State::Turned { turned }, shared: Arc::clone(shared) }
    }
}

impl<S, B, R> Future for ObeyFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<R>, ObeyError<S::Error>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let timer = &*this.shared.settings.timer;
        loop {
            let next = match this.state.as_mut().project() {
                StateNow::Sent { future, ticket } => {
                    let response = ready!(future.poll(context)).map_err(ObeyError::Inner)?;
                    if let Some(ticket) = ticket.take() {
                        match this.shared.ear.hear(response.status(), response.headers()) {
                            Some(heard) => ticket.answered(&heard, timer.now()),
                            None => ticket.cached(),
                        }
                    }
                    return Poll::Ready(Ok(response));
                }
                StateNow::Turned { turned } => return Poll::Ready(Err((*turned).into())),
                StateNow::Waiting { service, request, place } => match ready!(place.poll(timer, context)) {
                    Err(turned) => return Poll::Ready(Err(turned.into())),
                    Ok(ticket) => match request.take() {
                        Some(request) => State::Sent { future: service.call(request), ticket: Some(ticket) },
                        // Unreachable: a place is granted only once.
                        None => return Poll::Pending,
                    },
                },
            };
            this.state.set(next);
        }
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for ObeyFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObeyFuture").finish_non_exhaustive()
    }
}

/// A place in the line of a key, which is given up when it is dropped.
pub(super) struct Place {
    account: Arc<Account>,
    number: u64,
    deadline: Timestamp,
    sleep: Option<(Timestamp, Sleep)>,
}

impl Place {
    pub(super) fn new(account: Arc<Account>, number: u64, deadline: Timestamp) -> Self {
        Self { account, number, deadline, sleep: None }
    }

    fn poll(&mut self, timer: &dyn Timer, context: &mut Context<'_>) -> Poll<Result<Ticket, Turned>> {
        loop {
            let now = timer.now();
            let until = match self.account.step(self.number, self.deadline, now, context.waker()) {
                Step::Go(ticket) => return Poll::Ready(Ok(ticket)),
                Step::Turned(turned) => return Poll::Ready(Err(turned)),
                Step::Until(until) => until,
            };
            let sleep = match &mut self.sleep {
                Some((at, sleep)) if *at == until => sleep,
                other => &mut other.insert((until, timer.sleep(until.since(now)))).1,
            };
            ready!(sleep.as_mut().poll(context));
            self.sleep = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.account.leave(self.number);
    }
}
