//! Header fields byte for byte, as curl shows them, and the bodies of refusals.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::HeaderName;
use tollgate_tower::testing::TestClock;
use tollgate_tower::{GateLayer, HeaderDialect, HeaderFields, HeaderKey, HeaderNames, Reset};

use crate::support::web::{TestServer, curl, serve, wire};

async fn hello(layer: GateLayer) -> TestServer {
    serve(Router::new().route("/", get(async || "hello")).layer(layer)).await
}

/// The rest of an answer that passed.
const PASSED: [&str; 2] = ["HTTP/1.1 200 OK", "content-type: text/plain; charset=utf-8"];
const REFUSED: [&str; 2] = ["HTTP/1.1 429 Too Many Requests", "content-type: application/problem+json"];

fn passed(fields: &[&str]) -> String {
    wire(&[&PASSED, fields, &["content-length: 5"]].concat(), "hello")
}

fn refused(fields: &[&str], violated: &[&str]) -> String {
    let names: Vec<String> = violated.iter().map(|name| format!("\"{name}\"")).collect();
    let body = format!(
        "{{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"title\":\"Quota exceeded\",\
         \"status\":429,\"detail\":\"refused by {}\",\"violated-policies\":[{}]}}",
        violated.join(", "),
        names.join(",")
    );
    let length = format!("content-length: {}", body.len());
    wire(&[&REFUSED, fields, &[length.as_str()]].concat(), &body)
}

#[tokio::test]
async fn one_window() {
    let clock = TestClock::new();
    let server = hello(GateLayer::new(clock.gate("2/min").unwrap())).await;
    let url = server.url("/");
    let policy = "ratelimit-policy: \"2/min\";q=2;w=60";
    assert_eq!(curl(&url, &[]).await, passed(&[policy, "ratelimit: \"2/min\";r=1;t=60"]));
    clock.advance(Duration::from_millis(20_500));
    // Nothing is left: when the first one is back.
    assert_eq!(curl(&url, &[]).await, passed(&[policy, "ratelimit: \"2/min\";r=0;t=40"]));
    clock.advance(Duration::from_secs(1));
    let told = [policy, "ratelimit: \"2/min\";r=0;t=39", "retry-after: 39"];
    assert_eq!(curl(&url, &[]).await, refused(&told, &["2/min"]));
    // The reported wait is exact, rounded up: a second later it is a second less.
    clock.advance(Duration::from_secs(1));
    let told = [policy, "ratelimit: \"2/min\";r=0;t=38", "retry-after: 38"];
    assert_eq!(curl(&url, &[]).await, refused(&told, &["2/min"]));
    clock.advance(Duration::from_secs(38));
    assert_eq!(curl(&url, &[]).await, passed(&[policy, "ratelimit: \"2/min\";r=0;t=20"]));
}

#[tokio::test]
async fn two_windows() {
    let clock = TestClock::new();
    let server = hello(GateLayer::new(clock.gate("2/min name=permin, 3/h name=perhr").unwrap())).await;
    let url = server.url("/");
    let policy = "ratelimit-policy: \"permin\";q=2;w=60, \"perhr\";q=3;w=3600";
    let both = |minute: &str, hour: &str| format!("ratelimit: \"permin\";{minute}, \"perhr\";{hour}");
    assert_eq!(curl(&url, &[]).await, passed(&[policy, &both("r=1;t=60", "r=2;t=3600")]));
    assert_eq!(curl(&url, &[]).await, passed(&[policy, &both("r=0;t=60", "r=1;t=3600")]));
    // Only the limit that refuses is waited for.
    let told = [policy, &both("r=0;t=60", "r=1"), "retry-after: 60"];
    assert_eq!(curl(&url, &[]).await, refused(&told, &["permin"]));
    clock.advance(Duration::from_secs(60));
    assert_eq!(curl(&url, &[]).await, passed(&[policy, &both("r=1;t=60", "r=0;t=3540")]));
    let told = [policy, &both("r=1", "r=0;t=3540"), "retry-after: 3540"];
    assert_eq!(curl(&url, &[]).await, refused(&told, &["perhr"]));
}

