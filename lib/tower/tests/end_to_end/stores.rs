//! One random scenario over every store: the same statuses, the same fields, the same bytes.

use std::time::Duration;

use http::request::Parts;
use tollgate::{DEFAULT_CAP, Gate, ManualClock, Memory};
use tollgate_kernel::{Micros, Policy};
use tollgate_kit::{Cluster, Server};
use tollgate_random::Rng;
use tollgate_tower::{GateLayer, Limiter, PathKey, Settlement};

use crate::support::homes::{begin, store, tollgate};
use crate::support::in_process;

/// Periods so long that the seconds of a test give nothing back.
const POLICIES: [&str; 3] =
    ["12/30d", "12/30d gcra burst=12 name=steady, 40/60d fixed name=month", "25/30d bucket burst=9"];
const REQUESTS: usize = 200;

/// A request: its key, its cost, and how it ends.
struct Row {
    path: String,
    pause: Micros,
}

fn rows(seed: u64) -> Vec<Row> {
    let mut rng = Rng::new(seed);
    let row = |_| Row {
        path: format!("/{}?cost={}&fails={}", rng.within(1, 5), rng.pick(&[0, 1, 1, 1, 2, 3, 20]), rng.one_in(6)),
        pause: Micros::new(rng.within(0, 2_000)),
    };
    (0..REQUESTS).map(row).collect()
}

fn query<'a>(parts: &'a Parts, name: &str) -> &'a str {
    let pairs = parts.uri.query().unwrap().split('&');
    pairs.filter_map(|pair| pair.split_once('=')).find(|(own, _)| *own == name).unwrap().1
}

/// What the client sees of all of it, with or without times.
async fn play(limiter: Limiter, seed: u64, clock: &ManualClock, times: bool) -> Vec<String> {
    let layer = GateLayer::new(limiter)
        .key(PathKey::segments(1))
        .cost(|parts| query(parts, "cost").parse().unwrap())
        .settle(|status, _| if status.is_server_error() { Settlement::Refund } else { Settlement::Keep });
    let service = tower::service_fn(async |request: http::Request<()>| {
        let fails = query(&request.into_parts().0, "fails") == "true";
        let status = if fails { 500 } else { 200 };
        let answer = http::Response::builder().status(status).body(http_body_util::Empty::<bytes::Bytes>::new());
        Ok::<_, std::convert::Infallible>(answer.unwrap())
    });
    let mut service = tower::Layer::layer(&layer, service);
    let mut seen = Vec::new();
    for row in rows(seed) {
        clock.advance(row.pause);
        let (head, body) = in_process::ask(&mut service, in_process::get(&row.path)).await.into_parts();
        let mut told = format!("{} {}\n", row.path, head.status);
        for (name, value) in &head.headers {
            let value = value.to_str().unwrap();
            told += &match times {
                true => format!("{name}: {value}\n"),
                false if name == "retry-after" => format!("{name}: N\n"),
                false => format!("{name}: {}\n", without_times(value)),
            };
        }
        let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        told += std::str::from_utf8(&body).unwrap();
        seen.push(told);
    }
    seen
}

/// `"12/30d";r=3;t=86400` without the seconds.
fn without_times(value: &str) -> String {
    let mut parts = value.split(";t=");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += ";t=N";
        text += part.trim_start_matches(|digit: char| digit.is_ascii_digit());
    }
    text
}

fn same(name: &str, policy: &str, expected: &[String], found: &[String]) {
    assert_eq!(expected.len(), found.len());
    for (place, (expected, found)) in expected.iter().zip(found).enumerate() {
        assert_eq!(expected, found, "{name}, {policy}, request {place}");
    }
}

#[tokio::test]
async fn all_stores_answer_alike() {
    let redis = Server::start().unwrap();
    let clock = begin();
    let (_server, url) = tollgate(&clock);
    for (seed, text) in (1..).zip(POLICIES) {
        let policy: Policy = text.parse().unwrap();
        let gate = |clock: &ManualClock| Gate::builder().value(policy.clone()).clock(clock.clone()).build().unwrap();
        let own = begin();
        let expected = play(gate(&own).into(), seed, &own, true).await;
        // The scenario contains requests that pass, that are refused for a while and forever, and refunds.
        for what in [" 200 OK", " 429 ", "retry-after: ", " 500 "] {
            assert!(expected.iter().any(|told| told.contains(what)), "{text}: no {what:?}");
        }
        let own = begin();
        let memory = Memory::with_clock(DEFAULT_CAP, Box::new(own.clone()));
        same("memory", text, &expected, &play(Limiter::over(memory, policy.clone()), seed, &own, true).await);
        // By a clock of the test's, too: all the bytes are the same.
        let remote = play(Limiter::over(store(&url).await, policy.clone()), seed, &clock, true).await;
        same("tollgate", text, &expected, &remote);
        // By a clock that runs: all but the times.
        let expected = play(gate(&begin()).into(), seed, &begin(), false).await;
        let remote = play(Limiter::over(store(&redis.url()).await, policy.clone()), seed, &begin(), false).await;
        same("redis", text, &expected, &remote);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_answers_like_the_embedded_store() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start().unwrap()).await.unwrap();
    let nodes: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    let url = format!("redis+cluster://{}", nodes.join(","));
    let store = tollgate::redis::Redis::builder(&url).deadline(Duration::from_secs(20)).connect().await.unwrap();
    for (seed, text) in (1..).zip(POLICIES) {
        let policy: Policy = text.parse().unwrap();
        let gate = Gate::builder().value(policy.clone()).clock(begin()).build().unwrap();
        let expected = play(gate.into(), seed, &begin(), false).await;
        let found = play(Limiter::over(store.clone(), policy), seed, &begin(), false).await;
        same("cluster", text, &expected, &found);
    }
}
