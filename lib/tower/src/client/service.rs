//! The service: checks whether a request may be sent, and sends it or makes it wait.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_kernel::MAX_KEY;
use tower_service::Service;

use super::account::ObeyArrival;
use super::error::ObeyError;
use super::future::{ObeyFuture, PendingSend};
use super::layer::ObeyCore;

/// A client that complies with the limits that the called services report; made by [`ObeyLayer`](super::ObeyLayer).
#[derive(Clone, Debug)]
pub struct ObeyService<S> {
    inner: S,
    core: Arc<ObeyCore>,
}

impl<S> ObeyService<S> {
    pub(super) fn new(inner: S, core: Arc<ObeyCore>) -> Self {
        Self { inner, core }
    }
}

impl<S, B, R> Service<Request<B>> for ObeyService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<R>;
    type Error = ObeyError<S::Error>;
    type Future = ObeyFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(ObeyError::Inner)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let settings = &self.core.settings;
        let (parts, body) = request.into_parts();
        let key = (settings.key)(&parts).filter(|key| key.len() <= MAX_KEY);
        let request = Request::from_parts(parts, body);
        let Some(key) = key else {
            return ObeyFuture::sent(self.inner.call(request), None, &self.core);
        };
        let now = settings.timer.now();
        let (account, entered) = self.core.accounts.enter(&key, settings.most_keys, settings.waiting, now);
        match entered {
            ObeyArrival::Go(in_flight) => ObeyFuture::sent(self.inner.call(request), Some(in_flight), &self.core),
            ObeyArrival::Wait(number, deadline) => {
                // The waiting request keeps the service that was polled ready; its clone stays here, to be polled
                // ready later.
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                ObeyFuture::waiting(ready, request, PendingSend::new(account, number, deadline), &self.core)
            }
            ObeyArrival::Refused(refusal) => ObeyFuture::refused(refusal, &self.core),
        }
    }
}