#[tokio::test]
async fn both_windows_refuse() {
    let clock = TestClock::new();
    let server = hello(GateLayer::new(clock.gate("1/min, 1/h").unwrap())).await;
    let url = server.url("/");
    curl(&url, &[]).await;
    let told = [
        "ratelimit-policy: \"1/min\";q=1;w=60, \"1/h\";q=1;w=3600",
        "ratelimit: \"1/min\";r=0;t=60, \"1/h\";r=0;t=3600",
        "retry-after: 3600",
    ];
    assert_eq!(curl(&url, &[]).await, refused(&told, &["1/min", "1/h"]));
}

/// Three at once, and one more every five seconds. A passing response reports the next wait once the bucket is empty.
#[tokio::test]
async fn a_bucket_is_emptied_and_filled() {
    let clock = TestClock::new();
    let layer = GateLayer::new(clock.gate("15/min bucket burst=3 name=bucket").unwrap())
        .headers(HeaderFields::new([HeaderDialect::Draft10, HeaderDialect::Plug]));
    let server = hello(layer).await;
    let url = server.url("/");
    let policy = "ratelimit-policy: \"bucket\";q=15;w=60";
    let limit = "x-ratelimit-limit: 15 15;w=60;burst=3;policy=token_bucket";
    for (pause, left, reset, wait, passes) in [
        (0, 14, 60, None, true),
        (0, 13, 60, None, true),
        (0, 12, 60, Some(5), true),
        (0, 12, 60, Some(5), false),
        (2, 12, 58, Some(3), false),
        (3, 11, 55, Some(5), true),
        (10, 10, 45, None, true),
        (0, 9, 45, Some(5), true),
        (45, 14, 60, None, true),
    ] {
        clock.advance(Duration::from_secs(pause));
        let room = if wait.is_some() { 0 } else { left };
        let list = format!("ratelimit: \"bucket\";r={room};t={}", wait.unwrap_or(reset));
        let [reset, left] = [format!("x-ratelimit-reset: {reset}"), format!("x-ratelimit-remaining: {left}")];
        let wait = wait.map(|seconds| format!("retry-after: {seconds}"));
        let mut told = vec![policy, &list, limit, &reset, &left];
        told.extend(wait.as_deref());
        let expected = if passes { passed(&told) } else { refused(&told, &["bucket"]) };
        assert_eq!(curl(&url, &[]).await, expected);
    }
}

#[tokio::test]
async fn several_dialects_at_once() {
    let clock = TestClock::new();
    let names = HeaderNames::new()
        .limit(HeaderName::from_static("x-acme-most"))
        .remaining(HeaderName::from_static("x-acme-left"))
        .reset(HeaderName::from_static("x-acme-new-at"), Reset::Unix)
        .retry_after(HeaderName::from_static("x-acme-wait"));
    let dialects = [
        HeaderDialect::Draft10,
        HeaderDialect::Draft6,
        HeaderDialect::XRateLimit(Reset::Delta),
        HeaderDialect::Names(names),
    ];
    let layer = GateLayer::new(clock.gate("1/min").unwrap()).headers(HeaderFields::new(dialects).exact());
    let server = hello(layer).await;
    let url = server.url("/");
    let told = [
        "ratelimit-policy: \"1/min\";q=1;w=60",
        "ratelimit: \"1/min\";r=0;t=60",
        "ratelimit-limit: 1",
        "ratelimit-remaining: 0",
        "ratelimit-reset: 60",
        "x-ratelimit-limit: 1",
        "x-ratelimit-remaining: 0",
        "x-ratelimit-reset: 60",
        "x-acme-most: 1",
        "x-acme-left: 0",
        "x-acme-new-at: 1700000060",
        "tollgate-remaining: 0",
        "tollgate-retry-after-us: 0",
        "tollgate-source: home",
    ];
    assert_eq!(curl(&url, &[]).await, passed(&told));
    clock.advance(Duration::from_micros(500_001));
    let told = [
        "ratelimit-policy: \"1/min\";q=1;w=60",
        "ratelimit: \"1/min\";r=0;t=60",
        "ratelimit-limit: 1",
        "ratelimit-remaining: 0",
        "ratelimit-reset: 60",
        "x-ratelimit-limit: 1",
        "x-ratelimit-remaining: 0",
        "x-ratelimit-reset: 60",
        "x-acme-most: 1",
        "x-acme-left: 0",
        "x-acme-new-at: 1700000060",
        "x-acme-wait: 60",
        "tollgate-remaining: 0",
        "tollgate-retry-after-us: 59499999",
        "tollgate-source: home",
        "retry-after: 60",
    ];
    assert_eq!(curl(&url, &[]).await, refused(&told, &["1/min"]));
}

