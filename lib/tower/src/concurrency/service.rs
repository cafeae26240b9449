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
use tollgate_permits::Acquisition;
use tower_service::Service;

use super::body::ConcurrencyBody;
use super::rules::{ConcurrencyAdmission, ConcurrencyRules, RequestPermit};
use crate::key::KeyBuf;

/// A service with a limited number of requests in flight: see [`ConcurrencyLayer`](super::ConcurrencyLayer).
#[derive(Clone)]
pub struct ConcurrencyService<S> {
    service: S,
    rules: Arc<ConcurrencyRules>,
}

impl<S> ConcurrencyService<S> {
    pub(crate) fn new(service: S, rules: Arc<ConcurrencyRules>) -> Self {
        Self { service, rules }
    }

    fn pass<B, R>(&mut self, request: Request<B>) -> ConcurrencyFuture<S, B, R>
    where
        S: Service<Request<B>, Response = Response<R>>,
    {
        ConcurrencyFuture::of(ConcurrencyState::Serving { future: self.service.call(request), passed: None })
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for ConcurrencyService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConcurrencyService").field("service", &self.service).finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for ConcurrencyService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<ConcurrencyBody<R>>;
    type Error = S::Error;
    type Future = ConcurrencyFuture<S, B, R>;

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
                Some(response) => return ConcurrencyFuture::refused(response),
                None => return self.pass(Request::from_parts(parts, body)),
            },
        };
        // An answer that is not ready yet is requested below, by a future that owns what it needs.
        let known = self.rules.concurrency.acquire(key.as_bytes()).ready().ok();
        match known.map(|answer| self.rules.admission_of(&mut parts, key.as_bytes(), answer)) {
            Some(ConcurrencyAdmission::Pass(permit)) => {
                let passed = Some((permit, self.rules.clone()));
                let future = self.service.call(Request::from_parts(parts, body));
                ConcurrencyFuture::of(ConcurrencyState::Serving { future, passed })
            }
            Some(ConcurrencyAdmission::Refuse(response)) => ConcurrencyFuture::refused(response),
            None => {
                // The clone may not be ready, so the service that was polled ready serves this request.
                let spare = self.service.clone();
                let service = std::mem::replace(&mut self.service, spare);
                let pending = Some(Box::new(PermitRequest { body, service, rules: self.rules.clone() }));
                ConcurrencyFuture::of(ConcurrencyState::Acquiring {
                    answer: acquire(self.rules.clone(), parts, key),
                    pending,
                })
            }
        }
    }
}

/// A pending answer; it returns the head and the key.
type AcquireFuture = Pin<Box<dyn Future<Output = (Parts, KeyBuf, Result<Acquisition, StoreError>)> + Send>>;

fn acquire(rules: Arc<ConcurrencyRules>, parts: Parts, key: KeyBuf) -> AcquireFuture {
    Box::pin(async move {
        let answer = rules.concurrency.acquire(key.as_bytes()).await;
        (parts, key, answer)
    })
}

/// A request that waits for its permit.
struct PermitRequest<S, B> {
    body: B,
    service: S,
    rules: Arc<ConcurrencyRules>,
}

pin_project! {
    /// The response of a service behind the layer.
    pub struct ConcurrencyFuture<S, B, R>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: ConcurrencyState<S, B>,
        response: std::marker::PhantomData<fn() -> R>,
    }
}

pin_project! {
    #[project = ConcurrencyStateProjection]
    enum ConcurrencyState<S, B>
    where
        S: Service<Request<B>>,
    {
        Acquiring { answer: AcquireFuture, pending: Option<Box<PermitRequest<S, B>>> },
        // Declared after the future, so that the permit is held until the future has been dropped.
        Serving { #[pin] future: S::Future, passed: Option<(RequestPermit, Arc<ConcurrencyRules>)> },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<S, B, R> ConcurrencyFuture<S, B, R>
where
    S: Service<Request<B>>,
{
    fn of(state: ConcurrencyState<S, B>) -> Self {
        Self { state, response: std::marker::PhantomData }
    }

    fn refused(response: Response<Bytes>) -> Self {
        Self::of(ConcurrencyState::Refused { response: Some(response) })
    }
}

impl<S, B, R> Future for ConcurrencyFuture<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<ConcurrencyBody<R>>, S::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            match this.state.as_mut().project() {
                ConcurrencyStateProjection::Acquiring { answer, pending } => {
                    let (mut parts, key, answer) = ready!(answer.as_mut().poll(context));
                    let Some(pending) = pending.take() else { return Poll::Pending };
                    let PermitRequest { body, mut service, rules } = *pending;
                    let next = match rules.admission_of(&mut parts, key.as_bytes(), answer) {
                        ConcurrencyAdmission::Pass(permit) => {
                            let future = service.call(Request::from_parts(parts, body));
                            ConcurrencyState::Serving { future, passed: Some((permit, rules)) }
                        }
                        ConcurrencyAdmission::Refuse(response) => {
                            ConcurrencyState::Refused { response: Some(response) }
                        }
                    };
                    this.state.set(next);
                }
                ConcurrencyStateProjection::Serving { future, passed } => {
                    let mut response = ready!(future.poll(context))?;
                    let Some((permit, rules)) = passed.take() else {
                        return Poll::Ready(Ok(response.map(|body| ConcurrencyBody::from_service(body, None))));
                    };
                    rules.write_fields(permit.source(), response.headers_mut());
                    return Poll::Ready(Ok(response.map(|body| ConcurrencyBody::from_service(body, Some(permit)))));
                }
                ConcurrencyStateProjection::Refused { response } => {
                    let Some(response) = response.take() else { return Poll::Pending };
                    return Poll::Ready(Ok(response.map(ConcurrencyBody::from_layer)));
                }
            }
        }
    }
}
