//! The body of a response behind the layer: the service's, unchanged, or the layer's.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of the service's response, passed through frame by frame, or of the layer's own response.
    #[derive(Debug)]
    pub struct GateBody<B> {
        #[pin]
        kind: GateBodyKind<B>,
    }
}

pin_project! {
    #[project = GateBodyProjection]
    #[derive(Debug)]
    enum GateBodyKind<B> {
        Service { #[pin] body: B },
        Layer { bytes: Option<Bytes> },
    }
}

impl<B> GateBody<B> {
    /// Wraps the service's body.
    pub(crate) fn from_service(body: B) -> Self {
        Self { kind: GateBodyKind::Service { body } }
    }

    /// Creates the layer's own body.
    pub(crate) fn from_layer(bytes: Bytes) -> Self {
        Self { kind: GateBodyKind::Layer { bytes: Some(bytes).filter(|bytes| !bytes.is_empty()) } }
    }
}

impl<B: Body<Data = Bytes>> Body for GateBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            GateBodyProjection::Service { body } => body.poll_frame(context),
            GateBodyProjection::Layer { bytes } => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            GateBodyKind::Service { body } => body.is_end_stream(),
            GateBodyKind::Layer { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            GateBodyKind::Service { body } => body.size_hint(),
            GateBodyKind::Layer { bytes } => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}
