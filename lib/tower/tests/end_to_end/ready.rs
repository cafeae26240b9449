//! Services that are not always ready, requests that are given up, and kinds of bodies.

use std::convert::Infallible;
use std::future::Ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, mpsc};
use tollgate_kernel::{Cost, Decision, Detail, JointDecision, KeyCheck, Policy, Reply, Store, StoreError, Timestamp};
use tollgate_tower::testing::TestClock;
use tollgate_tower::{GateLayer, Limiter, WaitLine};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

use crate::support::in_process;
use crate::support::web::{Client, serve};

/// A service that must be polled ready before it is called, as tower requires; its clones are not ready.
#[derive(Debug, Default)]
struct StrictService {
    ready: bool,
}

impl Clone for StrictService {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<B> Service<Request<B>> for StrictService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        std::future::ready(Ok(Response::new(Full::from("ok"))))
    }
}

/// A store that answers when the test lets it, and reports when it is called and when a call is dropped.
struct SlowStore {
    home: tollgate::Memory,
    asked: mpsc::UnboundedSender<&'static str>,
    go: Arc<Notify>,
}

struct DropNotice<'a>(Option<&'a mpsc::UnboundedSender<&'static str>>);

impl Drop for DropNotice<'_> {
    fn drop(&mut self) {
        if let Some(tell) = self.0 {
            let _ = tell.send("given up");
        }
    }
}

fn never<'a, T>() -> Reply<'a, T> {
    Reply::now(Err(StoreError::OtherHome))
}

impl Store for SlowStore {
    fn check<'a>(
        &'a self,
        policy: &'a Policy,
        key: &'a [u8],
        request: tollgate_kernel::Request,
    ) -> Reply<'a, Decision> {
        Reply::later(async move {
            let mut guard = DropNotice(Some(&self.asked));
            let _ = self.asked.send("asked");
            self.go.notified().await;
            guard.0 = None;
            Store::check(&self.home, policy, key, request).await
        })
    }
    fn check_full<'a>(
        &'a self,
        _: &'a Policy,
        _: &'a [u8],
        _: tollgate_kernel::Request,
    ) -> Reply<'a, (Decision, Vec<Detail>)> {
        never()
    }
    fn check_many<'a>(
        &'a self,
        _: &'a Policy,
        _: &'a [&'a [u8]],
        _: tollgate_kernel::Request,
    ) -> Reply<'a, Vec<Decision>> {
        never()
    }
    fn check_all<'a>(&'a self, _: &'a [KeyCheck<'a>]) -> Reply<'a, JointDecision> {
        never()
    }
    fn reset<'a>(&'a self, _: &'a Policy, _: &'a [u8]) -> Reply<'a, ()> {
        never()
    }
    fn refund<'a>(&'a self, _: &'a Policy, _: &'a [u8], _: Cost, _: Timestamp) -> Reply<'a, u64> {
        never()
    }
}

fn slow(policy: &str) -> (Limiter, mpsc::UnboundedReceiver<&'static str>, Arc<Notify>) {
    let (asked, heard) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let home = tollgate::Memory::new(tollgate::DEFAULT_CAP);
    (Limiter::over(SlowStore { home, asked, go: go.clone() }, policy.parse().unwrap()), heard, go)
}

#[tokio::test]
async fn only_what_is_ready_is_called() {
    // At once, over a store, waiting in line, refused, skipped and without a key.
    let gate = TestClock::new().gate("20/d").unwrap();
    let over = Limiter::over(gate.store().clone(), gate.current().clone());
    let layers = [
        GateLayer::new(gate.clone()),
        GateLayer::new(over.clone()),
        GateLayer::new(gate).wait(WaitLine::new(std::time::Duration::ZERO)),
        GateLayer::new(over).skip(|parts| parts.uri.path() == "/skip"),
    ];
    for layer in layers {
        let mut service = layer.layer(StrictService::default());
        for number in 0..30 {
            let path = if number % 3 == 0 { "/skip" } else { "/" };
            let request = if number % 5 == 0 { Request::get(path).body(()).unwrap() } else { in_process::get(path) };
            in_process::ask(&mut service, request).await;
            // A clone that was never asked whether it is ready is asked.
            let answer = service.clone().oneshot(in_process::get(path)).await.unwrap();
            assert!([200, 429].contains(&answer.status().as_u16()));
        }
    }
}

