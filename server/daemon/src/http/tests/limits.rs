//! Sizes, times and numbers. The test owns the clock: nothing here waits.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::client::{HttpTestOptions, HttpTestServer, read, read_head, request, tested, tested_with};
use crate::http::shared::HttpLimits;

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

#[tokio::test]
async fn bodies_and_heads_have_a_size() {
    let tested = tested();
    let body = |len: usize| format!(r#"{{"key": "a", "policy": "9/min"{}}}"#, " ".repeat(len - 31));
    assert_eq!(body(64 << 10).len(), 64 << 10);
    assert_eq!(tested.post("/v1/check", &body(64 << 10)).await.status, 200);
    let told = tested.post("/v1/check", &body((64 << 10) + 1)).await;
    assert_eq!((told.status, told.problem().as_str()), (413, "expected a body of at most 65536 bytes"));
    // Without a length, the size is checked as the body arrives.
    let head = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
    let told = tested.raw(&[&head[..], chunk.repeat(5).as_bytes()].concat()).await;
    assert_eq!((told.status, told.problem().is_empty()), (413, false));
    let many: Vec<(String, String)> = (0..64).map(|number| (format!("X-{number}"), "1".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(tested.ask("GET", "/healthz", &many[..60], "").await.status, 200);
    assert_eq!(tested.ask("GET", "/healthz", &many, "").await.status, 431);
    assert_eq!(tested.ask("GET", "/healthz", &[("X-Long", &"x".repeat(17 << 10))], "").await.status, 431);
}

#[tokio::test(start_paused = true)]
async fn who_is_slow_is_cut_off() {
    let tested = tested();
    let began = Instant::now();
    // No request is sent.
    let mut idle = tested.connect();
    assert!(read(&mut idle, false).await.is_none());
    assert_eq!(began.elapsed().as_secs(), 60);
    // A head that does not end.
    let began = Instant::now();
    let mut slow = tested.connect();
    let head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    let cut = loop {
        let next = head.get(began.elapsed().as_secs() as usize).copied().unwrap_or(b'x');
        if slow.write_all(&[next]).await.is_err() {
            break began.elapsed().as_secs();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    assert!((10..=11).contains(&cut), "{cut}");
    // A body that does not arrive.
    let began = Instant::now();
    let asked =
        b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
    let mut slow = tested.connect();
    slow.write_all(asked).await.unwrap();
    let told = read(&mut slow, false).await.unwrap();
    assert_eq!((told.status, told.problem().as_str()), (408, "expected the body within 10s"));
    assert_eq!(began.elapsed().as_secs(), 10);
    // A connection may be idle for a while between requests, and is served after that.
    let mut good = tested.connect();
    for _ in 0..3 {
        good.write_all(&request("GET", "/healthz", &[], "")).await.unwrap();
        assert_eq!(read(&mut good, false).await.unwrap().status, 200);
        tokio::time::sleep(Duration::from_secs(50)).await;
    }
    let began = Instant::now();
    assert!(read(&mut good, false).await.is_none());
    assert_eq!(began.elapsed().as_secs(), 10, "sixty since the last answer");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_is_cut_off() {
    let tested = tested();
    let began = Instant::now();
    let mut stream = tested.connect();
    let asked = request("GET", "/openapi.json", &[], "");
    let mut sent = 0;
    while stream.write_all(&asked).await.is_ok() {
        sent += 1;
        assert!(sent < 100_000);
    }
    assert!((30..=60).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

/// Asserts that these routes answer while everything else is full.
async fn assert_answers(tested: &HttpTestServer) {
    for path in ["/healthz", "/readyz", "/metrics", "/v1/gate?policy=9000/min"] {
        let told = tested.get(path).await;
        assert_eq!(told.status, 200, "{path}: {told:?}");
    }
}

#[tokio::test]
async fn bodies_that_do_not_come_keep_nobody_from_an_answer() {
    let limits = HttpLimits { in_flight: 1, ..HttpLimits::default() };
    let tested = tested_with(HttpTestOptions { limits: Some(limits), ..HttpTestOptions::default() });
    let asked = request("POST", "/v1/check", &JSON, r#"{"key": "a", "policy": "9/min"}"#);
    let (head, body) = asked.split_at(asked.len() - 5);
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut waits = tested.connect();
        waits.write_all(head).await.unwrap();
        waiting.push(waits);
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_answers(&tested).await;
    assert_eq!(tested.raw(&asked).await.status, 200);
    // Requests whose bodies arrive late are answered too.
    waiting[0].write_all(body).await.unwrap();
    assert_eq!(read(&mut waiting[0], false).await.unwrap().status, 200);
}

#[tokio::test]
async fn requests_with_bodies_are_so_many_at_a_time_and_others_answer() {
    let limits = HttpLimits { in_flight: 0, ..HttpLimits::default() };
    let tested = tested_with(HttpTestOptions { limits: Some(limits), ..HttpTestOptions::default() });
    let told = tested.post("/v1/check", r#"{"key": "a", "policy": "9/min"}"#).await;
    assert_eq!((told.status, told.header("retry-after")), (503, Some("1")));
    assert!(told.problem().contains("at most 0 requests with bodies at a time"));
    assert_answers(&tested).await;
}

#[tokio::test(start_paused = true)]
async fn bodies_take_room_while_they_come_and_short_ones_always_have_it() {
    let tested = tested();
    let asked = request("POST", "/v1/check", &JSON, &format!(r#"{{"key": "a"{}}}"#, " ".repeat(60_000)));
    let half = &asked[..asked.len() - 1];
    let (mut waiting, mut refused) = (Vec::new(), None);
    while refused.is_none() {
        let mut client = tested.connect();
        client.write_all(half).await.unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        if tested.shared.buffers.refused() > 0 {
            refused = read(&mut client, false).await;
        }
        waiting.push(client);
        assert!(waiting.len() < 1_000);
    }
    let refused = refused.unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refused.problem().starts_with("expected a shorter body: the buffers that all share are nearly full"));
    assert!(waiting.len() > 100, "{}", waiting.len());
    assert_answers(&tested).await;
    assert_eq!(tested.post("/v1/check", r#"{"key": "a", "policy": "9/min"}"#).await.status, 200);
    // A body that does not arrive is abandoned, and its room is free again.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(tested.shared.buffers.usage()[1].bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn long_answers_take_room_until_they_are_read() {
    let tested = tested();
    let taken = || tested.shared.buffers.usage()[1].bytes;
    let asked = request("GET", "/openapi.json", &[], "");
    let mut stream = tested.connect_with(1_024);
    stream.write_all(&asked).await.unwrap();
    let first = read_head(&mut stream).await;
    assert!(first > 10_000 && taken() > 10_000, "{first} {}", taken());
    let mut body = vec![0; first];
    stream.read_exact(&mut body).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(taken(), 0);
    // When all room is taken, a client that does not read is refused; metrics are answered even then.
    let (mut waiting, held) = (Vec::new(), &tested.shared.buffers);
    while held.refused() == 0 {
        let mut stream = tested.connect_with(1_024);
        stream.write_all(&asked).await.unwrap();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        waiting.push(stream);
        assert!(waiting.len() < 10_000);
    }
    assert_answers(&tested).await;
    drop(waiting);
}

#[tokio::test]
async fn a_server_that_ends_answers_what_came_and_closes() {
    let tested = tested();
    let (mut busy, mut idle) = (tested.connect(), tested.connect());
    for stream in [&mut busy, &mut idle] {
        stream.write_all(&request("GET", "/healthz", &[], "")).await.unwrap();
        assert_eq!(read(stream, false).await.unwrap().status, 200);
    }
    let asked = request("POST", "/v1/check", &JSON, r#"{"key": "a", "policy": "9/min"}"#);
    let (head, body) = asked.split_at(asked.len() - 5);
    busy.write_all(head).await.unwrap();
    let seen = || crate::metrics::exposition(&tested.shared.engine, &tested.shared.metrics).unwrap();
    while !seen().contains("front=\"http\",command=\"check\"} 1\n") {
        tokio::task::yield_now().await;
    }
    tested.stop.send(true).unwrap();
    assert!(read(&mut idle, false).await.is_none(), "who asks nothing is let go");
    busy.write_all(body).await.unwrap();
    let told = read(&mut busy, false).await.unwrap();
    assert_eq!((told.status, told.header("connection")), (200, Some("close")));
    assert!(read(&mut busy, false).await.is_none());
}
