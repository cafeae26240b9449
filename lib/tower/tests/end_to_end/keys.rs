//! Every kind of key over sockets: which requests share a limit and which do not, and requests that have no key.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::{any, get};
use http::request::Parts;
use tollgate_tower::testing::TestClock;
use tollgate_tower::{ClientIp, ExtensionKey, GateLayer, HeaderKey, Key, PathKey, TokenKey, key_fn};

use crate::support::in_process::{self, gated, now};
use crate::support::log_capture::LogCapture;
use crate::support::web::{TestServer, curl, serve};

/// A server that lets every key pass once.
async fn once(key: impl Key) -> TestServer {
    let layer = GateLayer::new(TestClock::new().gate("1/d").unwrap()).key(key);
    serve(Router::new().route("/{*any}", any(async || "hello")).layer(layer)).await
}

async fn status(server: &TestServer, path: &str, headers: &[&str]) -> u16 {
    let args: Vec<&str> = headers.iter().flat_map(|header| ["-H", header]).collect();
    let answer = curl(&server.url(path), &args).await;
    answer[9..12].parse().unwrap()
}

fn api_key() -> HeaderKey {
    HeaderKey::new("X-Api-Key").unwrap()
}

#[tokio::test]
async fn by_a_header() {
    let server = once(api_key()).await;
    for (value, expected) in
        [("x-api-key: a", 200), ("X-API-KEY: a", 429), ("x-api-key: b", 200), ("x-api-key: A", 200)]
    {
        assert_eq!(status(&server, "/x", &[value]).await, expected, "{value}");
    }
    assert_eq!(status(&server, "/x", &[]).await, 400);
    assert_eq!(status(&server, "/x", &["x-api-key;"]).await, 400, "empty");
    assert_eq!(status(&server, "/x", &["x-api-key: c", "x-api-key: d"]).await, 400, "which of both?");
    assert_eq!(status(&server, "/x", &["x-api-key: c"]).await, 200, "a request without a key charges nobody");
}

#[tokio::test]
async fn by_a_bearers_token() {
    let server = once(TokenKey::bearer()).await;
    let rows = [
        ("authorization: Bearer t1", 200),
        ("authorization: bearer t1", 429),
        ("authorization: Bearer  t1 ", 429),
        ("authorization: Bearer t2", 200),
        ("authorization: Basic t3", 400),
        ("authorization: Bearer", 400),
    ];
    for (header, expected) in rows {
        assert_eq!(status(&server, "/x", &[header]).await, expected, "{header}");
    }
    assert_eq!(status(&server, "/x", &[]).await, 400);
}

#[tokio::test]
async fn by_the_path() {
    let server = once(PathKey::whole()).await;
    for (path, expected) in [("/a", 200), ("/a", 429), ("/a?x=1", 429), ("/a/b", 200), ("/b", 200)] {
        assert_eq!(status(&server, path, &[]).await, expected, "{path}");
    }
    let server = once(PathKey::segments(1)).await;
    for (path, expected) in [("/users/1", 200), ("/users/2", 429), ("/users", 429), ("/posts/1", 200)] {
        assert_eq!(status(&server, path, &[]).await, expected, "{path}");
    }
}

