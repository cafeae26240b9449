//! The costs of requests, requests that are not limited, the rules of routes, and the switch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::Router;
use axum::routing::any;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response, StatusCode};
use tollgate_tower::testing::TestClock;
use tollgate_tower::{
    ClientIp, GateLayer, GateRefusal, HeaderDialect, HeaderFields, HeaderKey, LimiterVerdict, Reset, RouteRules, skip,
};

use crate::support::in_process::{self, gated, now};
use crate::support::web::{curl, serve};
use crate::support::{field, left};

fn request(method: Method, path: &str) -> Request<()> {
    let mut request = in_process::get(path);
    *request.method_mut() = method;
    request
}

#[tokio::test]
async fn what_a_request_costs_by_its_method_and_size() {
    let clock = TestClock::new();
    let layer = GateLayer::new(clock.gate("1000/d").unwrap()).cost(|parts| {
        let size = parts.headers.get(CONTENT_LENGTH).and_then(|size| size.to_str().ok()?.parse::<u64>().ok());
        match (&parts.method, size) {
            (&Method::GET, _) => 1,
            (_, size) => 10 + size.unwrap_or(0) / 100,
        }
    });
    let server = serve(Router::new().route("/", any(async || "hello")).layer(layer)).await;
    let url = server.url("/");
    let data = "x".repeat(5_000);
    let rows: [(&[&str], u64); 4] =
        [(&[], 999), (&["-X", "DELETE"], 989), (&["-d", &data], 929), (&["-X", "PUT"], 919)];
    for (args, expected) in rows {
        let answer = curl(&url, args).await;
        assert!(answer.contains(&format!("\r\nratelimit: \"1000/d\";r={expected};")), "{args:?}: {answer}");
    }
}

#[test]
fn a_cost_of_nothing_passes_and_is_told_what_is_left() {
    let clock = TestClock::new();
    let cost = |parts: &http::request::Parts| u64::from(parts.uri.path() != "/free");
    let mut service = gated(&GateLayer::new(clock.gate("1/d").unwrap()).cost(cost));
    for (path, status, remaining) in
        [("/free", 200, 1), ("/", 200, 0), ("/free", 200, 0), ("/", 429, 0), ("/free", 200, 0)]
    {
        let answer = now(&mut service, in_process::get(path));
        assert_eq!((answer.status().as_u16(), left(answer.headers())), (status, Some(remaining)), "{path}");
    }
}

/// Waiting does not help, so the response contains no wait.
#[test]
fn a_cost_above_the_limit_is_refused_forever_and_charges_nothing() {
    for policy in ["5/d", "5/d gcra burst=5", "5/d fixed", "9/d bucket burst=5", "5/d, 100/w"] {
        let clock = TestClock::new();
        let cost = |parts: &http::request::Parts| parts.uri.query().map_or(1, |cost| cost.parse().unwrap());
        let layer = GateLayer::new(clock.gate(policy).unwrap()).cost(cost).headers(HeaderFields::default().exact());
        let mut service = gated(&layer);
        for cost in ["10", "9007199254740991", "9007199254740992", "18446744073709551615"] {
            let answer = now(&mut service, in_process::get(&format!("/?{cost}")));
            assert_eq!(answer.status(), 429, "{policy} {cost}");
            assert_eq!(field(answer.headers(), "retry-after"), None, "{policy} {cost}");
            assert_eq!(field(answer.headers(), "tollgate-retry-after-us").unwrap(), "-1", "{policy} {cost}");
        }
        let answer = now(&mut service, in_process::get("/?5"));
        assert_eq!(answer.status(), 200, "{policy}");
    }
}

#[tokio::test]
async fn what_is_skipped_passes_untouched_and_is_not_charged() {
    let clock = TestClock::new();
    let gate = clock.gate("1/d").unwrap();
    let layer = GateLayer::new(gate.clone())
        .skip(skip::preflight)
        .skip(skip::paths(["/healthz", "/assets/*"]))
        .skip(|parts| parts.headers.contains_key("x-internal"));
    let server = serve(Router::new().route("/{*any}", any(async || "hello")).layer(layer)).await;
    let preflight = ["-X", "OPTIONS", "-H", "origin: https://a.example", "-H", "access-control-request-method: PUT"];
    let rows: [(&str, &[&str]); 5] = [
        ("/healthz", &[]),
        ("/assets/a/b.css", &[]),
        ("/api", &["-H", "x-internal: 1"]),
        ("/api", &preflight),
        ("/healthz?deep=1", &[]),
    ];
    for (path, args) in rows {
        for _ in 0..3 {
            let answer = curl(&server.url(path), args).await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && !answer.contains("ratelimit"), "{path}: {answer}");
        }
    }
    assert_eq!(gate.stats().keys, 0);
    // Requests that only resemble them are limited.
    let rows: [(&str, &[&str], &str); 4] = [
        ("/healthz/x", &[], "200"),
        ("/api", &["-X", "OPTIONS", "-H", "origin: https://a.example"], "429"),
        ("/api", &["-X", "OPTIONS", "-H", "access-control-request-method: PUT"], "429"),
        ("/api", &["-H", "origin: https://a.example", "-H", "access-control-request-method: PUT"], "429"),
    ];
    for (path, args, status) in rows {
        let answer = curl(&server.url(path), args).await;
        assert_eq!(&answer[9..12], status, "{path} {args:?}");
    }
}

