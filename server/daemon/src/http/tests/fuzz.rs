//! Every input gets a well-formed answer, and the server survives.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate_random::Rng;

use super::client::{HttpTestServer, request, tested};
use crate::http::ROUTES;

/// Returns bytes taken from a word list and at random.
fn random_bytes(rng: &mut Rng, words: &[&str], most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..rng.index(most) {
        match rng.below(4) {
            0 => bytes.push(rng.next_u64() as u8),
            _ => bytes.extend(rng.pick(words).as_bytes()),
        }
    }
    bytes
}

const JSON: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "1",
    "-1",
    "1e999",
    "9007199254740992",
    "\"key\"",
    "\"policy\"",
    "\"cost\"",
    "\"mode\"",
    "\"items\"",
    "\"all_or_none\"",
    "\"100/min\"",
    "\"key_base64\"",
    "\\u0000",
    "\\ud800",
    " ",
];
const HEADERS: [&str; 14] = [
    "X-Forwarded-For",
    "Tollgate-Policy",
    "X-Api-Key",
    "Host",
    "Content-Type",
    "Authorization",
    "Content-Length",
    "Transfer-Encoding",
    "Expect",
    "Connection",
    "Cookie",
    "Accept",
    "Upgrade",
    "Trailer",
];
const VALUES: [&str; 20] = [
    "100/min",
    "1/s, 5/h",
    "application/json",
    "localhost",
    "evil.example",
    "127.0.0.1",
    "[::1]:80",
    "::ffff:1.2.3.4",
    "%zone",
    ",",
    " ",
    "Bearer ",
    "Basic x",
    "chunked",
    "100-continue",
    "close",
    "upgrade",
    "0",
    "5",
    "-5",
];
const QUERY: [&str; 16] = [
    "?",
    "&",
    "=",
    "policy",
    "cost",
    "deny",
    "key_header",
    "or",
    "name",
    "100/min",
    "%",
    "%2",
    "%00",
    "429",
    "X-Api-Key",
    "address",
];

/// Sends bytes, closes the connection, and checks everything that comes back.
async fn send(tested: &HttpTestServer, bytes: &[u8]) {
    let mut stream = tested.connect();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut told = Vec::new();
    stream.read_to_end(&mut told).await.unwrap();
    let text = String::from_utf8_lossy(&told);
    assert!(told.is_empty() || text.starts_with("HTTP/1."), "{text}");
    for status in text.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)) {
        assert!(status != "500" && status.bytes().all(|byte| byte.is_ascii_digit()), "{text}");
    }
}

#[tokio::test]
async fn bodies_headers_and_targets_of_every_kind_are_answered() {
    let tested = tested();
    let mut rng = Rng::new(0x5eed);
    let paths: Vec<&str> = ROUTES.iter().map(|route| route.path).collect();
    for _ in 0..4_000 {
        let path = rng.pick(&paths);
        let method = rng.pick(&["GET", "POST", "POST", "HEAD", "PUT", "OPTIONS", "TRACE"]);
        let kind = ("Content-Type", "application/json");
        match rng.below(3) {
            // A random body behind a valid head: there is an answer.
            0 => {
                let body = random_bytes(&mut rng, &JSON, 24);
                let mut bytes = request("POST", path, &[kind], "");
                let head = String::from_utf8(bytes).unwrap();
                bytes = head.replace("Content-Length: 0", &format!("Content-Length: {}", body.len())).into_bytes();
                bytes.extend(body);
                let told = tested.raw(&bytes).await;
                assert!(told.status == 200 || told.problem().len() > 5, "{told:?}");
            }
            // Random header fields.
            1 => {
                let mut bytes = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n").into_bytes();
                for _ in 0..rng.below(6) {
                    bytes.extend(rng.pick(&HEADERS).as_bytes());
                    bytes.extend(b": ");
                    bytes.extend(random_bytes(&mut rng, &VALUES, 6));
                    bytes.extend(b"\r\n");
                }
                bytes.extend(b"\r\n");
                bytes.extend(random_bytes(&mut rng, &JSON, 6));
                send(&tested, &bytes).await;
            }
            // Random targets.
            _ => {
                let mut bytes = format!("{method} {path}").into_bytes();
                bytes.extend(random_bytes(&mut rng, &QUERY, 12));
                bytes.extend(b" HTTP/1.1\r\nHost: localhost\r\n\r\n");
                send(&tested, &bytes).await;
            }
        }
    }
    // Bytes that are not HTTP at all.
    for _ in 0..1_000 {
        let bytes = random_bytes(
            &mut rng,
            &["GET ", "/", " HTTP/1.1", "\r\n", "\r\n\r\n", "Host: ", ":", "PRI * HTTP/2.0"],
            20,
        );
        send(&tested, &bytes).await;
    }
    assert_eq!(tested.get("/healthz").await.status, 200);
    assert_eq!(tested.shared.http.requests_in_flight(), 0);
}
