//! A request that waits as long as `Retry-After` says always passes; one that comes a microsecond before the exact wait
//! does not. Random limits of all algorithms, on a clock that the test moves.

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use tollgate::Gate;
use tollgate_kernel::{Micros, Mode, Policy};
use tollgate_random::Rng;
use tollgate_tower::testing::TestClock;
use tollgate_tower::{GateLayer, HeaderDialect, HeaderFields, Reset};

use crate::support::web::{Client, serve};
use crate::support::{field, in_process};

/// A random limit of the algorithm at `place`. Periods are odd, so that nothing falls on whole seconds.
fn limit(rng: &mut Rng, place: usize, name: usize) -> String {
    let count = rng.within(1, 20);
    let unit = rng.pick(&["ms", "ms", "s", "s", "min", "h"]);
    let long = match unit {
        "ms" => rng.within(20, 5_000),
        "s" => rng.within(1, 90),
        _ => rng.within(1, 5),
    };
    let period = format!("{long}{unit}");
    let tenth = match unit {
        "ms" => format!("{}us", long * 100),
        "s" => format!("{}ms", long * 100),
        "min" => format!("{}s", long * 6),
        _ => format!("{}min", long * 6),
    };
    let burst = rng.within(1, count);
    let rest = match place {
        0 => String::new(),
        1 => format!(" gcra burst={burst}"),
        2 => " fixed".to_owned(),
        3 => " fixed align=clock".to_owned(),
        4 => format!(" bucket burst={burst}"),
        5 => format!(" slots resolution={tenth}"),
        6 => " estimate".to_owned(),
        7 => format!(" decay factor={}", rng.pick(&["1.5", "2", "3.25"])),
        _ => format!(" spacing={}us", rng.within(1, 10_000)),
    };
    format!("{count}/{period}{rest} name=limit{name}")
}

const KINDS: usize = 9;

fn policy(rng: &mut Rng) -> (String, Policy) {
    loop {
        let limits: Vec<String> = (0..rng.within(1, 3) as usize)
            .map(|name| {
                let place = rng.within(0, KINDS as u64 - 1) as usize;
                limit(rng, place, name)
            })
            .collect();
        let text = limits.join(", ");
        // Some options do not go together with some numbers: those are no policies.
        if let Ok(policy) = text.parse() {
            return (text, policy);
        }
    }
}

#[test]
fn every_kind_of_limit_is_among_the_policies() {
    let mut rng = Rng::new(1);
    for place in 0..KINDS {
        let good = (0..50).filter(|_| limit(&mut rng, place, 0).parse::<Policy>().is_ok()).count();
        assert!(good > 5, "kind {place}: {good} of 50 are policies");
    }
}