#[test]
fn routes_have_limits_of_their_own_and_the_first_that_matches_counts() {
    let clock = TestClock::new();
    let gate = |policy: &str| clock.gate(policy).unwrap();
    let layer = GateLayer::new(gate("10/d"))
        .route("/login", |route| route.limiter(gate("1/d")))
        .route("/api/*/upload", |route| route.limiter(gate("2/d")))
        .route("/api/*", |route| route.limiter(gate("3/d")).cost(|_| 2));
    let mut service = gated(&layer);
    for (path, status, remaining) in [
        ("/login", 200, 0),
        ("/login", 429, 0),
        ("/login/x", 200, 9),
        ("/api/v1/upload", 200, 1),
        ("/api/v2/upload", 200, 0),
        ("/api/v2/upload", 429, 0),
        ("/api/v1/users", 200, 1),
        ("/api/v1/users", 429, 1),
        ("/", 200, 8),
        ("/Login", 200, 7),
    ] {
        let answer = now(&mut service, in_process::get(path));
        assert_eq!((answer.status().as_u16(), left(answer.headers())), (status, Some(remaining)), "{path}");
    }
}

/// A route begins with what the layer has when it is added, and changes what it likes.
#[test]
fn a_route_may_have_another_key_other_headers_and_another_response() {
    let clock = TestClock::new();
    let teapot = |refusal: &GateRefusal<'_>| {
        let wait = refusal.verdict().and_then(LimiterVerdict::retry_after).unwrap();
        let body = format!("{} {} {wait:?}", refusal.status(), refusal.policy.unwrap());
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    };
    let layer = GateLayer::new(clock.gate("1/d").unwrap())
        .key(HeaderKey::new("x-user").unwrap())
        .route("/key", |route| route.key(ClientIp::peer()))
        .route("/headers", |route| route.headers(HeaderFields::new([HeaderDialect::XRateLimit(Reset::Delta)])))
        .route("/respond", move |route| route.respond(teapot));
    let mut service = gated(&layer);
    let user = |path: &str, user: &str| {
        let mut request = in_process::get(path);
        request.headers_mut().insert("x-user", user.parse().unwrap());
        request
    };
    assert_eq!(now(&mut service, user("/", "a")).status(), 200);
    assert_eq!(now(&mut service, user("/key", "b")).status(), 200);
    assert_eq!(now(&mut service, user("/key", "c")).status(), 429, "the address is the same");
    let answer = now(&mut service, user("/headers", "b"));
    assert_eq!(answer.status(), 200, "one gate, and another key of it");
    assert_eq!(field(answer.headers(), "x-ratelimit-remaining").unwrap(), "0");
    assert_eq!(field(answer.headers(), "ratelimit"), None);
    let answer = now(&mut service, user("/respond", "a"));
    assert_eq!(field(answer.headers(), "retry-after").unwrap(), "86400", "the layer's fields are added");
    assert_eq!(field(answer.headers(), "ratelimit").unwrap(), "\"1/d\";r=0;t=86400");
    let (status, body) = in_process::text(answer);
    assert_eq!((status.as_u16(), body.as_str()), (418, "429 Too Many Requests 1/d After(Micros(86400000000))"));
    assert_eq!(now(&mut service, user("/", "a")).status(), 429, "other routes answer as they did");
}

#[test]
fn the_switch_is_read_for_each_request() {
    let on = Arc::new(AtomicBool::new(false));
    let clock = TestClock::new();
    let gate = clock.gate("1/d").unwrap();
    let switch = on.clone();
    let mut service = gated(&GateLayer::new(gate.clone()).enabled(move || switch.load(Ordering::Relaxed)));
    let mut statuses = Vec::new();
    for enabled in [false, false, true, true, false, true] {
        on.store(enabled, Ordering::Relaxed);
        let answer = now(&mut service, in_process::get("/"));
        assert_eq!(answer.headers().contains_key("ratelimit"), enabled);
        statuses.push(answer.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 429, 200, 429]);
}

/// A service can read the verdict on its request.
#[test]
fn a_service_is_told_if_it_shall_be() {
    let clock = TestClock::new();
    let seen = Arc::new(AtomicUsize::new(0));
    let told = seen.clone();
    let route = RouteRules::new(clock.gate("5/d").unwrap()).tell_service();
    let layer = GateLayer::of(route);
    let mut service = tower::Layer::layer(
        &layer,
        tower::service_fn(move |request: Request<()>| {
            let Some(LimiterVerdict::Decided(decision, _)) = request.extensions().get::<LimiterVerdict>() else {
                panic!("not told")
            };
            told.fetch_add(usize::try_from(decision.remaining).unwrap(), Ordering::Relaxed);
            std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(
                http_body_util::Full::<Bytes>::default(),
            )))
        }),
    );
    for _ in 0..3 {
        now(&mut service, request(Method::GET, "/"));
    }
    assert_eq!(seen.load(Ordering::Relaxed), 4 + 3 + 2);
}
