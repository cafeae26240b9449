//! A reverse proxy with a limit in front: bodies stream both ways, and nothing is buffered.
//!
//! `cargo run -p tollgate-tower --example proxy -- 127.0.0.1:3000` listens on 127.0.0.1:3001 and passes requests on
//! to that address. Without an argument it starts a service of its own, asks it through the proxy and ends.

mod common;

use std::net::SocketAddr;

use common::{Curl, Failure};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode, Uri, Version};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tollgate::Gate;
use tollgate_tower::testing::TestClock;
use tollgate_tower::{ClientIp, GateLayer, Peer};
use tower::Layer;
use tower::util::MapRequest;

type Answer = Response<Either<Incoming, String>>;

/// Header fields of one connection, which are not passed on; and those that `Connection` names.
const OF_CONNECTIONS: [&str; 7] =
    ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];

/// Accepts connections for ever.
async fn proxy(listener: TcpListener, gate: Gate, upstream: SocketAddr) -> Result<(), Failure> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let passing = tower::service_fn(move |request| pass(client.clone(), upstream, request));
    let service = GateLayer::new(gate).key(ClientIp::peer()).layer(passing);
    loop {
        let (stream, peer) = listener.accept().await?;
        // hyper does not store the peer's address in requests, so this does.
        let told = MapRequest::new(service.clone(), move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            request
        });
        let http = hyper::server::conn::http1::Builder::new().timer(TokioTimer::new()).clone();
        tokio::spawn(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(told)));
    }
}

/// Passes one request on, and its answer back.
async fn pass(
    client: Client<HttpConnector, Incoming>,
    upstream: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Answer, Failure> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = Uri::builder().scheme("http").authority(upstream.to_string()).path_and_query(path).build()?;
    *request.version_mut() = Version::HTTP_11;
    forget_connection(request.headers_mut());
    if let Some(Peer(peer)) = request.extensions().get().copied() {
        // Appended to what the request already has: services that trust this proxy read from the right.
        let client = HeaderValue::try_from(peer.ip().to_string())?;
        request.headers_mut().append(HeaderName::from_static("x-forwarded-for"), client);
    }
    let Ok(mut answer) = client.request(request).await else {
        let mut answer = Response::new(Either::Right("the service does not answer\n".to_owned()));
        *answer.status_mut() = StatusCode::BAD_GATEWAY;
        return Ok(answer);
    };
    forget_connection(answer.headers_mut());
    Ok(answer.map(Either::Left))
}

fn forget_connection(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<String> = named.flat_map(|names| names.split(',')).map(|name| name.trim().to_owned()).collect();
    for name in OF_CONNECTIONS.into_iter().chain(named.iter().map(String::as_str)) {
        headers.remove(name);
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let Some(upstream) = std::env::args().nth(1) else { return show().await };
    let listener = TcpListener::bind("127.0.0.1:3001").await?;
    println!("http://{} is http://{upstream}, at most 100/min an address", listener.local_addr()?);
    proxy(listener, Gate::memory("100/min")?, upstream.parse()?).await
}

/// A service that sends back what it receives, called through the proxy.
async fn show() -> Result<(), Failure> {
    let echo = axum::Router::new().fallback(async |request: axum::extract::Request| {
        let client = request.headers().get("x-forwarded-for").cloned();
        let mut answer = Response::new(request.into_body());
        answer.headers_mut().extend(client.map(|client| (HeaderName::from_static("x-client"), client)));
        answer
    });
    let (behind, before) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
    let (upstream, server) = (behind.local_addr()?, before.local_addr()?);
    tokio::spawn(axum::serve(behind, echo).into_future());
    tokio::spawn(proxy(before, TestClock::new().gate("3/min")?, upstream));

    stream(server).await?;

    let curl = Curl::new(server);
    for left in [1, 0] {
        let answer = curl.get("/").await?;
        assert_eq!(answer.status(), "200 OK");
        assert!(answer.says("x-client: 127.0.0.1"));
        assert!(answer.says(&format!(r#"ratelimit: "3/min";r={left};t=60"#)));
    }
    let refused = curl.get("/").await?;
    assert_eq!(refused.status(), "429 Too Many Requests");
    assert!(refused.says("retry-after: 60"));
    println!("all as expected");
    Ok(())
}

/// Each piece comes back before the next one is sent: the proxy does not wait for the end of a body.
async fn stream(server: SocketAddr) -> Result<(), Failure> {
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::{Bytes, Frame};
    use tokio_stream::{StreamExt, wrappers::ReceiverStream};

    let (send, pieces) = tokio::sync::mpsc::channel::<Bytes>(1);
    let body = StreamBody::new(ReceiverStream::new(pieces).map(|piece| Ok::<_, Failure>(Frame::data(piece))));
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut answer = client.request(Request::post(format!("http://{server}/")).body(body)?).await?;
    for piece in ["one", "two", "three"] {
        send.send(piece.into()).await?;
        let back = answer.body_mut().frame().await.ok_or("expected the piece back")??;
        println!("sent {piece:?}, got {:?} back", back.data_ref());
        assert_eq!(back.into_data().ok(), Some(Bytes::from(piece)));
    }
    drop(send);
    assert!(answer.body_mut().frame().await.is_none());
    println!();
    Ok(())
}
