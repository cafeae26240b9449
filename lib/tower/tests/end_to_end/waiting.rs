//! Waiting instead of refusing, over sockets: requests that do not fit are answered when they do.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use tokio::io::AsyncWriteExt;
use tollgate::{DEFAULT_CAP, Memory};
use tollgate_tower::testing::TestClock;
use tollgate_tower::{GateLayer, HeaderKey, Limiter, WaitLine};

use crate::support::field;
use crate::support::web::{Client, TestServer, serve};

type Answer = tokio::task::JoinHandle<(http::StatusCode, http::HeaderMap, bytes::Bytes)>;

async fn behind(layer: GateLayer) -> TestServer {
    let layer = layer.key(HeaderKey::new("x-key").unwrap());
    serve(Router::new().route("/{*any}", any(async || "hello")).layer(layer)).await
}

/// A request on a connection of its own.
fn send(addr: SocketAddr, path: &'static str, key: &'static str) -> Answer {
    tokio::spawn(async move { Client::connect(addr).await.get(path, &[("x-key", key)]).await })
}

/// Until so many stand in line.
async fn in_line(line: &WaitLine, many: usize) {
    let standing = async {
        while line.waiting() != many {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), standing).await;
    assert!(waited.is_ok(), "expected {many} in line, found {}", line.waiting());
}

#[tokio::test]
async fn requests_are_answered_when_they_fit_whatever_the_store() {
    for over in [false, true] {
        let clock = TestClock::new();
        let line = WaitLine::new(Duration::from_secs(5)).timer(clock.clone());
        let limiter: Limiter = match over {
            false => clock.gate("1/s").unwrap().into(),
            true => Limiter::over(Memory::with_clock(DEFAULT_CAP, Box::new(clock.clone())), "1/s".parse().unwrap()),
        };
        let server = behind(GateLayer::new(limiter).wait(line.clone())).await;
        assert_eq!(send(server.addr, "/x", "a").await.unwrap().0, 200);
        let mut waiting = Vec::new();
        for many in 1..=4 {
            waiting.push(send(server.addr, "/x", "a"));
            in_line(&line, many).await;
        }
        // A request of another key does not wait.
        assert_eq!(send(server.addr, "/x", "b").await.unwrap().0, 200);
        for (place, answer) in waiting.into_iter().enumerate() {
            assert_eq!(line.waiting(), 4 - place);
            clock.advance(Duration::from_secs(1));
            let (status, headers, body) = answer.await.unwrap();
            assert_eq!((status.as_u16(), &body[..]), (200, &b"hello"[..]));
            assert_eq!(field(&headers, "ratelimit").unwrap(), "\"1/s\";r=0;t=1");
            in_line(&line, 3 - place).await;
        }
    }
}

#[tokio::test]
async fn who_would_wait_too_long_is_refused_at_once() {
    let clock = TestClock::new();
    let line = WaitLine::new(Duration::from_secs(2)).timer(clock.clone());
    let server = behind(GateLayer::new(clock.gate("1/10s").unwrap()).wait(line.clone())).await;
    assert_eq!(send(server.addr, "/x", "a").await.unwrap().0, 200);
    let (status, headers, body) = send(server.addr, "/x", "a").await.unwrap();
    assert_eq!((status.as_u16(), field(&headers, "retry-after").as_deref()), (429, Some("10")));
    assert!(body.ends_with(b"\"violated-policies\":[\"1/10s\"]}"));
    assert_eq!(line.waiting(), 0);
    // A request that waited as long as it was told fits.
    clock.advance(Duration::from_secs(10));
    assert_eq!(send(server.addr, "/x", "a").await.unwrap().0, 200);
}

#[tokio::test]
async fn where_too_many_wait_the_next_is_refused() {
    let clock = TestClock::new();
    let line = WaitLine::new(Duration::from_secs(60)).most_a_key(1).timer(clock.clone());
    let server = behind(GateLayer::new(clock.gate("1/10s").unwrap()).wait(line.clone())).await;
    assert_eq!(send(server.addr, "/x", "a").await.unwrap().0, 200);
    let waits = send(server.addr, "/x", "a");
    in_line(&line, 1).await;
    let (status, headers, body) = send(server.addr, "/x", "a").await.unwrap();
    assert_eq!((status.as_u16(), field(&headers, "retry-after").as_deref()), (429, Some("10")));
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(body.contains("\"detail\":\"too many requests are waiting already\""), "{body}");
    clock.advance(Duration::from_secs(10));
    assert_eq!(waits.await.unwrap().0, 200);
}

#[tokio::test]
async fn what_costs_nothing_passes_a_full_line() {
    let clock = TestClock::new();
    let line = WaitLine::new(Duration::from_secs(7_200)).most(1).timer(clock.clone());
    let layer = GateLayer::new(clock.gate("1/h").unwrap()).cost(|parts| u64::from(parts.uri.path() != "/free"));
    let server = behind(layer.wait(line.clone())).await;
    assert_eq!(send(server.addr, "/x", "a").await.unwrap().0, 200);
    let _waits = send(server.addr, "/x", "a");
    in_line(&line, 1).await;
    assert_eq!(send(server.addr, "/x", "a").await.unwrap().0, 429);
    assert_eq!(send(server.addr, "/free", "a").await.unwrap().0, 200);
}

/// A client that goes away leaves its place, and what it waited for is the next one's.
#[tokio::test]
async fn a_client_that_goes_away_leaves_the_line() {
    let clock = TestClock::new();
    let line = WaitLine::new(Duration::from_secs(60)).timer(clock.clone());
    let server = behind(GateLayer::new(clock.gate("1/10s").unwrap()).wait(line.clone())).await;
    assert_eq!(send(server.addr, "/x", "a").await.unwrap().0, 200);
    let mut sockets = Vec::new();
    for many in 1..=3 {
        let mut socket = tokio::net::TcpStream::connect(server.addr).await.unwrap();
        socket.write_all(b"GET /x HTTP/1.1\r\nhost: localhost\r\nx-key: a\r\n\r\n").await.unwrap();
        in_line(&line, many).await;
        sockets.push(socket);
    }
    let last = send(server.addr, "/x", "a");
    in_line(&line, 4).await;
    drop(sockets);
    in_line(&line, 1).await;
    clock.advance(Duration::from_secs(10));
    assert_eq!(last.await.unwrap().0, 200);
    in_line(&line, 0).await;
    assert_eq!(clock.sleeping(), 0);
}

/// One line for all routes bounds them together; requests that wait for one limiter do not hold up those of another.
#[tokio::test]
async fn routes_with_limiters_of_their_own_do_not_wait_for_each_other() {
    let clock = TestClock::new();
    let line = WaitLine::new(Duration::from_secs(7_200)).timer(clock.clone());
    let slow = clock.gate("1/h").unwrap();
    let layer = GateLayer::new(clock.gate("1/s").unwrap()).wait(line.clone());
    let server = behind(
        layer
            .key(HeaderKey::new("x-key").unwrap())
            .route("/slow", |route| route.limiter(slow).key(HeaderKey::new("x-key").unwrap())),
    )
    .await;
    for path in ["/slow", "/x"] {
        assert_eq!(send(server.addr, path, "a").await.unwrap().0, 200);
    }
    let long = send(server.addr, "/slow", "a");
    in_line(&line, 1).await;
    let short = send(server.addr, "/x", "a");
    in_line(&line, 2).await;
    clock.advance(Duration::from_secs(1));
    assert_eq!(short.await.unwrap().0, 200);
    in_line(&line, 1).await;
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(long.await.unwrap().0, 200);
}