/// 10,000 refusals, each obeyed to the second.
#[test]
fn whoever_obeys_retry_after_is_not_refused_then() {
    let (mut refusals, mut early, mut seed) = (0, 0, 0);
    while refusals < 10_000 {
        seed += 1;
        assert!(seed < 5_000, "expected more refusals, found {refusals}");
        let mut rng = Rng::new(seed);
        let (text, policy) = policy(&mut rng);
        let uniform = rng.one_in(5);
        let policy = if uniform { policy.with_mode(Mode::Uniform) } else { policy };
        let fields = HeaderFields::new([HeaderDialect::Draft10, HeaderDialect::XRateLimit(Reset::Unix)]).exact();
        let fields = if rng.one_in(4) { fields.jitter(10) } else { fields };
        let clock = TestClock::new();
        let gate = Gate::builder().value(policy.clone()).clock(clock.clone()).build().unwrap();
        let costly = policy.limits().iter().map(|limit| limit.count()).min().unwrap().min(4);
        let layer = GateLayer::new(gate)
            .headers(fields)
            .cost(|parts| parts.uri.query().map_or(1, |cost| cost.parse().unwrap()));
        let mut service = in_process::gated(&layer);
        let mut obeyed = 0;
        for _ in 0..400 {
            if obeyed == 20 {
                break;
            }
            let path = format!("/?{}", rng.within(1, costly));
            let answer = in_process::now(&mut service, in_process::get(&path));
            if answer.status() == StatusCode::OK {
                assert_eq!(field(answer.headers(), "retry-after"), None, "seed {seed}: {text}");
                clock.advance(Micros::new(rng.within(0, 300_000)));
                continue;
            }
            assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
            let exact: i64 = field(answer.headers(), "tollgate-retry-after-us").unwrap().parse().unwrap();
            // The cost exceeds the limit, so no wait is reported.
            let Some(seconds) = field(answer.headers(), "retry-after") else {
                assert_eq!(exact, -1, "seed {seed}: {text}");
                clock.advance(Micros::from_millis(500));
                continue;
            };
            let (exact, told) = (exact as u64, seconds.parse::<u64>().unwrap() * 1_000_000);
            assert!(exact <= told && exact > 0, "seed {seed}: {text}: {exact} {told}");
            // A refusal that is counted changes the state, so the moment just before cannot be tested.
            if !uniform && rng.one_in(2) {
                clock.advance(Micros::new(exact - 1));
                let answer = in_process::now(&mut service, in_process::get(&path));
                assert_eq!(answer.status(), 429, "seed {seed}: {text}: passes before {exact} us");
                clock.advance(Micros::new(told - (exact - 1)));
                early += 1;
            } else {
                clock.advance(Micros::new(told));
            }
            let answer = in_process::now(&mut service, in_process::get(&path));
            assert_eq!(answer.status(), 200, "seed {seed}: {text} {path}: refused {seconds} s later");
            (refusals, obeyed) = (refusals + 1, obeyed + 1);
        }
    }
    assert!(early > 2_000, "{early}");
}

/// A bucket starts over at the end of its window, with fewer units than before. A request that needs more than it
/// starts with, and whose wait in whole seconds would end after the window, gets no wait.
#[test]
fn nobody_is_told_a_second_in_which_a_bucket_has_started_over() {
    for (cost, told) in [(2, Some("2")), (5, Some("6")), (8, None), (9, None)] {
        let clock = TestClock::new();
        let gate = clock.gate("10/10500ms bucket burst=2").unwrap();
        let cost_of = move |parts: &http::request::Parts| if parts.uri.path() == "/" { 1 } else { cost };
        let mut service = in_process::gated(&GateLayer::new(gate).cost(cost_of));
        in_process::now(&mut service, in_process::get("/"));
        let answer = in_process::now(&mut service, in_process::get("/costly"));
        assert_eq!(
            (answer.status().as_u16(), field(answer.headers(), "retry-after").as_deref()),
            (429, told),
            "{cost}"
        );
        let Some(seconds) = told else { continue };
        clock.advance(Micros::from_secs(seconds.parse().unwrap()));
        assert_eq!(in_process::now(&mut service, in_process::get("/costly")).status(), 200, "{cost}");
    }
}

/// The same over sockets, with what a client sees.
#[tokio::test]
async fn whoever_obeys_over_a_socket_is_not_refused_either() {
    for seed in 0..20 {
        let mut rng = Rng::new(0xbeef + seed);
        let (text, policy) = policy(&mut rng);
        let clock = TestClock::new();
        let gate = Gate::builder().value(policy).clock(clock.clone()).build().unwrap();
        let server = serve(Router::new().route("/", get(async || "hello")).layer(GateLayer::new(gate))).await;
        let mut client = Client::connect(server.addr).await;
        let mut obeyed = 0;
        for _ in 0..200 {
            let (status, headers, _) = client.get("/", &[]).await;
            if status == 200 {
                continue;
            }
            let seconds: u64 = field(&headers, "retry-after").unwrap().parse().unwrap();
            clock.advance(Micros::from_secs(seconds));
            let (status, _, body) = client.get("/", &[]).await;
            assert_eq!((status.as_u16(), &body[..]), (200, &b"hello"[..]), "seed {seed}: {text}, after {seconds} s");
            obeyed += 1;
            if obeyed == 5 {
                break;
            }
        }
        assert_eq!(obeyed, 5, "seed {seed}: {text}");
    }
}
