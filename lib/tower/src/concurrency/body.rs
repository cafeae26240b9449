//! The body that holds the permit until it ends, fails or is dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::rules::InFlight;
use crate::body::GateBody;

pin_project! {
    /// The body of the service's response, passed through frame by frame, or of the layer's own response.
    #[derive(Debug)]
    pub struct PermittedBody<B> {
        #[pin]
        body: GateBody<B>,
        // Declared after the body, so that the place is held until the body has been dropped.
        in_flight: Option<InFlight>,
    }
}

impl<B> PermittedBody<B> {
    pub(crate) fn service(body: B, in_flight: Option<InFlight>) -> Self {
        Self { body: GateBody::service(body), in_flight }
    }

    pub(crate) fn own(bytes: Bytes) -> Self {
        Self { body: GateBody::own(bytes), in_flight: None }
    }
}

impl<B: Body<Data = Bytes>> Body for PermittedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            *this.in_flight = None;
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
