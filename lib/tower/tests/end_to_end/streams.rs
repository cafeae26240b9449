//! Bodies pass piece by piece, as they come, in both directions; lengths, trailers and upgrades are what they were.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::routing::{any, get, post};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tollgate_tower::GateLayer;
use tollgate_tower::testing::TestClock;
use tower::ServiceExt;

use crate::support::web::{BodyError, Client, RequestBody, TestServer, curl, listen, nothing, serve};

fn layer() -> GateLayer {
    GateLayer::new(TestClock::new().gate("1000/h").unwrap())
}

/// A body whose pieces the test sends.
fn pieces<E>(from: mpsc::Receiver<Frame<Bytes>>) -> impl http_body::Body<Data = Bytes, Error = E> + Send + 'static
where
    E: Send + 'static,
{
    StreamBody::new(stream::unfold(from, async |mut from| Some((Ok(from.recv().await?), from))))
}

/// One request over HTTP/1.1 or HTTP/2.
async fn send(version: Version, addr: std::net::SocketAddr, request: Request<RequestBody>) -> Response<Incoming> {
    if version == Version::HTTP_11 {
        return Client::connect(addr).await.send(request).await;
    }
    let stream = TokioIo::new(TcpStream::connect(addr).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap();
    sender.send_request(request).await.unwrap()
}

const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

fn request(method: &str, server: &TestServer, path: &str, body: RequestBody) -> Request<RequestBody> {
    let request = Request::builder().method(method).uri(server.url(path)).header("host", server.addr.to_string());
    request.body(body).unwrap()
}

/// The client has the first piece before there is a second one.
#[tokio::test]
async fn a_response_comes_piece_by_piece() {
    for version in VERSIONS {
        let (to_service, for_service) = mpsc::channel(1);
        let for_service = std::sync::Arc::new(std::sync::Mutex::new(Some(for_service)));
        let router = Router::new().route(
            "/",
            get(async move || {
                let from = for_service.lock().unwrap().take().unwrap();
                Body::new(pieces::<Infallible>(from))
            }),
        );
        let server = serve(router.layer(layer())).await;
        let answer = send(version, server.addr, request("GET", &server, "/", nothing())).await;
        assert!(answer.headers().contains_key("ratelimit"));
        assert_eq!(answer.headers().get("content-length"), None);
        let mut body = answer.into_body();
        for piece in ["one", "two", "three"] {
            to_service.send(Frame::data(Bytes::from(piece))).await.unwrap();
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), piece);
        }
        drop(to_service);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "");
    }
}

/// The service has the first piece before the client has a second one.
#[tokio::test]
async fn a_request_comes_piece_by_piece() {
    for version in VERSIONS {
        let (seen, mut sees) = mpsc::channel(1);
        let router = Router::new().route(
            "/",
            post(async move |body: Body| {
                let mut body = body.into_data_stream();
                while let Some(piece) = body.next().await {
                    seen.send(piece.unwrap()).await.unwrap();
                }
                "done"
            }),
        );
        let server = serve(router.layer(layer())).await;
        let (send_piece, from) = mpsc::channel(1);
        let body: RequestBody = pieces::<BodyError>(from).boxed_unsync();
        let answer = tokio::spawn(send(version, server.addr, request("POST", &server, "/", body)));
        for piece in ["one", "two", "three"] {
            send_piece.send(Frame::data(Bytes::from(piece))).await.unwrap();
            assert_eq!(sees.recv().await.unwrap(), piece);
        }
        drop(send_piece);
        let answer = answer.await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
    }
}

/// The service answers while the request still comes: both directions at once.
#[tokio::test]
async fn an_echo_runs_both_ways_at_once() {
    let router = Router::new().route("/", post(async |body: Body| body));
    let server = serve(router.layer(layer())).await;
    for version in VERSIONS {
        let (send_piece, from) = mpsc::channel(1);
        let body: RequestBody = pieces::<BodyError>(from).boxed_unsync();
        let answer = send(version, server.addr, request("POST", &server, "/", body)).await;
        let mut echoed = answer.into_body();
        for piece in ["one", "two", "three"] {
            send_piece.send(Frame::data(Bytes::from(piece))).await.unwrap();
            assert_eq!(echoed.frame().await.unwrap().unwrap().into_data().unwrap(), piece);
        }
        drop(send_piece);
        assert_eq!(echoed.collect().await.unwrap().to_bytes(), "");
    }
}

