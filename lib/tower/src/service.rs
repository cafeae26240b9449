//! The service behind the layer. Bodies are never touched. While a decision is pending, the request keeps the
//! service that was polled ready for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate_kernel::Decision;
use tower_service::Service;

use crate::body::GateBody;
use crate::judge::{Judged, Judging, Settled};
use crate::key::KeyBuf;
use crate::layer::Rules;
use crate::toll::Toll;
use crate::verdict::Verdict;

/// A service whose requests are limited: see [`GateLayer`](crate::GateLayer).
#[derive(Clone)]
pub struct Gated<S> {
    service: S,
    rules: Arc<Rules>,
}

impl<S> Gated<S> {
    pub(crate) fn new(service: S, rules: Arc<Rules>) -> Self {
        Self { service, rules }
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for Gated<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gated").field("service", &self.service).finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for Gated<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<GateBody<R>>;
    type Error = S::Error;
    type Future = GateFuture<S, B, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let Some(toll) = self.rules.toll(&parts) else {
            return self.pass(Request::from_parts(parts, body));
        };
        let mut key = KeyBuf::new();
        if let Err(error) = toll.write_key(&parts, &mut key) {
            return match toll.refuse_without_key(&parts, &error) {
                Some(response) => GateFuture::of(State::Refused { response: Some(response) }),
                None => self.pass(Request::from_parts(parts, body)),
            };
        }
        let question = toll.question(&parts);
        let judged = match toll.decide_now(key.as_bytes(), question) {
            // Most requests take this path, so it is the shortest.
            Some(decision) if decision.allowed => {
                if toll.tell_service {
                    parts.extensions.insert(toll.verdict_of_one(&decision));
                }
                let after = After::new(toll, Left::Decision(decision), &key);
                let future = self.service.call(Request::from_parts(parts, body));
                return GateFuture { state: State::Serving { future, after } };
            }
            Some(decision) => Some(toll.judge(Ok(toll.verdict_of_one(&decision)), key.as_bytes(), question)),
            None => toll.judge_now(key.as_bytes(), question),
        };
        match judged {
            Some(Judged::Pass(verdict)) => {
                if toll.tell_service {
                    parts.extensions.insert(verdict.clone());
                }
                let after = After::new(toll, Left::Verdict(Box::new(verdict)), &key);
                let future = self.service.call(Request::from_parts(parts, body));
                GateFuture::of(State::Serving { future, after })
            }
            Some(Judged::Refuse(verdict, grounds)) => {
                GateFuture::of(State::Refused { response: Some(toll.refuse(&parts, &verdict, grounds)) })
            }
            None => {
                let toll = toll.clone();
                // The clone may not be ready, so the service that was polled ready serves this request.
                let spare = self.service.clone();
                let service = std::mem::replace(&mut self.service, spare);
                let asked = Some(Box::new(Waiting { body, service, key: key.clone(), toll: toll.clone() }));
                GateFuture::of(State::Asking { judging: toll.judge_later(parts, key, question), asked })
            }
        }
    }
}

impl<S> Gated<S> {
    fn pass<B, R>(&mut self, request: Request<B>) -> GateFuture<S, B, R>
    where
        S: Service<Request<B>, Response = Response<R>>,
    {
        GateFuture::of(State::Serving { future: self.service.call(request), after: None })
    }
}

/// What is needed to finish the response of a request that passed. It moves together with the future, so it is
/// small.
struct After {
    toll: Arc<Toll>,
    left: Left,
    /// Kept only if a response may change the charge.
    key: Option<Box<KeyBuf>>,
}

/// The result that the response reports for a request that passed.
enum Left {
    /// For a policy with one limit, whose decision contains everything.
    Decision(Decision),
    Verdict(Box<Verdict>),
}

impl Left {
    #[inline]
    fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Decision(decision) => Some(decision),
            Self::Verdict(verdict) => match &**verdict {
                Verdict::Decided(decision, _) => Some(decision),
                Verdict::Custom(_) => None,
            },
        }
    }
}

