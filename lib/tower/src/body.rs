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
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = Projected]
    #[derive(Debug)]
    enum Kind<B> {
        Service { #[pin] body: B },
        Own { bytes: Option<Bytes> },
    }
}

impl<B> GateBody<B> {
    /// Wraps the service's body.
    pub(crate) fn service(body: B) -> Self {
        Self { kind: Kind::Service { body } }
    }

    /// Creates the layer's own body.
    pub(crate) fn own(bytes: Bytes) -> Self {
        Self { kind: Kind::Own { bytes: Some(bytes).filter(|bytes| !bytes.is_empty()) } }
    }
}

impl<B: Body<Data = Bytes>> Body for GateBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            Projected::Service { body } => body.poll_frame(context),
            Projected::Own { bytes } => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Service { body } => body.is_end_stream(),
            Kind::Own { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Service { body } => body.size_hint(),
            Kind::Own { bytes } => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}