/// Everything but the fields of the layer is as without it: lengths, encodings, trailers, empty bodies.
#[tokio::test]
async fn with_and_without_the_layer_answers_are_the_same() {
    let with_trailers = async || {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("42"));
        let frames = [Frame::data(Bytes::from("data")), Frame::trailers(trailers)].map(Ok::<_, Infallible>);
        Response::builder().header("trailer", "x-sum").body(Body::new(StreamBody::new(stream::iter(frames)))).unwrap()
    };
    let bare = Router::new()
        .route("/length", get(async || "12345"))
        .route("/pieces", get(async || Body::from_stream(stream::iter(["a", "b"].map(Ok::<_, Infallible>)))))
        .route("/empty", get(async || http::StatusCode::NO_CONTENT))
        .route("/unchanged", get(async || http::StatusCode::NOT_MODIFIED))
        .route("/trailers", get(with_trailers));
    let without = serve(bare.clone()).await;
    let with = serve(bare.layer(layer())).await;
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for path in ["/length", "/pieces", "/empty", "/unchanged", "/trailers", "/nowhere"] {
            for more in [&["--raw", "-H", "te: trailers"][..], &["--head"]] {
                let args = [&[version], more].concat();
                let (bare, gated) = (without.url(path), with.url(path));
                let (bare, gated) = tokio::join!(curl(&bare, &args), curl(&gated, &args));
                let rest: String =
                    gated.split_inclusive("\r\n").filter(|line| !line.starts_with("ratelimit")).collect();
                assert_eq!(rest, bare, "{path} {args:?}");
                assert_eq!(gated.matches("ratelimit").count(), 2, "{path} {args:?}: {gated}");
                let told = bare.contains("x-sum: 42");
                assert_eq!(told, path == "/trailers" && !args.contains(&"--head"), "{path} {args:?}: {bare}");
            }
        }
    }
}

#[tokio::test]
async fn trailers_reach_the_client_over_both_versions() {
    let handler = async || {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("42"));
        let frames = [Frame::data(Bytes::from("data")), Frame::trailers(trailers)].map(Ok::<_, Infallible>);
        Response::builder().header("trailer", "x-sum").body(Body::new(StreamBody::new(stream::iter(frames)))).unwrap()
    };
    let server = serve(Router::new().route("/", get(handler)).layer(layer())).await;
    for version in VERSIONS {
        let mut request = request("GET", &server, "/", nothing());
        request.headers_mut().insert("te", HeaderValue::from_static("trailers"));
        let collected = send(version, server.addr, request).await.into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["x-sum"], "42", "{version:?}");
        assert_eq!(collected.to_bytes(), "data");
    }
}

#[tokio::test]
async fn a_websocket_is_opened_and_echoes() {
    let clock = TestClock::new();
    let echo = async |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |mut socket| {
            while let Some(Ok(message)) = socket.recv().await {
                if matches!(message, Message::Text(_) | Message::Binary(_)) && socket.send(message).await.is_err() {
                    return;
                }
            }
        })
    };
    let layer = GateLayer::new(clock.gate("1/min").unwrap());
    let server = serve(Router::new().route("/", any(echo)).layer(layer)).await;
    let url = format!("ws://{}/", server.addr);
    let (mut socket, opened) = tokio_tungstenite::connect_async(&url).await.unwrap();
    assert_eq!(opened.status(), 101);
    assert_eq!(opened.headers()["ratelimit"], "\"1/min\";r=0;t=60");
    // Only opening it is a request.
    for number in 0..100 {
        let text = format!("message {number}");
        socket.send(text.clone().into()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap().into_text().unwrap().as_str(), text);
    }
    let second = tokio_tungstenite::connect_async(&url).await;
    let Err(tokio_tungstenite::tungstenite::Error::Http(refused)) = second else { panic!("expected a refusal") };
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "60"));
    socket.close(None).await.unwrap();
}

/// hyper alone, without axum: its own bodies go in and out.
#[tokio::test]
async fn hypers_own_bodies_pass() {
    let clock = TestClock::new();
    let layer = GateLayer::new(clock.gate("1/min").unwrap());
    let echo =
        tower::service_fn(async |request: Request<Incoming>| Ok::<_, Infallible>(Response::new(request.into_body())));
    let service = tower::ServiceBuilder::new().layer(layer).service(echo);
    let (listener, addr) = listen().await;
    let server = TestServer::of(addr, async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let service = service.clone().map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(tollgate_tower::Peer(peer));
                request
            });
            let service = hyper_util::service::TowerToHyperService::new(service);
            let serving = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            tokio::spawn(async move { serving.serve_connection(TokioIo::new(stream), service).await.unwrap() });
        }
    });
    let answer = curl(&server.url("/"), &["--data-binary", "echo"]).await;
    assert_eq!(
        answer,
        "HTTP/1.1 200 OK\r\nratelimit-policy: \"1/min\";q=1;w=60\r\nratelimit: \"1/min\";r=0;t=60\r\ncontent-length: 4\r\n\r\necho"
    );
    assert!(curl(&server.url("/"), &["--data-binary", "echo"]).await.starts_with("HTTP/1.1 429 "));
}
