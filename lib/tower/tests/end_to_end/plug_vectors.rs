//! PlugLimit's vectors through the whole layer: statuses and headers, byte for byte, by a clock that shows their time.

use std::convert::Infallible;

use http::request::Parts;
use http::{Request, Response};
use serde_json::Value;
use tollgate_kernel::Timestamp;
use tollgate_tower::key_fn;
use tollgate_tower::plug::{PlugError, PlugLayer};
use tollgate_tower::testing::{TestClock, request};
use tower::Layer;

const NAMES: [&str; 4] = ["x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-remaining", "retry-after"];

/// The numbers of scenarios and requests that were replayed.
#[derive(Debug, Default, PartialEq, Eq)]
struct ReplayCounts {
    scenarios: usize,
    wrong_policies: usize,
    passed: usize,
    stopped: usize,
    /// The vectors of these contain only the decision.
    without_headers: usize,
}

/// The key of a request: the bytes that its header has in hexadecimal, since a vector's key may be any bytes.
fn key(parts: &Parts) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let pairs = parts.headers.get("x-key")?.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?)).collect()
}

/// The key of a vector, in hexadecimal.
fn hex(vector: &Value) -> String {
    match vector["key"].as_str() {
        Some(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        None => vector["key_hex"].as_str().unwrap().to_owned(),
    }
}

fn layer(clock: &TestClock, limiter: &str, policy: &Value) -> Result<PlugLayer, PlugError> {
    let names: &[&str] =
        if limiter == "fixed_window" { &["limit", "window_s"] } else { &["limit", "window_s", "burst"] };
    let opts = names.iter().map(|name| policy[*name].to_string());
    clock.limiters().plug(limiter).opts(opts).key(key_fn(key)).build()
}

async fn play(limiter: &str, text: &str) -> ReplayCounts {
    let clock = TestClock::new();
    let service = tower::service_fn(|_: Request<String>| async { Ok::<_, Infallible>(Response::new(String::new())) });
    let (mut played, mut app) = (ReplayCounts::default(), None);
    for (index, line) in text.lines().enumerate() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let place = format!("{limiter}, line {}", index + 1);
        if vector.get("scenario").is_some() {
            played.scenarios += 1;
            // A new store for each, and the clock with it.
            let layer = layer(&clock, limiter, &vector["policy"]);
            let wrong = vector.get("policy_error") == Some(&Value::Bool(true));
            assert_eq!(layer.is_err(), wrong, "{place}");
            played.wrong_policies += usize::from(wrong);
            app = layer.ok().map(|layer| layer.layer(service));
            continue;
        }
        clock.set(Timestamp::new(vector["t"].as_u64().unwrap() * 1_000).unwrap());
        let asked = request("/").header("x-key", &hex(&vector)).ask(app.as_ref().unwrap());
        let answered = asked.await.unwrap();
        let expect = &vector["expect"];
        let allowed = expect["result"] == "allow";
        assert_eq!(answered.status, if allowed { 200 } else { 429 }, "{place}");
        let (kind, body) = if allowed { (None, "") } else { (Some("text/plain"), "Too Many Requests") };
        assert_eq!((answered.header("content-type"), &answered.body[..]), (kind, body.as_bytes()), "{place}");
        played.passed += usize::from(allowed);
        played.stopped += usize::from(!allowed);
        let Some(headers) = expect["headers"].as_array() else {
            played.without_headers += 1;
            continue;
        };
        let told: Vec<_> = NAMES.iter().map(|name| answered.header(name)).collect();
        let expected: Vec<_> = (0..NAMES.len()).map(|place| headers.get(place).and_then(Value::as_str)).collect();
        assert_eq!(told, expected, "{place}");
        assert_eq!(answered.headers.len(), headers.len() + usize::from(!allowed), "{place}: {:?}", answered.headers);
    }
    played
}

#[tokio::test]
async fn plug_vectors_of_the_fixed_window() {
    let text = include_str!("../../../../tests/conformance/vectors/plug_fixed_window.jsonl");
    let played = play("fixed_window", text).await;
    println!("{played:?}");
    assert_eq!(played.scenarios + played.passed + played.stopped, text.lines().count());
    assert!(played.passed > 200 && played.stopped > 200 && played.wrong_policies > 0, "{played:?}");
}

#[tokio::test]
async fn plug_vectors_of_the_token_bucket() {
    let text = include_str!("../../../../tests/conformance/vectors/plug_token_bucket.jsonl");
    let played = play("token_bucket", text).await;
    println!("{played:?}");
    assert_eq!(played.scenarios + played.passed + played.stopped, text.lines().count());
    assert!(played.passed > 200 && played.stopped > 200 && played.wrong_policies > 0, "{played:?}");
}