#[tokio::test]
async fn each_dialect_by_itself() {
    let rows: [(HeaderDialect, &[&str]); 6] = [
        (HeaderDialect::Draft8, &["ratelimit-policy: \"10/min\";q=10;w=60", "ratelimit: \"10/min\";r=9;t=60"]),
        (HeaderDialect::Draft7, &["ratelimit: limit=10, remaining=9, reset=60", "ratelimit-policy: 10;w=60"]),
        (
            HeaderDialect::Draft6,
            &["ratelimit-limit: 10", "ratelimit-remaining: 9", "ratelimit-reset: 60", "ratelimit-policy: 10;w=60"],
        ),
        (
            HeaderDialect::XRateLimit(Reset::Unix),
            &["x-ratelimit-limit: 10", "x-ratelimit-remaining: 9", "x-ratelimit-reset: 1700000060"],
        ),
        (
            HeaderDialect::Envoy,
            &["x-ratelimit-limit: 10, 10;w=60;name=\"10/min\"", "x-ratelimit-remaining: 9", "x-ratelimit-reset: 60"],
        ),
        (HeaderDialect::Plug, &["x-ratelimit-limit: 10", "x-ratelimit-reset: 60", "x-ratelimit-remaining: 9"]),
    ];
    for (dialect, fields) in rows {
        let clock = TestClock::new();
        let layer = GateLayer::new(clock.gate("10/min").unwrap()).headers(HeaderFields::new([dialect]));
        assert_eq!(curl(&hello(layer).await.url("/"), &[]).await, passed(fields));
    }
    let clock = TestClock::new();
    let server = hello(GateLayer::new(clock.gate("1/min").unwrap()).headers(HeaderFields::none())).await;
    assert_eq!(curl(&server.url("/"), &[]).await, passed(&[]));
    assert_eq!(curl(&server.url("/"), &[]).await, refused(&[], &["1/min"]));
}

/// Neither header fields nor bodies contain the key.
#[tokio::test]
async fn no_answer_tells_the_key() {
    let clock = TestClock::new();
    let every = HeaderDialect::NAMED.into_iter().map(|(_, dialect)| dialect);
    let layer = GateLayer::new(clock.gate("1/min, 5/h bucket burst=2").unwrap())
        .key(HeaderKey::new("x-api-key").unwrap())
        .headers(HeaderFields::new(every).exact());
    let server = hello(layer).await;
    let url = server.url("/");
    let (mut statuses, secret) = (Vec::new(), "s3cr3t");
    let long = secret.repeat(100);
    for args in [&["-H", "x-api-key: s3cr3t"][..]; 2].into_iter().chain([
        &["-H", "x-api-key: s3cr3t", "-H", "x-api-key: s3cr3t"][..],
        &["-H", &format!("x-api-key: {long}")],
        &["-H", "x-api-key: s3cr3t", "-X", "POST", "-H", "content-type: application/grpc"],
    ]) {
        let answer = curl(&url, args).await;
        assert!(!answer.contains(secret), "{answer}");
        statuses.push(answer[9..12].to_owned());
    }
    // The last one is refused as gRPC has it.
    assert_eq!(statuses, ["200", "429", "400", "400", "200"]);
}

#[tokio::test]
async fn a_refused_head_request_and_a_refused_upload() {
    let clock = TestClock::new();
    let server = hello(GateLayer::new(clock.gate("1/min").unwrap())).await;
    let url = server.url("/");
    curl(&url, &[]).await;
    let refused = curl(&url, &[]).await;
    let (head, _) = refused.split_once("\r\n\r\n").unwrap();
    assert_eq!(curl(&url, &["--head"]).await, format!("{head}\r\n\r\n"), "the same head, and no body");
    // The body of a refused request is not read.
    let file = format!("/{}", "x".repeat(2_000_000));
    let folder = std::env::temp_dir().join(format!("tollgate-upload-{}", std::process::id()));
    std::fs::write(&folder, file).unwrap();
    let upload = format!("@{}", folder.display());
    let answer = curl(&url, &["-H", "expect: 100-continue", "--data-binary", &upload]).await;
    std::fs::remove_file(&folder).unwrap();
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(!answer.contains("100 Continue"), "{answer}");
}
