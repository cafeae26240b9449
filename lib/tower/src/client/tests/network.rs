//! A server on loopback whose limits run on a clock that the test moves, and its callers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::header::DATE;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tollgate_kernel::{Clock, Micros};
use tollgate_random::Rng;
use tower::{Service, ServiceExt};

use crate::testing::TestClock;
use crate::{GateLayer, HeaderFields, key_fn};

pub(super) type Http = Client<HttpConnector, Empty<Bytes>>;

pub(super) fn http() -> Http {
    Client::builder(TokioExecutor::new()).build_http()
}

pub(super) fn ask(to: SocketAddr) -> Request<Empty<Bytes>> {
    Request::get(format!("http://{to}/")).body(Empty::new()).unwrap()
}

/// Returns the time of this clock plus this many seconds, as a date.
pub(super) fn date(clock: &TestClock, seconds: u64) -> String {
    let now = Duration::from_micros(Clock::now(clock).get());
    httpdate::fmt_http_date(UNIX_EPOCH + now + Duration::from_secs(seconds))
}

/// Starts a server behind Tollgate's own layer: all requests count as one caller's.
pub(super) async fn gated(clock: &TestClock, policy: &str, fields: HeaderFields) -> SocketAddr {
    let limits = GateLayer::new(clock.gate(policy).unwrap()).key(key_fn(|_| Some("one"))).headers(fields);
    serve(clock, Router::new().route("/", get(|| async { "served" })).layer(limits)).await
}

/// Starts a server with these routes that reports the time of this clock.
pub(super) async fn serve(clock: &TestClock, routes: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let clock = clock.clone();
    let dated = axum::middleware::map_response(move |mut response: axum::response::Response| {
        let value = date(&clock, 0).parse().unwrap();
        response.headers_mut().insert(DATE, value);
        async { response }
    });
    tokio::spawn(async move { axum::serve(listener, routes.layer(dated)).await });
    address
}

/// A waiting request may have been woken without having run. On one thread, all woken ones have run after this many
/// yields.
const SETTLED: u32 = 50;

/// The responses that the callers received.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ResponseCounts {
    pub(super) served: usize,
    pub(super) refused: usize,
}

/// Runs a number of callers that make `each` requests one after the other. Time passes when all of them wait for
/// it, and at random a little after an answer.
pub(super) async fn call<S>(
    client: S,
    to: SocketAddr,
    callers: usize,
    each: usize,
    clock: &TestClock,
    seed: u64,
) -> ResponseCounts
where
    S: Service<Request<Empty<Bytes>>, Response = Response<Incoming>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: std::fmt::Display + Send,
{
    let (served, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let calling = (0..callers as u64).map(|caller| {
        let (client, served, refused) = (client.clone(), Arc::clone(&served), Arc::clone(&refused));
        let (clock, mut rng) = (clock.clone(), Rng::of_part(seed, caller));
        tokio::spawn(async move {
            for _ in 0..each {
                let (status, _) = once(client.clone(), to).await;
                let count = if status == StatusCode::OK { &served } else { &refused };
                count.fetch_add(1, Ordering::Relaxed);
                if rng.one_in(10) {
                    clock.advance(Micros::new(rng.below(20_000)));
                }
            }
        })
    });
    let calling: Vec<_> = calling.collect();
    let mut still = 0;
    loop {
        let live = calling.iter().filter(|caller| !caller.is_finished()).count();
        if live == 0 {
            break;
        }
        still = if clock.sleeping() == live { still + 1 } else { 0 };
        if still > SETTLED {
            still = 0;
            clock.advance(clock.next_wake().unwrap_or_default());
        }
        tokio::task::yield_now().await;
    }
    for caller in calling {
        caller.await.unwrap();
    }
    ResponseCounts { served: served.load(Ordering::Relaxed), refused: refused.load(Ordering::Relaxed) }
}

/// Makes one request and reads the whole body.
pub(super) async fn once<S>(client: S, to: SocketAddr) -> (StatusCode, HeaderMap)
where
    S: Service<Request<Empty<Bytes>>, Response = Response<Incoming>>,
    S::Error: std::fmt::Display,
{
    let response = client.oneshot(ask(to)).await.unwrap_or_else(|error| panic!("{error}"));
    let (parts, body) = response.into_parts();
    body.collect().await.unwrap();
    (parts.status, parts.headers)
}
