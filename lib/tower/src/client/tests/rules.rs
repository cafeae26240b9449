//! Which responses are obeyed, and for how long.

use std::time::{Duration, SystemTime};

use http::Response;
use tower::ServiceExt;

use super::{ScriptedService, answer, get, held};
use crate::client::{ObeyError, ObeyLayer};
use crate::testing::TestClock;

const HERE: &str = "http://a.example/";
const DATE: &str = "Tue, 14 Nov 2023 22:13:20 GMT";

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

/// Returns how long the request after these answers is held.
async fn after(answers: impl IntoIterator<Item = Response<()>>) -> Option<Duration> {
    let answers: Vec<_> = answers.into_iter().collect();
    let count = answers.len();
    let service = ScriptedService::new(answers);
    let client = service.behind(&ObeyLayer::new().timer(TestClock::new()));
    for _ in 0..count {
        assert_eq!(held(&client, HERE).await, None);
    }
    held(&client, HERE).await
}

#[tokio::test]
async fn each_form_holds_for_as_long_as_it_says() {
    type Row<'a> = (u16, &'a [(&'static str, &'a str)], Option<u64>);
    let rows: &[Row<'_>] = &[
        (200, &[], None),
        (429, &[], None),
        // Retry-After
        (429, &[("retry-after", "5")], Some(5)),
        (503, &[("retry-after", "5")], Some(5)),
        (429, &[("retry-after", "0")], None),
        (200, &[("retry-after", "5")], None),
        (301, &[("retry-after", "5")], None),
        (500, &[("retry-after", "5")], None),
        (429, &[("retry-after", "soon")], None),
        (429, &[("retry-after", "-5")], None),
        (503, &[("retry-after", "Tue, 14 Nov 2023 22:15:00 GMT"), ("date", DATE)], Some(100)),
        (503, &[("retry-after", "Tue, 14 Nov 2023 22:13:00 GMT"), ("date", DATE)], None),
        // What is left
        (200, &[("ratelimit", r#""a";r=0;t=7"#)], Some(7)),
        (404, &[("ratelimit", r#""a"; r=0; t=7"#)], Some(7)),
        (200, &[("ratelimit", r#""a";r=0"#)], None),
        (200, &[("ratelimit", r#""a";r=0;t=0"#)], None),
        (200, &[("ratelimit", r#""a";r=1;t=7"#)], None),
        (200, &[("ratelimit", r#""a";r=1;t=7, "b";r=0;t=3"#)], Some(3)),
        (200, &[("ratelimit", r#""a";r=0;t=7, "b";r=0;t=30"#)], Some(30)),
        (200, &[("ratelimit", r#""a";r=0;t=7"#), ("ratelimit", r#""b";r=0;t=30"#)], Some(30)),
        (200, &[("ratelimit", "limit=10, remaining=0, reset=7")], Some(7)),
        (200, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "7")], Some(7)),
        (200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7")], Some(7)),
        (200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700000009"), ("date", DATE)], Some(9)),
        (200, &[("ratelimit", r#""a";r=0;t=7, nonsense("#)], None),
        // Retry-After takes precedence
        (429, &[("retry-after", "5"), ("ratelimit", r#""a";r=0;t=60"#)], Some(5)),
        (429, &[("retry-after", "60"), ("ratelimit", r#""a";r=0;t=5"#)], Some(60)),
        (200, &[("retry-after", "5"), ("ratelimit", r#""a";r=0;t=60"#)], Some(60)),
        // Caches
        (200, &[("ratelimit", r#""a";r=0;t=7"#), ("age", "1")], None),
        (503, &[("retry-after", "5"), ("age", "0")], Some(5)),
        // No longer than an hour
        (429, &[("retry-after", "86400")], Some(3_600)),
        (200, &[("ratelimit", r#""a";r=0;t=999999999999999"#)], Some(3_600)),
    ];
    for (status, fields, expected) in rows {
        let found = after([answer(*status, fields)]).await;
        assert_eq!(found, expected.map(Duration::from_secs), "{status} {fields:?}");
    }
}

#[tokio::test]
async fn what_is_left_is_a_budget() {
    let service = ScriptedService::new([answer(200, &[("ratelimit", r#""a";r=3;t=60"#)])]);
    let clock = TestClock::new();
    let client = service.behind(&ObeyLayer::new().timer(clock.clone()));
    // The responses after the first report nothing, so the first one determines the budget.
    for _ in 0..4 {
        assert_eq!(held(&client, HERE).await, None);
    }
    assert_eq!(held(&client, HERE).await, seconds(60));
    clock.advance(Duration::from_millis(59_999));
    assert_eq!(held(&client, HERE).await, Some(Duration::from_millis(1)));
    clock.advance(Duration::from_millis(1));
    assert_eq!(held(&client, HERE).await, None);
    assert_eq!(service.asked(), 5, "what is held is not sent");
}

#[tokio::test]
async fn requests_in_flight_use_up_what_is_left() {
    let layer = ObeyLayer::new().timer(TestClock::new());
    let client = ScriptedService::new([answer(200, &[("ratelimit", r#""a";r=2;t=60"#)])]).behind(&layer);
    assert_eq!(held(&client, HERE).await, None);
    // Two more, which the service does not answer.
    let silent = layer_over_silence(&layer);
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(silent.clone().oneshot(get(HERE)))).collect();
    for request in &mut waiting {
        assert!(futures_util::poll!(request).is_pending());
    }
    assert_eq!(held(&client, HERE).await, seconds(60));
    // They are dropped without an answer, and may have been counted.
    drop(waiting);
    assert_eq!(held(&client, HERE).await, seconds(60));
}

type SilentService = tower::util::BoxCloneSyncService<http::Request<()>, Response<()>, std::convert::Infallible>;

fn layer_over_silence(layer: &ObeyLayer) -> crate::client::ObeyService<SilentService> {
    let silence = tower::service_fn(|_: http::Request<()>| std::future::pending());
    tower::Layer::layer(layer, tower::util::BoxCloneSyncService::new(silence))
}

#[tokio::test]
async fn a_later_response_replaces_an_earlier_one_of_the_same_limit_and_leaves_the_others() {
    let limit = |text: &str| answer(200, &[("ratelimit", text)]);
    assert_eq!(after([limit(r#""a";r=1;t=60"#), limit(r#""a";r=9;t=60"#)]).await, None);
    assert_eq!(after([limit(r#""a";r=1;t=60"#), limit(r#""a";r=0;t=5"#)]).await, seconds(5));
    assert_eq!(after([limit(r#""a";r=1;t=60"#), limit(r#""b";r=9;t=5"#)]).await, seconds(60));
}

#[tokio::test]
async fn nothing_shortens_what_a_refusal_asked_for() {
    let layer = ObeyLayer::new().timer(TestClock::new());
    let room = answer(200, &[("ratelimit", r#""a";r=9;t=1"#)]);
    let answers = [answer(429, &[("retry-after", "60")]), room, answer(429, &[("retry-after", "5")])];
    let mut client = ScriptedService::new(answers).behind(&layer);
    // All are sent before the refusal is received; the others are answered after it, and may be older than it.
    let sent = [call(&mut client).await, call(&mut client).await, call(&mut client).await];
    for sent in sent {
        assert!(sent.await.is_ok());
        assert_eq!(held(&client, HERE).await, seconds(60));
    }
}

/// Calls the service without waiting for its answer.
async fn call(client: &mut super::Client) -> crate::client::ObeyFuture<super::Answers, ()> {
    tower::Service::call(client.ready().await.unwrap(), get(HERE))
}

#[tokio::test]
async fn origins_do_not_hold_each_other_unless_a_key_joins_them() {
    let refused = || [answer(429, &[("retry-after", "60")])];
    let other = "http://b.example/";
    let client = ScriptedService::new(refused()).behind(&ObeyLayer::new().timer(TestClock::new()));
    assert_eq!(held(&client, HERE).await, None);
    assert_eq!(held(&client, other).await, None);
    assert_eq!(held(&client, HERE).await, seconds(60));

    let layer = ObeyLayer::new().timer(TestClock::new()).key(|_| Some("all".to_owned()));
    let client = ScriptedService::new(refused()).behind(&layer);
    assert_eq!(held(&client, HERE).await, None);
    assert_eq!(held(&client, other).await, seconds(60));

    for keyless in [None, Some("x".repeat(513))] {
        let layer = ObeyLayer::new().timer(TestClock::new()).key(move |_| keyless.clone());
        let client = ScriptedService::new(refused()).behind(&layer);
        assert_eq!(held(&client, HERE).await, None);
        assert_eq!(held(&client, HERE).await, None);
        assert_eq!(layer.keys(), 0);
    }
}

#[tokio::test]
async fn a_spread_lengthens_by_up_to_a_tenth_and_never_shortens() {
    let mut found = Vec::new();
    for _ in 0..200 {
        let service = ScriptedService::new([answer(429, &[("retry-after", "100")])]);
        let client = service.behind(&ObeyLayer::new().timer(TestClock::new()).spread(200));
        assert_eq!(held(&client, HERE).await, None);
        found.push(held(&client, HERE).await.unwrap());
    }
    assert!(found.iter().all(|wait| (Duration::from_secs(100)..=Duration::from_secs(110)).contains(wait)), "{found:?}");
    found.sort();
    found.dedup();
    assert!(found.len() > 100, "clients are spread: {found:?}");
    let longest = ObeyLayer::new().timer(TestClock::new()).spread(10).at_most(Duration::from_secs(100));
    let client = ScriptedService::new([answer(429, &[("retry-after", "100")])]).behind(&longest);
    assert_eq!(held(&client, HERE).await, None);
    assert_eq!(held(&client, HERE).await, seconds(100));
}

#[tokio::test]
async fn a_date_without_a_clock_beside_it_counts_by_this_machines() {
    let until = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(1_800));
    let wait = after([answer(429, &[("retry-after", &until)])]).await.unwrap();
    assert!(wait > Duration::from_secs(900) && wait <= Duration::from_secs(1_800), "{wait:?}");
}

#[test]
fn errors_tell_how_long_and_what_to_do() {
    use std::error::Error;
    let held: ObeyError<std::io::Error> = ObeyError::Held { retry_after: Duration::from_millis(1_500) };
    assert!(held.to_string().contains("for 1.5s; try again then"), "{held}");
    assert_eq!((held.retry_after(), held.source().is_none()), (Some(Duration::from_millis(1_500)), true));
    let full: ObeyError<std::io::Error> = ObeyError::Full { retry_after: Duration::from_secs(1) };
    assert!(full.to_string().contains("most_waiting"), "{full}");
    let inner = ObeyError::Inner(std::io::Error::other("the wire is cut"));
    assert_eq!(inner.source().unwrap().to_string(), "the wire is cut");
    assert_eq!(inner.retry_after(), None);
}
