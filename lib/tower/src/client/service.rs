//! The service: checks whether a request may be sent, and sends it or makes it wait.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_kernel::MAX_KEY;
use tower_service::Service;

use super::account::Entered;
use super::error::ObeyError;
use super::future::{ObeyFuture, Place};
use super::layer::Shared;

/// A client that complies with the limits that the called services report; made by [`ObeyLayer`](super::ObeyLayer).
#[derive(Clone, Debug)]
pub struct Obey<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Obey<S> {
    pub(super) fn new(inner: S, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }
}

impl<S, B, R> Service<Request<B>> for Obey<S>
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
        let settings = &self.shared.settings;
        let (parts, body) = request.into_parts();
        let key = (settings.key)(&parts).filter(|key| key.len() <= MAX_KEY);
        let request = Request::from_parts(parts, body);
        let Some(key) = key else {
            return ObeyFuture::sent(self.inner.call(request), None, &self.shared);
        };
        let now = settings.timer.now();
        let (account, entered) = self.shared.book.enter(&key, settings.most_keys, settings.patience, now);
        match entered {
            Entered::Go(ticket) => ObeyFuture::sent(self.inner.call(request), Some(ticket), &self.shared),
            Entered::Wait(number, deadline) => {
                // The waiting request keeps the service that was polled ready; its clone stays here, to be polled
                // ready later.
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                ObeyFuture::waiting(ready, request, Place::new(account, number, deadline), &self.shared)
            }
            Entered::Turned(turned) => ObeyFuture::turned(turned, &self.shared),
        }
    }
}
