//! A store that does not answer.

use std::net::TcpListener;

use serde_json::json;
use tollgate_kernel::{OnError, Policy};
use tollgate_redis::Redis;

use super::client::{HttpTestOptions, HttpTestServer, tested_with};
use tollgate_engine::Home;

/// Returns a server whose store is at a port without a listener.
fn without_store() -> HttpTestServer {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let redis = Redis::builder(&format!("redis://127.0.0.1:{port}")).lazy().unwrap();
    let policies = [("usual", OnError::Local), ("open", OnError::Allow), ("closed", OnError::Deny)];
    let policies = policies.map(|(name, on_error)| {
        let policy: Policy = "100/min".parse().unwrap();
        policy.with_name(name).unwrap().with_on_error(on_error)
    });
    tested_with(HttpTestOptions {
        home: Some(Home::redis(redis)),
        policies: policies.into(),
        ..HttpTestOptions::default()
    })
}

#[tokio::test]
async fn decisions_say_who_made_them() {
    let tested = without_store();
    for (policy, allowed, source) in
        [("100/min", true, "local"), ("usual", true, "local"), ("open", true, "open"), ("closed", false, "closed")]
    {
        let body = format!(r#"{{"key": "a", "policy": "{policy}"}}"#);
        let told = tested.post("/v1/check", &body).await.json();
        assert_eq!((&told["allowed"], &told["source"]), (&json!(allowed), &json!(source)), "{policy}");
        let told = tested.post("/v1/batch", &format!(r#"{{"items": [{body}, {body}]}}"#)).await.json();
        for decision in told["decisions"].as_array().unwrap() {
            assert_eq!((&decision["allowed"], &decision["source"]), (&json!(allowed), &json!(source)), "{policy}");
        }
        let told = tested.get(&format!("/v1/gate?policy={policy}")).await;
        assert_eq!((told.status == 200, told.header("tollgate-source")), (allowed, Some(source)), "{policy}");
    }
    // Every decision of that kind is in the metrics.
    let metrics = tested.get("/metrics").await.text();
    let series = |series: &str| metrics.lines().any(|line| line == series);
    for (policy, source, count) in
        [("100/min", "local", 4), ("usual", "local", 4), ("open", "open", 4), ("closed", "closed", 4)]
    {
        let line = format!("tollgate_standin_decisions_total{{policy=\"{policy}\",source=\"{source}\"}} {count}");
        assert!(series(&line), "{line}\n{metrics}");
    }
    assert!(metrics.contains("tollgate_redis_decisions_total{source=\"local\"} "), "{metrics}");
}

#[tokio::test]
async fn what_nobody_can_stand_in_for_is_unavailable() {
    let tested = without_store();
    let told =
        tested.post_as("refund", "/v1/refund", r#"{"key": "a", "policy": "9/min", "units": 1, "at_us": 1}"#).await;
    assert_eq!((told.status, told.header("retry-after")), (503, Some("1")));
    told.problem();
    let told = tested.post_as("reset", "/v1/reset", r#"{"key": "a", "policy": "9/min"}"#).await;
    assert_eq!(told.status, 503);
}

#[tokio::test]
async fn a_server_without_its_store_stays_ready_and_says_so() {
    let tested = without_store();
    for _ in 0..3 {
        let told = tested.get("/readyz").await;
        assert_eq!((told.status, told.text().as_str()), (200, "ready, deciding in the store's place\n"));
    }
    assert_eq!(tested.get("/healthz").await.status, 200);
}

#[tokio::test]
#[ignore = "needs redis-server: cargo xtask test"]
async fn with_redis_a_server_whose_store_takes_no_charges_says_that_it_decides_itself() {
    let redis = tollgate_kit::Server::start().unwrap();
    let store = Redis::builder(&redis.url()).deadline(std::time::Duration::from_secs(10)).connect().await.unwrap();
    let tested = tested_with(HttpTestOptions { home: Some(Home::redis(store)), ..HttpTestOptions::default() });
    assert_eq!(tested.get("/readyz").await.text(), "ready\n");
    let mut there = redis.connection().unwrap();
    let mut set = |name: &str, value: &str| {
        redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec(&mut there).unwrap();
    };
    set("maxmemory", "1");
    let told = tested.post("/v1/check", r#"{"key": "a", "policy": "9/min"}"#).await.json();
    assert_eq!(told["source"], "local", "the store is out of memory");
    assert_eq!(tested.get("/readyz").await.text(), "ready, deciding in the store's place\n");
    set("maxmemory", "0");
    assert_eq!(tested.get("/readyz").await.text(), "ready\n");
}
