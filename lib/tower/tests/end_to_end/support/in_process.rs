//! A service in this process, called without a socket: for many requests, and for what a socket hides.

use std::convert::Infallible;
use std::future::{Ready, poll_fn, ready};
use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate_tower::{GateLayer, GateService, Peer};
use tower::{Layer, Service, ServiceExt};

/// A service that answers `ok`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OkService;

impl<B> Service<Request<B>> for OkService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        ready(Ok(Response::new(Full::from("ok"))))
    }
}

/// That service behind the layer.
pub(crate) fn gated(layer: &GateLayer) -> GateService<OkService> {
    layer.layer(OkService)
}

/// A GET of a peer.
pub(crate) fn get(path: &str) -> Request<()> {
    let mut request = Request::get(path).body(()).unwrap();
    request.extensions_mut().insert(Peer(SocketAddr::from(([203, 0, 113, 7], 4711))));
    request
}

/// The answer, where nothing has to be waited for.
pub(crate) fn now<S, B>(service: &mut S, request: Request<B>) -> S::Response
where
    S: Service<Request<B>, Error = Infallible>,
{
    let answer = async {
        poll_fn(|context| service.poll_ready(context)).await.unwrap();
        service.call(request).await.unwrap()
    };
    answer.now_or_never().expect("the answer is known at once")
}

/// The answer, whenever it comes.
pub(crate) async fn ask<S, B>(service: &mut S, request: Request<B>) -> S::Response
where
    S: Service<Request<B>, Error = Infallible>,
{
    service.ready().await.unwrap().call(request).await.unwrap()
}

/// The status and the text of an answer.
pub(crate) fn text<B>(answer: Response<B>) -> (StatusCode, String)
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let (head, body) = answer.into_parts();
    let body = body.collect().now_or_never().expect("the body is there").unwrap();
    (head.status, String::from_utf8(body.to_bytes().to_vec()).unwrap())
}