impl After {
    /// Returns `None` if the response is not changed at all.
    #[inline]
    fn new(toll: &Arc<Toll>, left: Left, key: &KeyBuf) -> Option<Self> {
        let silent = toll.prepared.is_none() && matches!(left, Left::Decision(_));
        if silent && toll.settle.is_none() {
            return None;
        }
        let key = toll.settle.is_some().then(|| Box::new(key.clone()));
        Some(Self { toll: toll.clone(), left, key })
    }

    #[inline]
    fn settled<R>(&self, response: &Response<R>) -> Option<Settled> {
        let key = self.key.as_ref()?;
        self.toll.settled(self.left.decision().copied(), key, response.status(), response.headers())
    }

    #[inline]
    fn finish<R>(&self, mut response: Response<R>) -> Response<GateBody<R>> {
        match &self.left {
            Left::Decision(decision) => self.toll.tell_decision(decision, &[], response.headers_mut()),
            Left::Verdict(verdict) => self.toll.tell(verdict, response.headers_mut()),
        }
        served(response)
    }
}

/// A request whose decision is pending.
struct Waiting<S, B> {
    body: B,
    service: S,
    key: KeyBuf,
    toll: Arc<Toll>,
}

pin_project! {
    /// The response of a service behind the layer.
    pub struct GateFuture<S, B, R>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, R>,
    }
}

pin_project! {
    #[project = Projected]
    enum State<S, B, R>
    where
        S: Service<Request<B>>,
    {
        Asking { judging: Judging, asked: Option<Box<Waiting<S, B>>> },
        Serving { #[pin] future: S::Future, after: Option<After> },
        Settling { settled: Settled, waiting: Option<Box<(Response<R>, After)>> },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<S, B, R> GateFuture<S, B, R>
where
    S: Service<Request<B>>,
{
    fn of(state: State<S, B, R>) -> Self {
        Self { state }
    }
}

impl<S, B, R> Future for GateFuture<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<GateBody<R>>, S::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            match this.state.as_mut().project() {
                Projected::Asking { judging, asked } => {
                    let (mut parts, judged) = ready!(judging.as_mut().poll(context));
                    let Some(waiting) = asked.take() else { return Poll::Pending };
                    let Waiting { body, mut service, key, toll } = *waiting;
                    let next = match judged {
                        Judged::Pass(verdict) => {
                            if toll.tell_service {
                                parts.extensions.insert(verdict.clone());
                            }
                            let after = After::new(&toll, Left::Verdict(Box::new(verdict)), &key);
                            let future = service.call(Request::from_parts(parts, body));
                            State::Serving { future, after }
                        }
                        Judged::Refuse(verdict, grounds) => {
                            State::Refused { response: Some(toll.refuse(&parts, &verdict, grounds)) }
                        }
                    };
                    this.state.set(next);
                }
                Projected::Serving { future, after } => {
                    let response = ready!(future.poll(context))?;
                    let Some(after) = after.take() else { return Poll::Ready(Ok(served(response))) };
                    match after.settled(&response) {
                        None => return Poll::Ready(Ok(after.finish(response))),
                        Some(settled) => {
                            let waiting = Some(Box::new((response, after)));
                            this.state.set(State::Settling { settled, waiting });
                        }
                    }
                }
                Projected::Settling { settled, waiting } => {
                    let left = ready!(settled.as_mut().poll(context));
                    let Some(waiting) = waiting.take() else { return Poll::Pending };
                    let (response, mut after) = *waiting;
                    after.left = left.map_or(after.left, |verdict| Left::Verdict(Box::new(verdict)));
                    return Poll::Ready(Ok(after.finish(response)));
                }
                Projected::Refused { response } => {
                    let Some(response) = response.take() else { return Poll::Pending };
                    return Poll::Ready(Ok(response.map(GateBody::own)));
                }
            }
        }
    }
}

fn served<R>(response: Response<R>) -> Response<GateBody<R>> {
    response.map(GateBody::service)
}
