//! The body that holds the permit until it ends, fails or is dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::rules::RequestPermit;
use crate::body::GateBody;

pin_project! {
    /// The body of the service's response, passed through frame by frame, or of the layer's own response.
    #[derive(Debug)]
    pub struct ConcurrencyBody<B> {
        #[pin]
        body: GateBody<B>,
        // Declared after the body, so that the permit is held until the body has been dropped.
        permit: Option<RequestPermit>,
    }
}

impl<B> ConcurrencyBody<B> {
    pub(crate) fn from_service(body: B, permit: Option<RequestPermit>) -> Self {
        Self { body: GateBody::from_service(body), permit }
    }

    pub(crate) fn from_layer(bytes: Bytes) -> Self {
        Self { body: GateBody::from_layer(bytes), permit: None }
    }
}

impl<B: Body<Data = Bytes>> Body for ConcurrencyBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            *this.permit = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
