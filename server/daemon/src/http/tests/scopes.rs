//! Every route with no token, with the wrong scopes and with the right scope: nothing is done without its scope. The
//! routes are those of the list, so new ones are covered without a line here.

use super::client::{HttpTestOptions, HttpTestServer, tested, tested_with};
use crate::access::{Scope, Scopes};
use crate::http::routes::{Methods, ROUTES, Route};

/// Routes that need no scope: they reveal nothing about any key.
const ANYBODY: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];

/// Sends a request that the route answers with 200 if it is allowed.
async fn ask(tested: &HttpTestServer, route: &Route, authorization: Option<&str>) -> u16 {
    let (mut headers, mut body) = (Vec::new(), String::new());
    headers.extend(authorization.map(|value| ("Authorization", value)));
    if route.methods == Methods::Post {
        headers.push(("Content-Type", "application/json"));
        let item = r#"{"key": "user:42", "policy": "100/min"}"#;
        body = match route.path {
            "/v1/batch" => format!(r#"{{"items": [{item}]}}"#),
            "/v1/refund" => item.replace('}', r#", "units": 1, "at_us": 1}"#),
            _ => item.to_owned(),
        };
    }
    let target = if route.path == "/v1/gate" { "/v1/gate?policy=100/min" } else { route.path };
    let method = if route.methods == Methods::Post { "POST" } else { "GET" };
    let told = tested.ask(method, target, &headers, &body).await;
    if told.status == 401 {
        assert!(told.header("www-authenticate").unwrap().starts_with("Bearer"), "{told:?}");
    }
    if told.status != 200 {
        let said = told.problem();
        assert!(!said.contains("user:42"), "{said}");
    }
    told.status
}

fn keys(tested: &HttpTestServer) -> usize {
    let stats = || tested.shared.engine.home_stats().embedded().unwrap();
    stats().keys
}

#[tokio::test]
async fn routes_without_a_scope_tell_nothing() {
    for route in ROUTES.iter().filter(|route| route.scope.is_none()) {
        assert!(ANYBODY.contains(&route.path), "{} needs a scope, or is harmless and named here", route.path);
    }
}

#[tokio::test]
async fn every_route_times_every_token() {
    // From another machine nothing is free.
    let tested = tested_with(HttpTestOptions { peer: Some("192.0.2.7:50000"), ..HttpTestOptions::default() });
    for route in ROUTES {
        let Some(scope) = route.scope else {
            assert_eq!(ask(&tested, route, None).await, 200, "{}", route.path);
            continue;
        };
        assert_eq!(ask(&tested, route, None).await, 401, "{} without a token", route.path);
        for other in Scope::ALL.into_iter().filter(|other| *other != scope) {
            let token = tested.bearer(other.name());
            assert_eq!(ask(&tested, route, Some(&token)).await, 403, "{} with {}", route.path, other.name());
        }
        assert_eq!(keys(&tested), 0, "{} changed something", route.path);
    }
    for route in ROUTES {
        let token = tested.bearer(route.scope.map_or("check", Scope::name));
        assert_eq!(ask(&tested, route, Some(&token)).await, 200, "{} with its scope", route.path);
    }
}

#[tokio::test]
async fn wrong_tokens_are_none_and_soon_wait() {
    let tested = tested_with(HttpTestOptions { peer: Some("192.0.2.7:50000"), ..HttpTestOptions::default() });
    let route = ROUTES.iter().find(|route| route.path == "/v1/check").unwrap();
    let right = tested.bearer("check");
    // A field that holds no token does not count as a failed login.
    for other in ["", "Bearer", "Basic dXNlcjpwYXNz", &right["Bearer ".len()..], &right.replace(' ', "\t")] {
        assert_eq!(ask(&tested, route, Some(other)).await, 401, "{other:?}");
    }
    let guess = format!("{right}x");
    for _ in 0..5 {
        assert_eq!(ask(&tested, route, Some(&guess)).await, 401);
    }
    assert_eq!(ask(&tested, route, Some(&guess)).await, 429);
    let told = tested.ask("GET", "/metrics", &[("Authorization", &guess)], "").await;
    assert_eq!((told.status, told.header("retry-after")), (429, Some("1")));
    // A known token is not locked out by unknown ones.
    assert_eq!(ask(&tested, route, Some(&right)).await, 200);
    tested.clock.advance(tollgate_kernel::Micros::from_secs(1));
    assert_eq!(ask(&tested, route, Some(&right)).await, 200);
    assert_eq!(ask(&tested, route, Some(&right.replace("Bearer", "bearer"))).await, 200);
}

#[tokio::test]
async fn on_loopback_what_counts_and_looks_is_free() {
    let tested = tested();
    for route in ROUTES {
        let free = route.scope.is_none_or(|scope| Scopes::FREE_OVER_HTTP.has(scope));
        assert_eq!(ask(&tested, route, None).await, if free { 200 } else { 401 }, "{}", route.path);
        // A token adds to what is free.
        let token = tested.bearer(route.scope.map_or("check", Scope::name));
        assert_eq!(ask(&tested, route, Some(&token)).await, 200, "{}", route.path);
    }
}

#[tokio::test]
async fn a_refund_needs_a_token_with_refund_and_the_hint_says_so() {
    let tested = tested();
    let check = r#"{"key": "a", "policy": "5/h", "cost": 5}"#;
    let at = tested.post("/v1/check", check).await.json()["at_us"].clone();
    let refund = format!(r#"{{"key": "a", "policy": "5/h", "units": 5, "at_us": {at}}}"#);
    assert_eq!(tested.post("/v1/refund", &refund).await.status, 401);
    for scope in ["check", "read", "reset", "admin"] {
        let told = tested.post_as(scope, "/v1/refund", &refund).await;
        assert_eq!(told.status, 403, "{scope}");
        assert!(told.problem().ends_with("; add refund to the token's scopes"), "{}", told.problem());
    }
    let peek = r#"{"key": "a", "policy": "5/h"}"#;
    assert_eq!(tested.post("/v1/peek", peek).await.json()["remaining"], 0, "nothing was given back");
    assert_eq!(tested.post_as("refund", "/v1/refund", &refund).await.json()["refunded"], 5);
    assert_eq!(tested.post("/v1/peek", peek).await.json()["remaining"], 5);
}
