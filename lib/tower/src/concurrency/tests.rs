//! The layer around small services, and around Redis.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody, combinators::BoxBody};
use tokio::sync::mpsc;
use tollgate::redis::Redis;
use tollgate_kernel::OnError;
use tollgate_kit::Server;
use tollgate_permits::Concurrency;
use tollgate_random::Rng;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::*;
use crate::{GateLayer, HeaderKey, key_fn, skip};

type Body = BoxBody<Bytes, Infallible>;
type Frames = mpsc::UnboundedSender<Result<Frame<Bytes>, Infallible>>;

fn limit(most: u32) -> (Concurrency, ConcurrencyLayer) {
    let concurrency = Concurrency::memory(most).unwrap();
    (concurrency.clone(), ConcurrencyLayer::new(concurrency).key(api_key()))
}

fn api_key() -> HeaderKey {
    HeaderKey::new("x-api-key").unwrap()
}

fn request() -> Request<Empty<Bytes>> {
    Request::builder().uri("/x").header("x-api-key", "alice").body(Empty::new()).unwrap()
}

const KEY: &[u8] = b"header:x-api-key:alice";

fn text(text: &'static str) -> Response<Body> {
    Response::new(Full::from(text).boxed())
}

/// A service that answers immediately.
fn answers() -> impl Service<Request<Empty<Bytes>>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone
{
    service_fn(|_| async { Ok(text("hello")) })
}

/// A response whose body frames the test sends.
fn stream() -> (Frames, Response<Body>) {
    let (frames, mut sent) = mpsc::unbounded_channel();
    let stream = futures_util::stream::poll_fn(move |context| sent.poll_recv(context));
    (frames, Response::new(BodyExt::boxed(StreamBody::new(stream))))
}

async fn held(concurrency: &Concurrency) -> u32 {
    concurrency.held(KEY).await.unwrap()
}

