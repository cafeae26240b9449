//! The service behind the layer. Law: the permit belongs to the service's future, then to the response's body, so
//! dropping them frees it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate_kernel::StoreError;
use tollgate_permits::Acquired;
use tower_service::Service;

use super::body::PermittedBody;
use super::rules::{InFlight, Judged, Rules};
use crate::key::KeyBuf;

/// A service with a limited number of requests in flight: see [`ConcurrencyLayer`](super::ConcurrencyLayer).
#[derive(Clone)]
pub struct Permitted<S> {
    service: S,
    rules: Arc<Rules>,
}

impl<S> Permitted<S> {
    pub(crate) fn new(service: S, rules: Arc<Rules>) -> Self {
        Self { service, rules }
    }

    fn pass<B, R>(&mut self, request: Request<B>) -> PermittedFuture<S, B, R>
    where
        S: Service<Request<B>, Response = Response<R>>,
    {
        PermittedFuture::of(State::Serving { future: self.service.call(request), passed: None })
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for Permitted<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permitted").field("service", &self.service).finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for Permitted<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<PermittedBody<R>>;
    type Error = S::Error;
    type Future = PermittedFuture<S, B, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        if self.rules.skips(&parts) {
            return self.pass(Request::from_parts(parts, body));
        }
        let key = match self.rules.key_of(&parts) {
            Ok(key) => key,
            Err(error) => match self.rules.refuse_without_key(&parts, &error) {
                Some(response) => return PermittedFuture::refused(response),
                None => return self.pass(Request::from_parts(parts, body)),
            },
        };
        // An answer that is not ready yet is requested below, by a future that owns what it needs.
        let known = self.rules.concurrency.acquire(key.as_bytes()).ready().ok();
        match known.map(|answer| self.rules.judge(&mut parts, key.as_bytes(), answer)) {
            Some(Judged::Pass(in_flight)) => {
                let passed = Some((in_flight, self.rules.clone()));
                let future = self.service.call(Request::from_parts(parts, body));
                PermittedFuture::of(State::Serving { future, passed })
            }
            Some(Judged::Refuse(response)) => PermittedFuture::refused(response),
            None => {
                // The clone may not be ready, so the service that was polled ready serves this request.
                let spare = self.service.clone();
                let service = std::mem::replace(&mut self.service, spare);
                let waiting = Some(Box::new(Waiting { body, service, rules: self.rules.clone() }));
                PermittedFuture::of(State::Asking { asking: ask(self.rules.clone(), parts, key), waiting })
            }
        }
    }
}

/// A pending answer; it returns the head and the key.
type Asking = Pin<Box<dyn Future<Output = (Parts, KeyBuf, Result<Acquired, StoreError>)> + Send>>;

fn ask(rules: Arc<Rules>, parts: Parts, key: KeyBuf) -> Asking {
    Box::pin(async move {
        let answer = rules.concurrency.acquire(key.as_bytes()).await;
        (parts, key, answer)
    })
}

/// A request that waits for its place.
struct Waiting<S, B> {
    body: B,
    service: S,
    rules: Arc<Rules>,
}

pin_project! {
    /// The response of a service behind the layer.
    pub struct PermittedFuture<S, B, R>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B>,
        response: std::marker::PhantomData<fn() -> R>,
    }
}

pin_project! {
    #[project = Projected]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Asking { asking: Asking, waiting: Option<Box<Waiting<S, B>>> },
        // Declared after the future, so that the place is held until the future has been dropped.
        Serving { #[pin] future: S::Future, passed: Option<(InFlight, Arc<Rules>)> },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<S, B, R> PermittedFuture<S, B, R>
where
    S: Service<Request<B>>,
{
    fn of(state: State<S, B>) -> Self {
        Self { state, response: std::marker::PhantomData }
    }

    fn refused(response: Response<Bytes>) -> Self {
        Self::of(State::Refused { response: Some(response) })
    }
}

impl<S, B, R> Future for PermittedFuture<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<PermittedBody<R>>, S::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            match this.state.as_mut().project() {
                Projected::Asking { asking, waiting } => {
                    let (mut parts, key, answer) = ready!(asking.as_mut().poll(context));
                    let Some(waiting) = waiting.take() else { return Poll::Pending };
                    let Waiting { body, mut service, rules } = *waiting;
                    let next = match rules.judge(&mut parts, key.as_bytes(), answer) {
                        Judged::Pass(in_flight) => {
                            let future = service.call(Request::from_parts(parts, body));
                            State::Serving { future, passed: Some((in_flight, rules)) }
                        }
                        Judged::Refuse(response) => State::Refused { response: Some(response) },
                    };
                    this.state.set(next);
                }
                Projected::Serving { future, passed } => {
                    let mut response = ready!(future.poll(context))?;
                    let Some((in_flight, rules)) = passed.take() else {
                        return Poll::Ready(Ok(response.map(|body| PermittedBody::service(body, None))));
                    };
                    rules.tell(in_flight.source(), response.headers_mut());
                    return Poll::Ready(Ok(response.map(|body| PermittedBody::service(body, Some(in_flight)))));
                }
                Projected::Refused { response } => {
                    let Some(response) = response.take() else { return Poll::Pending };
                    return Poll::Ready(Ok(response.map(PermittedBody::own)));
                }
            }
        }
    }
}
