//! The client's layer against Tollgate's own layer, over the network: a client that obeys is never refused.

use std::time::Duration;

use axum::Router;
use axum::http::header::RETRY_AFTER;
use axum::response::IntoResponse;
use axum::routing::get;
use http::StatusCode;
use tollgate_kernel::Micros;
use tower::{Layer, ServiceExt};

use super::network::{ResponseCounts, ask, call, date, gated, http, once, serve};
use crate::client::{ObeyError, ObeyLayer};
use crate::testing::TestClock;
use crate::{HeaderDialect, HeaderFields, Reset};

const DIALECTS: [(&str, HeaderDialect); 6] = [
    ("draft-10", HeaderDialect::Draft10),
    ("draft-8", HeaderDialect::Draft8),
    ("draft-7", HeaderDialect::Draft7),
    ("draft-6", HeaderDialect::Draft6),
    ("x-ratelimit", HeaderDialect::XRateLimit(Reset::Delta)),
    ("x-ratelimit-unix", HeaderDialect::XRateLimit(Reset::Unix)),
];

const POLICIES: [&str; 2] = ["10/s, 100/min", "20/s gcra burst=40"];

#[tokio::test]
async fn ten_thousand_requests_that_obey_are_all_served_in_every_dialect() {
    for (seed, (name, dialect)) in DIALECTS.into_iter().enumerate() {
        for policy in POLICIES {
            let clock = TestClock::new();
            let to = gated(&clock, policy, HeaderFields::new([dialect.clone()])).await;
            let client = ObeyLayer::new().longest(Duration::from_secs(3_600)).timer(clock.clone()).layer(http());
            // Before the first answer nothing is known.
            assert_eq!(once(client.clone(), to).await.0, StatusCode::OK);
            let met = call(client, to, 20, 500, &clock, seed as u64).await;
            assert_eq!(met, ResponseCounts { served: 10_000, refused: 0 }, "{name}, {policy}, seed {seed}");
        }
    }
}

#[tokio::test]
async fn without_the_layer_most_are_refused() {
    let clock = TestClock::new();
    let to = gated(&clock, POLICIES[0], HeaderFields::default()).await;
    let met = call(http(), to, 20, 50, &clock, 1).await;
    assert_eq!(met.served + met.refused, 1_000);
    assert!(met.refused > 500, "{met:?}");
}

/// Only `Retry-After` is reported, and time passes exactly to the moment that it names.
#[tokio::test]
async fn at_the_moment_that_retry_after_names_no_request_is_refused() {
    let clock = TestClock::new();
    let to = gated(&clock, "7/13s sliding, 3/2s gcra", HeaderFields::new([])).await;
    let client = ObeyLayer::new().timer(clock.clone()).layer(http());
    let (mut refused, mut after_a_hold) = (0, 0);
    for turn in 0..2_000_u64 {
        clock.advance(Micros::new(turn * 7_919 % 300_000));
        match client.clone().oneshot(ask(to)).await {
            Ok(response) if response.status() == StatusCode::OK => {}
            Ok(response) => {
                assert!(response.headers().contains_key(RETRY_AFTER));
                refused += 1;
            }
            Err(ObeyError::Held { retry_after }) => {
                clock.advance(retry_after);
                assert_eq!(once(client.clone(), to).await.0, StatusCode::OK, "turn {turn}");
                after_a_hold += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 100 && after_a_hold > 100, "{refused} {after_a_hold}");
}

#[tokio::test]
async fn retry_after_as_a_date_counts_by_the_clock_of_the_service() {
    let clock = TestClock::new();
    // By this machine's clock that date is long past.
    let until = date(&clock, 90);
    let refuse = move || async move { (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, until)]).into_response() };
    let to = serve(&clock, Router::new().route("/", get(refuse))).await;
    let client = ObeyLayer::new().timer(clock.clone()).layer(http());
    assert_eq!(once(client.clone(), to).await.0, StatusCode::SERVICE_UNAVAILABLE);
    match client.oneshot(ask(to)).await {
        Err(ObeyError::Held { retry_after }) => assert_eq!(retry_after, Duration::from_secs(90)),
        other => panic!("{other:?}"),
    }
}
