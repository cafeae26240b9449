//! Malicious header fields, and more origins than are remembered.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Response};
use tollgate_random::Rng;
use tower::ServiceExt;

use super::{ScriptedService, answer, get, held};
use crate::client::ObeyLayer;
use crate::testing::TestClock;

const HERE: &str = "http://a.example/";

const NAMES: [&str; 10] = [
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "date",
    "age",
];

/// The pieces of which fields are made, valid and invalid.
const PIECES: [&str; 26] = [
    "0",
    "1",
    "9",
    "60",
    "4294967296",
    "999999999999999",
    "18446744073709551616",
    "-1",
    "1.5",
    "\"a\"",
    "\"b\"",
    ";r=0",
    ";t=1",
    ";t=",
    ";r=",
    "remaining=0",
    "reset=",
    ", ",
    ";",
    "=",
    " ",
    ":YQ==:",
    "(",
    ")",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Tue, 14 Nov 2023 22:13:20 GMT",
];

/// Valid fields, in which `#` stands for a number.
const FORMS: [(&str, &str); 6] = [
    ("retry-after", "#"),
    ("ratelimit", r#""a";r=0;t=#"#),
    ("ratelimit", r#""a";r=#;t=60, "b";r=0;t=#"#),
    ("ratelimit", "limit=1, remaining=0, reset=#"),
    ("x-ratelimit-remaining", "0"),
    ("x-ratelimit-reset", "#"),
];

fn hostile(rng: &mut Rng) -> Response<()> {
    let status = rng.pick(&[200, 429, 503, 301, 500, 429]);
    let mut response = answer(status, &[]);
    for _ in 0..rng.below(4) {
        let (name, form) = rng.pick(&FORMS);
        let value = form.replace('#', PIECES[rng.index(7)]).parse().unwrap();
        response.headers_mut().append(HeaderName::from_static(name), value);
    }
    for _ in 0..rng.below(3) {
        // Fields of caches make a response be ignored, so they are chosen rarely.
        let few = usize::from(rng.below(8) > 0);
        let name = NAMES[rng.index(NAMES.len() - few)];
        let mut value = Vec::new();
        for _ in 0..rng.below(8) {
            match rng.below(20) {
                0 => value.push(rng.next_u64() as u8),
                1 => value.extend(std::iter::repeat_n(b'9', rng.index(200))),
                _ => value.extend_from_slice(rng.pick(&PIECES).as_bytes()),
            }
        }
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            response.headers_mut().append(HeaderName::from_static(name), value);
        }
    }
    response
}

#[tokio::test]
async fn no_field_panics_or_holds_for_longer_than_is_believed() {
    let at_most = Duration::from_secs(600);
    let mut holds = 0;
    for seed in 0..40_000 {
        let mut rng = Rng::new(seed);
        let clock = TestClock::new();
        let layer = ObeyLayer::new().timer(clock.clone()).at_most(at_most).spread(10);
        let service = ScriptedService::new([]);
        let client = service.behind(&layer);
        for _ in 0..4 {
            service.then(hostile(&mut rng));
            if let Some(wait) = held(&client, HERE).await {
                assert!(wait <= at_most, "seed {seed}: {wait:?}");
                holds += 1;
                clock.advance(at_most);
                assert_eq!(held(&client, HERE).await, None, "seed {seed}");
            }
        }
    }
    assert!(holds > 10_000, "some of them are meant to hold: {holds}");
}

#[tokio::test]
async fn of_a_hundred_thousand_origins_no_more_are_remembered_than_may() {
    let layer = ObeyLayer::new().timer(TestClock::new());
    let service = ScriptedService::new([]);
    let client = service.behind(&layer);
    for origin in 0..100_000 {
        service.then(answer(200, &[("ratelimit", r#""a";r=0;t=60"#)]));
        let uri = format!("http://{origin}.example/");
        assert_eq!(held(&client, &uri).await, None);
        assert!(layer.keys() <= 1_024);
        if origin % 1_000 == 0 {
            assert_eq!(held(&client, &uri).await, Some(Duration::from_secs(60)), "the last is remembered");
        }
    }
}

#[tokio::test]
async fn limits_of_one_origin_are_bounded_too() {
    let clock = TestClock::new();
    let layer = ObeyLayer::new().timer(clock.clone());
    let service = ScriptedService::new([]);
    let client = service.behind(&layer);
    for number in 0..10_000 {
        service.then(answer(200, &[("ratelimit", &format!(r#""limit {number}";r=1000000;t=60"#))]));
        assert_eq!(held(&client, HERE).await, None);
    }
    // A tight limit is obeyed all the same.
    service.then(answer(200, &[("ratelimit", r#""tight";r=0;t=60"#)]));
    assert_eq!(held(&client, HERE).await, None);
    assert_eq!(held(&client, HERE).await, Some(Duration::from_secs(60)));
}

#[tokio::test]
async fn those_whose_hold_is_over_are_forgotten_first_then_those_whose_hold_ends_first() {
    let clock = TestClock::new();
    let layer = ObeyLayer::new().timer(clock.clone()).most_keys(3);
    let service = ScriptedService::new([]);
    let client = service.behind(&layer);
    let hold = async |origin: &str, seconds: u64| {
        service.then(answer(429, &[("retry-after", &seconds.to_string())]));
        assert_eq!(held(&client, origin).await, None);
    };
    let (a, b, c, d, e) = ("http://a/", "http://b/", "http://c/", "http://d/", "http://e/");
    hold(a, 100).await;
    hold(b, 1).await;
    hold(c, 50).await;
    clock.advance(Duration::from_secs(1));
    hold(d, 70).await;
    assert_eq!(layer.keys(), 3);
    assert!(held(&client, a).await.is_some() && held(&client, c).await.is_some() && held(&client, d).await.is_some());
    // All three hold; that of c ends first.
    hold(e, 80).await;
    assert_eq!(layer.keys(), 3);
    assert!(held(&client, a).await.is_some() && held(&client, d).await.is_some() && held(&client, e).await.is_some());
    assert_eq!(held(&client, c).await, None);
}

#[tokio::test]
async fn a_key_with_requests_in_flight_is_not_forgotten_for_another() {
    let layer = ObeyLayer::new().timer(TestClock::new()).most_keys(1);
    let silence = tower::service_fn(|_: http::Request<()>| {
        std::future::pending::<Result<Response<()>, std::convert::Infallible>>()
    });
    let mut flying = Box::pin(tower::Layer::layer(&layer, silence).oneshot(get("http://a/")));
    assert!(futures_util::poll!(&mut flying).is_pending());
    let service = ScriptedService::new([answer(429, &[("retry-after", "60")]), answer(429, &[("retry-after", "60")])]);
    let client = service.behind(&layer);
    assert_eq!(held(&client, "http://b/").await, None);
    assert_eq!((held(&client, "http://b/").await, layer.keys()), (None, 1), "there is no place to remember it at");
    drop(flying);
    service.then(answer(429, &[("retry-after", "60")]));
    assert_eq!(held(&client, "http://b/").await, None);
    assert_eq!((held(&client, "http://b/").await, layer.keys()), (Some(Duration::from_secs(60)), 1));
}