async fn read<B: http_body::Body<Data = Bytes, Error: std::fmt::Debug>>(
    response: Response<B>,
) -> (Response<()>, String) {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (Response::from_parts(parts, ()), String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_place_is_taken_until_the_body_ends() {
    let (concurrency, layer) = limit(1);
    let (frames, answer) = stream();
    let answer = Arc::new(Mutex::new(Some(answer)));
    let streams = service_fn(move |_: Request<Empty<Bytes>>| {
        let answer = answer.lock().unwrap().take().unwrap();
        async { Ok::<_, Infallible>(answer) }
    });
    let response = layer.layer(streams).oneshot(request()).await.unwrap();
    assert_eq!(response.headers()["ratelimit-policy"], r#""concurrency";q=1;qu="concurrent-requests""#);
    assert!(!response.headers().contains_key("ratelimit"));
    let mut body = response.into_body();
    frames.send(Ok(Frame::data(Bytes::from("one")))).unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
    assert_eq!(held(&concurrency).await, 1);

    let refused = layer.layer(answers()).oneshot(request()).await.unwrap();
    let (head, told) = read(refused).await;
    assert_eq!(head.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        told,
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","#
            .to_owned()
            + r#""status":429,"detail":"1 requests are in flight, and no more may be","violated-policies":["concurrency"]}"#
    );
    let field = |name: &str| head.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(field("content-type"), "application/problem+json");
    assert_eq!(field("ratelimit-policy"), r#""concurrency";q=1;qu="concurrent-requests""#);
    assert_eq!(field("ratelimit"), r#""concurrency";r=0"#);
    assert_eq!(field("retry-after"), "1");
    assert!(!head.headers().contains_key("tollgate-source"));

    drop(frames);
    assert!(body.frame().await.is_none());
    assert_eq!(held(&concurrency).await, 0, "the end frees it, though the body is still there");
    assert_eq!(read(layer.layer(answers()).oneshot(request()).await.unwrap()).await.1, "hello");
    assert_eq!(concurrency.keys(), 0);
}

#[tokio::test]
async fn whatever_ends_a_request_frees_its_place() {
    let (concurrency, layer) = limit(1);
    // The client disconnects while the service works.
    let hangs = service_fn(|_: Request<Empty<Bytes>>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let mut asked = Box::pin(layer.layer(hangs).oneshot(request()));
    assert!(futures_util::poll!(&mut asked).is_pending());
    assert_eq!(held(&concurrency).await, 1);
    drop(asked);
    assert_eq!(held(&concurrency).await, 0);

    // The client disconnects while it reads.
    let streams = service_fn(|_: Request<Empty<Bytes>>| async {
        let (frames, answer) = stream();
        frames.send(Ok(Frame::data(Bytes::from("one")))).unwrap();
        std::mem::forget(frames);
        Ok::<_, Infallible>(answer)
    });
    let mut body = layer.layer(streams).oneshot(request()).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(held(&concurrency).await, 1);
    drop(body);
    assert_eq!(held(&concurrency).await, 0);

    // The service fails, and panics.
    let fails = service_fn(|_: Request<Empty<Bytes>>| async { Err::<Response<Body>, _>("broken") });
    assert_eq!(layer.layer(fails).oneshot(request()).await.unwrap_err(), "broken");
    assert_eq!(held(&concurrency).await, 0);
    let panics = service_fn(|_: Request<Empty<Bytes>>| async {
        tokio::task::yield_now().await;
        if true {
            panic!("on purpose");
        }
        Ok::<_, Infallible>(text(""))
    });
    assert!(tokio::spawn(layer.layer(panics).oneshot(request())).await.unwrap_err().is_panic());
    assert_eq!(held(&concurrency).await, 0);

    // The body fails.
    let breaks = service_fn(|_: Request<Empty<Bytes>>| async {
        let frames =
            futures_util::stream::iter([Err::<Frame<Bytes>, _>("broken")]).chain(futures_util::stream::pending());
        Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
    });
    let mut body = layer.layer(breaks).oneshot(request()).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap_err(), "broken");
    assert_eq!(held(&concurrency).await, 0);
}

#[tokio::test]
async fn what_is_answered_can_be_chosen() {
    let (concurrency, layer) = limit(1);
    let _taken = concurrency.acquire(KEY).await.unwrap();
    let ask = async |layer: ConcurrencyLayer| read(layer.layer(answers()).oneshot(request()).await.unwrap()).await;
    let (head, told) = ask(layer.clone().name("downloads").unwrap().unavailable()).await;
    assert_eq!(head.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(told.contains(r#""status":503"#) && told.contains(r#""violated-policies":["downloads"]"#), "{told}");
    assert_eq!(head.headers()["ratelimit"], r#""downloads";r=0"#);

    let (head, _) = ask(layer.clone().without_headers()).await;
    assert!(!head.headers().contains_key("ratelimit") && !head.headers().contains_key("ratelimit-policy"));

    let (head, told) = ask(layer.clone().respond(|busy| {
        let mut response = Response::new(Bytes::from(format!("{} {} {}", busy.parts.uri, busy.name, busy.full.most)));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response.headers_mut().insert("retry-after", 7.into());
        response
    }))
    .await;
    assert_eq!((head.status(), told.as_str()), (StatusCode::IM_A_TEAPOT, "/x concurrency 1"));
    assert_eq!(
        (&head.headers()["retry-after"], &head.headers()["ratelimit"]),
        (&"7".parse().unwrap(), &r#""concurrency";r=0"#.parse().unwrap())
    );

    assert!(layer.clone().name("two words").is_err() && layer.name("").is_err());
}

#[tokio::test]
async fn a_grpc_call_gets_a_status_of_grpc() {
    let (concurrency, layer) = limit(1);
    let _taken = concurrency.acquire(KEY).await.unwrap();
    let mut call = request();
    *call.method_mut() = http::Method::POST;
    call.headers_mut().insert("content-type", "application/grpc+proto".parse().unwrap());
    let (head, told) = read(layer.layer(answers()).oneshot(call).await.unwrap()).await;
    assert_eq!((head.status(), told.as_str()), (StatusCode::OK, ""));
    assert_eq!(head.headers()["grpc-status"], "8");
    assert_eq!(head.headers()["content-type"], "application/grpc");
}

#[tokio::test]
async fn some_requests_pass_untouched_and_some_have_no_key() {
    let (concurrency, layer) = limit(1);
    let taken = concurrency.acquire(KEY).await.unwrap();
    let passes = async |layer: ConcurrencyLayer| {
        let response = layer.layer(answers()).oneshot(request()).await.unwrap();
        response.status() == StatusCode::OK && !response.headers().contains_key("ratelimit-policy")
    };
    let on = Arc::new(AtomicBool::new(true));
    let switch = on.clone();
    let switched = layer.clone().enabled(move || switch.load(Ordering::Relaxed));
    assert!(!passes(switched.clone()).await);
    on.store(false, Ordering::Relaxed);
    assert!(passes(switched).await);
    assert!(passes(layer.clone().skip(skip::paths(["/x"]))).await);

    let other = layer.clone().key(HeaderKey::new("x-other").unwrap());
    let refused = other.layer(answers()).oneshot(request()).await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert!(passes(other.log(None).pass_without_key()).await);
    let empty = layer.key(key_fn(|_| Some(String::new())));
    assert_eq!(empty.layer(answers()).oneshot(request()).await.unwrap().status(), StatusCode::BAD_REQUEST);
    drop(taken);
}

#[tokio::test]
async fn a_service_that_goes_on_keeps_its_place() {
    let (concurrency, layer) = limit(1);
    let (kept, mut keeps) = mpsc::unbounded_channel();
    let upgrades = service_fn(move |request: Request<Empty<Bytes>>| {
        kept.send(request.extensions().get::<RequestPermit>().cloned()).unwrap();
        std::future::ready(Ok::<_, Infallible>(text("")))
    });
    drop(layer.clone().tell_service().layer(upgrades.clone()).oneshot(request()).await.unwrap());
    let in_flight = keeps.recv().await.unwrap().unwrap();
    assert!(!in_flight.is_lost());
    assert_eq!(held(&concurrency).await, 1);
    drop(in_flight);
    assert_eq!(held(&concurrency).await, 0);
    drop(layer.layer(upgrades).oneshot(request()).await.unwrap());
    assert!(keeps.recv().await.unwrap().is_none(), "told only where asked for");
}

#[tokio::test]
async fn fields_of_a_gate_beside_it_stay() {
    let (_, layer) = limit(3);
    let gate = GateLayer::new(tollgate::Gate::memory("10/min").unwrap()).key(api_key());
    for (stacked, limit) in [(true, r#""10/min";r=9;t="#), (false, r#""10/min";r=8;t="#)] {
        let response = if stacked {
            layer.layer(gate.layer(answers())).oneshot(request()).await.unwrap().map(|_| ())
        } else {
            gate.layer(layer.layer(answers())).oneshot(request()).await.unwrap().map(|_| ())
        };
        let mut policies: Vec<&str> =
            response.headers().get_all("ratelimit-policy").iter().map(|value| value.to_str().unwrap()).collect();
        policies.sort_unstable();
        assert_eq!(policies, [r#""10/min";q=10;w=60"#, r#""concurrency";q=3;qu="concurrent-requests""#]);
        assert!(response.headers()["ratelimit"].to_str().unwrap().starts_with(limit), "{response:?}");
    }
}

#[tokio::test]
#[ignore = "needs redis-server: cargo xtask test"]
async fn with_redis_it_waits_for_the_answer_and_labels_what_stands_in() {
    let mut server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).deadline(Duration::from_millis(100)).lazy().unwrap();
    let local = Concurrency::redis(store, "layer", 1, Duration::from_secs(3600)).unwrap();
    let layer = |concurrency: &Concurrency| ConcurrencyLayer::new(concurrency.clone()).key(api_key()).log(None);
    let ask = async |layer: &ConcurrencyLayer| layer.layer(answers()).oneshot(request()).await.unwrap();
    let home = async |wanted: StatusCode| {
        for _ in 0..3_000 {
            let response = ask(&layer(&local)).await;
            if response.status() == wanted && !response.headers().contains_key("tollgate-source") {
                return response;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("Redis did not answer {wanted}");
    };
    let first = home(StatusCode::OK).await;
    let second = home(StatusCode::TOO_MANY_REQUESTS).await;
    assert_eq!(second.headers()["ratelimit"], r#""concurrency";r=0"#);
    drop(first);
    drop(home(StatusCode::OK).await);

    server.stop_answering().unwrap();
    let passed = ask(&layer(&local)).await;
    assert_eq!((passed.status(), &passed.headers()["tollgate-source"]), (StatusCode::OK, &"local".parse().unwrap()));
    let refused = ask(&layer(&local)).await;
    assert_eq!(
        (refused.status(), &refused.headers()["tollgate-source"]),
        (StatusCode::TOO_MANY_REQUESTS, &"local".parse().unwrap())
    );
    let closed = ask(&layer(&local.clone().on_error(OnError::Deny))).await;
    assert_eq!(
        (closed.status(), &closed.headers()["tollgate-source"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"closed".parse().unwrap())
    );
    assert_eq!(closed.headers()["retry-after"], "1");
    let open = ask(&layer(&local.clone().on_error(OnError::Allow))).await;
    assert_eq!((open.status(), &open.headers()["tollgate-source"]), (StatusCode::OK, &"open".parse().unwrap()));
    drop((passed, open));

    server.resume().unwrap();
    drop(home(StatusCode::OK).await);
}

#[tokio::test]
async fn requests_dropped_at_any_moment_lose_no_place() {
    let (concurrency, layer) = limit(3);
    let works = service_fn(|_: Request<Empty<Bytes>>| async {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        let frames = ["a", "b", "c"].map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
        Ok::<_, Infallible>(Response::new(StreamBody::new(futures_util::stream::iter(frames))))
    });
    // The numbers of requests that completed, were refused, and were dropped.
    let counts: Arc<[AtomicU32; 3]> = Arc::default();
    let (mut tasks, mut rng) = (tokio::task::JoinSet::new(), Rng::new(1));
    for _ in 0..10_000 {
        let (polls, service, counts) = (rng.below(16), layer.layer(works), counts.clone());
        tasks.spawn(async move {
            let mut asked = Box::pin(async {
                let response = service.oneshot(request()).await.unwrap();
                let end = usize::from(response.status() != StatusCode::OK);
                let mut body = response.into_body();
                while body.frame().await.is_some() {
                    tokio::task::yield_now().await;
                }
                end
            });
            let mut end = 2;
            for _ in 0..polls {
                if let std::task::Poll::Ready(ended) = futures_util::poll!(&mut asked) {
                    end = ended;
                    break;
                }
                tokio::task::yield_now().await;
            }
            counts[end].fetch_add(1, Ordering::Relaxed);
        });
        if tasks.len() > 8 {
            tasks.join_next().await.unwrap().unwrap();
        }
    }
    tasks.join_all().await;
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) > 100), "each was tried: {counts:?}");
    assert_eq!(concurrency.keys(), 0);
}