/// A layer before this one identifies the user.
#[tokio::test]
async fn by_an_extension() {
    #[derive(Clone)]
    struct User(String);
    impl AsRef<[u8]> for User {
        fn as_ref(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }
    async fn login(mut request: Request, next: Next) -> axum::response::Response {
        let user = request.headers().get("x-user").map(|user| User(user.to_str().unwrap().to_owned()));
        if let Some(user) = user {
            request.extensions_mut().insert(user);
        }
        next.run(request).await
    }
    let layer = GateLayer::new(TestClock::new().gate("1/d").unwrap()).key(ExtensionKey::<User>::new()).log(None);
    let router = Router::new().route("/x", get(async || "hello")).layer(layer).layer(from_fn(login));
    let server = serve(router).await;
    assert_eq!(status(&server, "/x", &["x-user: alice"]).await, 200);
    assert_eq!(status(&server, "/x", &["x-user: alice"]).await, 429);
    assert_eq!(status(&server, "/x", &["x-user: bob"]).await, 200);
    assert_eq!(status(&server, "/x", &[]).await, 500, "the layer that should have put it there did not");
}

#[tokio::test]
async fn by_a_function() {
    let tenant = |parts: &Parts| Some(parts.uri.query()?.strip_prefix("tenant=")?.to_owned());
    let server = once(key_fn(tenant)).await;
    let rows = [("/x?tenant=a", 200), ("/y?tenant=a", 429), ("/x?tenant=b", 200), ("/x", 400), ("/x?tenant=", 400)];
    for (path, expected) in rows {
        assert_eq!(status(&server, path, &[]).await, expected, "{path}");
    }
}

#[tokio::test]
async fn by_several_at_once() {
    let server = once((ClientIp::peer(), api_key(), PathKey::segments(1))).await;
    let rows = [
        ("/a/1", "x-api-key: k", 200),
        ("/a/2", "x-api-key: k", 429),
        ("/b/1", "x-api-key: k", 200),
        ("/a/1", "x-api-key: l", 200),
        // What would be the key of another combination, were it not escaped.
        ("/a/1", "x-api-key: k|path:/a", 200),
    ];
    for (path, header, expected) in rows {
        assert_eq!(status(&server, path, &[header]).await, expected, "{path} {header}");
    }
    assert_eq!(status(&server, "/a/1", &[]).await, 400, "a part is missing");
}

#[tokio::test]
async fn by_one_or_else_another() {
    let server = once(api_key().or(TokenKey::bearer()).or(ClientIp::peer())).await;
    let token = "authorization: Bearer k";
    let rows: [(&[&str], u16); 7] = [
        (&["x-api-key: k"], 200),
        (&["x-api-key: k", token], 429),
        (&[token], 200),
        (&[token], 429),
        (&[], 200),
        (&[], 429),
        // A malformed token counts as missing, and the address is the key.
        (&["authorization: Basic k"], 429),
    ];
    for (headers, expected) in rows {
        assert_eq!(status(&server, "/x", headers).await, expected, "{headers:?}");
    }
}

#[tokio::test]
async fn a_key_of_512_bytes_is_one_and_a_longer_one_is_refused() {
    let server = once(api_key().or(ClientIp::peer())).await;
    let most = 512 - "header:x-api-key:".len();
    let header = |len: usize| format!("x-api-key: {}", "k".repeat(len));
    assert_eq!(status(&server, "/x", &[&header(most)]).await, 200);
    assert_eq!(status(&server, "/x", &[&header(most)]).await, 429);
    let answer = curl(&server.url("/x"), &["-H", &header(most + 1)]).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n"), "{head}");
    assert_eq!(
        body,
        r#"{"type":"about:blank","title":"Bad Request","status":400,"detail":"expected a key of at most 512 bytes, found a longer one"}"#
    );
    // Not even with another key to fall back to: a client does not choose its limit by making its key too long.
    assert_eq!(status(&server, "/x", &[]).await, 200);
}

#[tokio::test]
async fn a_missing_key_says_what_was_expected() {
    let answer = curl(&once(api_key()).await.url("/x"), &[]).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(
        body,
        r#"{"type":"about:blank","title":"Bad Request","status":400,"detail":"x-api-key: expected this header"}"#
    );
    assert!(!head.contains("ratelimit"), "{head}");
}

/// Mistakes in the setup of the service are reported in the log, not in the response.
#[test]
fn a_service_that_is_put_together_wrongly_answers_500_and_says_why_in_the_log() {
    let (log, _listening) = LogCapture::listen();
    let mut service = gated(&GateLayer::new(TestClock::new().gate("1/d").unwrap()));
    let answer = now(&mut service, http::Request::get("/").body(()).unwrap());
    let (status, body) = in_process::text(answer);
    assert_eq!(status, 500);
    assert_eq!(
        body,
        r#"{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"the limits of this service are not set up"}"#
    );
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("ERROR") && lines[0].contains("into_make_service_with_connect_info"), "{lines:?}");
}

#[test]
fn requests_without_a_key_pass_if_they_shall_and_are_logged() {
    let (log, _listening) = LogCapture::listen();
    let layer = GateLayer::new(TestClock::new().gate("1/d").unwrap()).key(api_key()).pass_without_key();
    let mut service = gated(&layer);
    for _ in 0..3 {
        let answer = now(&mut service, in_process::get("/"));
        assert_eq!(answer.status(), 200);
        assert!(!answer.headers().contains_key("ratelimit"));
    }
    assert!(log.lines()[0].contains("a request has no key: x-api-key: expected this header"), "{:?}", log.lines());
}
