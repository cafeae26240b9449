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

use super::account::{Account, InFlightRequest, ObeyStep, SendRefusal};
use super::error::ObeyError;
use super::layer::ObeyCore;
use crate::timer::{Sleep, Timer};

pin_project! {
    /// The response future of [`ObeyService`](super::ObeyService), which may have to wait before its request is sent.
    /// If it is dropped while it waits, it leaves the line and nothing is sent.
    pub struct ObeyFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: ObeyState<S, B, S::Future>,
        core: Arc<ObeyCore>,
    }
}

pin_project! {
    #[project = ObeyStateProjection]
    enum ObeyState<S, B, F> {
        Waiting { service: S, request: Option<Request<B>>, pending: PendingSend },
        Sent { #[pin] future: F, in_flight: Option<InFlightRequest> },
        Refused { refusal: SendRefusal },
    }
}

impl<S: Service<Request<B>>, B> ObeyFuture<S, B> {
    pub(super) fn sent(future: S::Future, in_flight: Option<InFlightRequest>, core: &Arc<ObeyCore>) -> Self {
        Self { state: ObeyState::Sent { future, in_flight }, core: Arc::clone(core) }
    }

    pub(super) fn waiting(service: S, request: Request<B>, pending: PendingSend, core: &Arc<ObeyCore>) -> Self {
        Self { state: ObeyState::Waiting { service, request: Some(request), pending }, core: Arc::clone(core) }
    }

    pub(super) fn refused(refusal: SendRefusal, core: &Arc<ObeyCore>) -> Self {
        Self { state: ObeyState::Refused { refusal }, core: Arc::clone(core) }
    }
}

impl<S, B, R> Future for ObeyFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<R>, ObeyError<S::Error>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let timer = &*this.core.settings.timer;
        loop {
            let next = match this.state.as_mut().project() {
                ObeyStateProjection::Sent { future, in_flight } => {
                    let response = ready!(future.poll(context)).map_err(ObeyError::Inner)?;
                    if let Some(in_flight) = in_flight.take() {
                        match this.core.reader.read(response.status(), response.headers()) {
                            Some(report) => in_flight.record_answer(&report, timer.now()),
                            None => in_flight.record_cached(),
                        }
                    }
                    return Poll::Ready(Ok(response));
                }
                ObeyStateProjection::Refused { refusal } => return Poll::Ready(Err((*refusal).into())),
                ObeyStateProjection::Waiting { service, request, pending } => {
                    match ready!(pending.poll(timer, context)) {
                        Err(refusal) => return Poll::Ready(Err(refusal.into())),
                        Ok(in_flight) => match request.take() {
                            Some(request) => {
                                ObeyState::Sent { future: service.call(request), in_flight: Some(in_flight) }
                            }
                            // Unreachable: a waiting request may be sent only once.
                            None => return Poll::Pending,
                        },
                    }
                }
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

/// A request that waits in the line of a key. It leaves the line when it is dropped.
pub(super) struct PendingSend {
    account: Arc<Account>,
    number: u64,
    deadline: Timestamp,
    sleep: Option<(Timestamp, Sleep)>,
}

impl PendingSend {
    pub(super) fn new(account: Arc<Account>, number: u64, deadline: Timestamp) -> Self {
        Self { account, number, deadline, sleep: None }
    }

    fn poll(&mut self, timer: &dyn Timer, context: &mut Context<'_>) -> Poll<Result<InFlightRequest, SendRefusal>> {
        loop {
            let now = timer.now();
            let until = match self.account.step(self.number, self.deadline, now, context.waker()) {
                ObeyStep::Go(in_flight) => return Poll::Ready(Ok(in_flight)),
                ObeyStep::Refused(refusal) => return Poll::Ready(Err(refusal)),
                ObeyStep::Until(until) => until,
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

impl Drop for PendingSend {
    fn drop(&mut self) {
        self.account.leave(self.number);
    }
}
