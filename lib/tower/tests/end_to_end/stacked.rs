//! Two layers, one behind the other: both are charged in order, and the response has the fields of both.

use axum::Router;
use axum::routing::get;
use tollgate::Gate;
use tollgate_tower::testing::TestClock;
use tollgate_tower::{ClientIp, GateLayer, HeaderDialect, HeaderFields, Settlement, TokenKey};

use crate::support::web::{TestServer, curl, serve};

struct StackedGates {
    addresses: Gate,
    tokens: Gate,
    server: TestServer,
}

/// Addresses outside, tokens inside.
async fn two(outer: &str, inner: &str, change: impl Fn(GateLayer) -> GateLayer) -> StackedGates {
    let clock = TestClock::new();
    let (addresses, tokens) = (clock.gate(outer).unwrap(), clock.gate(inner).unwrap());
    let by_address = change(GateLayer::new(addresses.clone()).key(ClientIp::peer()));
    let by_token = change(GateLayer::new(tokens.clone()).key(TokenKey::bearer()));
    // The layer that is added last is the first to see a request.
    let router = Router::new().route("/", get(async || "hello")).layer(by_token).layer(by_address);
    StackedGates { addresses, tokens, server: serve(router).await }
}

impl StackedGates {
    async fn ask(&self, token: &str) -> String {
        curl(&self.server.url("/"), &["-H", &format!("authorization: Bearer {token}")]).await
    }

    /// Returns what is left for the address and for the token.
    fn left(&self, token: &str) -> (i64, i64) {
        let left = |gate: &Gate, key: String| gate.ask(&key).cost(0).check().unwrap().remaining;
        (left(&self.addresses, "address:127.0.0.1".to_owned()), left(&self.tokens, format!("token:{token}")))
    }
}

fn lines<'a>(answer: &'a str, name: &str) -> Vec<&'a str> {
    answer.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect()
}

#[tokio::test]
async fn lists_tell_of_both() {
    let two = two("10/h name=address", "1/min name=token", |layer| layer).await;
    let answer = two.ask("a").await;
    assert!(answer.starts_with("HTTP/1.1 200 "));
    assert_eq!(lines(&answer, "ratelimit-policy"), ["\"token\";q=1;w=60", "\"address\";q=10;w=3600"]);
    assert_eq!(lines(&answer, "ratelimit"), ["\"token\";r=0;t=60", "\"address\";r=9;t=3600"]);
    let answer = two.ask("a").await;
    assert!(answer.starts_with("HTTP/1.1 429 "));
    assert!(answer.ends_with("\"violated-policies\":[\"token\"]}"));
    assert_eq!(lines(&answer, "ratelimit"), ["\"token\";r=0;t=60", "\"address\";r=8;t=3600"]);
    assert_eq!(lines(&answer, "retry-after"), ["60"]);
}

/// Of fields with one value those with the least left stay, as a set.
#[tokio::test]
async fn single_fields_tell_of_the_tighter_one() {
    let dialects = || HeaderFields::new([HeaderDialect::Draft6, HeaderDialect::Draft7]);
    let two = two("3/h", "2/min", move |layer| layer.headers(dialects())).await;
    for (token, limit, left, reset) in [("a", "2", "1", "60"), ("b", "3", "1", "3600"), ("c", "3", "0", "3600")] {
        let answer = two.ask(token).await;
        assert_eq!(lines(&answer, "ratelimit-limit"), [limit], "{answer}");
        assert_eq!(lines(&answer, "ratelimit-remaining"), [left], "{answer}");
        assert_eq!(lines(&answer, "ratelimit-reset"), [reset], "{answer}");
    }
}

/// A request that the outer layer refuses is not charged inside; one that the inner layer refuses is charged outside.
#[tokio::test]
async fn both_are_charged_in_order() {
    let two = two("4/h", "2/h", |layer| layer).await;
    for (token, status, left) in
        [("a", "200", (3, 1)), ("a", "200", (2, 0)), ("a", "429", (1, 0)), ("b", "200", (0, 1)), ("b", "429", (0, 1))]
    {
        let answer = two.ask(token).await;
        assert_eq!((&answer[9..12], two.left(token)), (status, left), "{token}");
    }
}

/// The outer layer may be set to refund what the inner one refused.
#[tokio::test]
async fn an_outer_layer_may_give_back_what_an_inner_one_refused() {
    let refund =
        |layer: GateLayer| layer.settle(|status, _| if status == 429 { Settlement::Refund } else { Settlement::Keep });
    let two = two("4/h", "1/h", refund).await;
    for (token, status, left) in
        [("a", "200", (3, 0)), ("a", "429", (3, 0)), ("a", "429", (3, 0)), ("b", "200", (2, 0))]
    {
        let answer = two.ask(token).await;
        assert_eq!((&answer[9..12], two.left(token)), (status, left), "{token}");
    }
    let answer = two.ask("a").await;
    assert_eq!(lines(&answer, "ratelimit")[1], "\"4/h\";r=2;t=3600", "what is told is what is left after that");
}