/// A permit that was taken for a request goes with it, and comes back.
#[tokio::test]
async fn behind_and_before_concurrency_limits_and_buffers_no_readiness_is_lost() {
    for over in [false, true] {
        let gate = TestClock::new().gate("40/d").unwrap();
        let limiter: Limiter = match over {
            false => gate.into(),
            true => Limiter::over(gate.store().clone(), gate.current().clone()),
        };
        let service = ServiceBuilder::new()
            .buffer(4)
            .concurrency_limit(3)
            .layer(GateLayer::new(limiter))
            .concurrency_limit(1)
            .service(StrictService::default());
        let passed = Arc::new(AtomicUsize::new(0));
        let tasks = (0..50).map(|_| {
            let (service, passed) = (service.clone(), passed.clone());
            tokio::spawn(async move {
                for _ in 0..4 {
                    let answer = service.clone().oneshot(in_process::get("/")).await.unwrap();
                    passed.fetch_add(usize::from(answer.status() == 200), Ordering::Relaxed);
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_eq!(passed.load(Ordering::Relaxed), 40);
    }
}

/// While one request waits for the store, the service serves others.
#[tokio::test]
async fn a_request_that_waits_for_the_store_holds_up_no_other() {
    let (limiter, mut heard, go) = slow("5/d");
    let mut service = GateLayer::new(limiter).skip(|parts| parts.uri.path() == "/skip").layer(StrictService::default());
    let waiting =
        tokio::spawn(ServiceExt::<Request<()>>::ready(&mut service).await.unwrap().call(in_process::get("/")));
    assert_eq!(heard.recv().await, Some("asked"));
    for _ in 0..3 {
        assert_eq!(in_process::ask(&mut service, in_process::get("/skip")).await.status(), 200);
    }
    assert!(!waiting.is_finished());
    go.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
}

/// The client disconnects while the store decides: the call of the store is dropped, and the service continues.
#[tokio::test]
async fn a_client_that_goes_away_while_the_store_is_asked_takes_nobody_along() {
    let (limiter, mut heard, go) = slow("5/d");
    let server = serve(Router::new().route("/", get(async || "hello")).layer(GateLayer::new(limiter))).await;
    for _ in 0..20 {
        let mut socket = tokio::net::TcpStream::connect(server.addr).await.unwrap();
        socket.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        assert_eq!(heard.recv().await, Some("asked"));
        drop(socket);
        assert_eq!(heard.recv().await, Some("given up"));
    }
    let mut client = Client::connect(server.addr).await;
    go.notify_one();
    let (status, headers, _) = client.get("/", &[]).await;
    assert_eq!((status.as_u16(), crate::support::left(&headers)), (200, Some(4)), "nobody else was charged");
}

/// Requests are dropped at every point: before the store is called, while it decides, and while they are served.
#[tokio::test]
async fn a_request_may_be_dropped_at_any_time() {
    let (limiter, mut heard, go) = slow("100/d");
    let serve = Arc::new(Notify::new());
    let served = serve.clone();
    let inner = tower::service_fn(move |_: Request<()>| {
        let served = served.clone();
        async move {
            served.notified().await;
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let mut service = GateLayer::new(limiter).layer(inner);
    // Never polled.
    drop(service.ready().await.unwrap().call(in_process::get("/")));
    for polls in 1..4 {
        let mut request = Box::pin(service.ready().await.unwrap().call(in_process::get("/")));
        for _ in 0..polls {
            assert!(futures_util::poll!(request.as_mut()).is_pending());
            go.notify_one();
        }
        drop(request);
        while heard.try_recv().is_ok() {}
    }
    go.notify_one();
    serve.notify_one();
    assert_eq!(in_process::ask(&mut service, in_process::get("/")).await.status(), 200);
}

/// A body of any kind passes, and refusals have bodies of the same type.
#[tokio::test]
async fn bodies_of_any_kind() {
    async fn check<B>(body: fn() -> B)
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: std::fmt::Debug,
    {
        let gate = TestClock::new().gate("1/d").unwrap();
        let inner = tower::service_fn(move |request: Request<B>| async move {
            Ok::<_, Infallible>(Response::new(request.into_body()))
        });
        let mut service = GateLayer::new(gate).layer(inner);
        for (status, whole) in [(200, body().collect().await.unwrap().to_bytes()), (429, Bytes::new())] {
            let request = in_process::get("/").map(|()| body());
            let answer = service.ready().await.unwrap().call(request).await.unwrap();
            assert_eq!(answer.status(), status);
            let hint = http_body::Body::size_hint(answer.body()).exact();
            let got = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(hint, Some(got.len() as u64));
            assert!(if status == 200 { got == whole } else { got.starts_with(b"{\"type\"") });
        }
    }
    check(|| Full::<Bytes>::from("full")).await;
    check(Empty::<Bytes>::new).await;
    check(|| axum::body::Body::from("axum")).await;
    check(|| String::from("text")).await;
    check(|| Full::<Bytes>::from("boxed").boxed_unsync()).await;
}
