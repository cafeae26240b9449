//! Stores that fail or hang: who decides then, how soon, what the answer says, and what is logged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;
use tollgate_kernel::{
    Cost, Decision, Detail, Item, Micros, OnError, Policy, Reply, Request, Source, Store, StoreError, Timestamp,
    Together,
};
use tollgate_tower::{Custom, Decide, Deciding, GateLayer, Limiter, Settle};
use tracing::Level;

use crate::support::said::Said;
use crate::support::within::{self, ask, gated};
use crate::support::{field, left};

/// A store that nobody reaches.
pub(crate) struct Away;

fn away<'a, T>() -> Reply<'a, T> {
    Reply::now(Err(StoreError::Away { why: "no route to host".to_owned(), untouched: true }))
}

impl Store for Away {
    fn check<'a>(&'a self, _: &'a Policy, _: &'a [u8], _: Request) -> Reply<'a, Decision> {
        away()
    }
    fn check_full<'a>(&'a self, _: &'a Policy, _: &'a [u8], _: Request) -> Reply<'a, (Decision, Vec<Detail>)> {
        away()
    }
    fn check_many<'a>(&'a self, _: &'a Policy, _: &'a [&'a [u8]], _: Request) -> Reply<'a, Vec<Decision>> {
        away()
    }
    fn check_all<'a>(&'a self, _: &'a [Item<'a>]) -> Reply<'a, Together> {
        away()
    }
    fn reset<'a>(&'a self, _: &'a Policy, _: &'a [u8]) -> Reply<'a, ()> {
        away()
    }
    fn refund<'a>(&'a self, _: &'a Policy, _: &'a [u8], _: Cost, _: Timestamp) -> Reply<'a, u64> {
        away()
    }
}

/// A store that answers the first few questions, and no later one.
struct Hangs {
    home: tollgate::Memory,
    answers: AtomicUsize,
}

impl Hangs {
    fn after(answers: usize) -> Self {
        Self { home: tollgate::Memory::new(tollgate::DEFAULT_CAP), answers: AtomicUsize::new(answers) }
    }

    fn or_hang<'a, T: Send + 'a>(&'a self, reply: impl FnOnce() -> Reply<'a, T>) -> Reply<'a, T> {
        let more = |left: usize| left.checked_sub(1);
        match self.answers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => reply(),
            Err(_) => Reply::later(std::future::pending()),
        }
    }
}

impl Store for Hangs {
    fn check<'a>(&'a self, policy: &'a Policy, key: &'a [u8], request: Request) -> Reply<'a, Decision> {
        self.or_hang(|| Store::check(&self.home, policy, key, request))
    }
    fn check_full<'a>(
        &'a self,
        policy: &'a Policy,
        key: &'a [u8],
        request: Request,
    ) -> Reply<'a, (Decision, Vec<Detail>)> {
        self.or_hang(|| Store::check_full(&self.home, policy, key, request))
    }
    fn check_many<'a>(&'a self, _: &'a Policy, _: &'a [&'a [u8]], _: Request) -> Reply<'a, Vec<Decision>> {
        away()
    }
    fn check_all<'a>(&'a self, _: &'a [Item<'a>]) -> Reply<'a, Together> {
        away()
    }
    fn reset<'a>(&'a self, _: &'a Policy, _: &'a [u8]) -> Reply<'a, ()> {
        away()
    }
    fn refund<'a>(&'a self, policy: &'a Policy, key: &'a [u8], units: Cost, at: Timestamp) -> Reply<'a, u64> {
        self.or_hang(|| Store::refund(&self.home, policy, key, units, at))
    }
}

fn policy(text: &str, on_error: OnError) -> Policy {
    text.parse::<Policy>().unwrap().with_on_error(on_error)
}

#[tokio::test]
async fn the_policy_says_who_decides_and_the_answer_says_who_did() {
    // By the policy, or by the layer whatever the policy says.
    for of_layer in [false, true] {
        let layer = |on_error| {
            let (of_policy, other) = if of_layer { (OnError::Allow, Some(on_error)) } else { (on_error, None) };
            let layer = GateLayer::new(Limiter::over(Away, policy("2/d", of_policy))).log(None);
            other.into_iter().fold(layer, GateLayer::on_error)
        };
        let mut open = gated(&layer(OnError::Allow));
        for _ in 0..5 {
            let answer = ask(&mut open, within::get("/")).await;
            assert_eq!(answer.status(), 200);
            assert_eq!(field(answer.headers(), "tollgate-source").unwrap(), "open");
            assert_eq!(left(answer.headers()), Some(2), "nobody counts");
        }
        let mut closed = gated(&layer(OnError::Deny));
        let answer = ask(&mut closed, within::get("/")).await;
        assert_eq!(field(answer.headers(), "tollgate-source").unwrap(), "closed");
        assert_eq!(field(answer.headers(), "retry-after").unwrap(), "1");
        let (status, body) = within::text(answer);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            body,
            r#"{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"the limits cannot be checked at the moment"}"#
        );
        let mut local = gated(&layer(OnError::Local));
        for (status, remaining) in [(200, 1), (200, 0), (429, 0)] {
            let answer = ask(&mut local, within::get("/")).await;
            assert_eq!((answer.status().as_u16(), left(answer.headers())), (status, Some(remaining)));
            assert_eq!(field(answer.headers(), "tollgate-source").unwrap(), "local");
        }
    }
}

/// Every service that the layer is put on counts together, as with a store that answers: axum puts it on each route.
#[tokio::test]
async fn what_decides_locally_is_shared_by_all_services_of_a_layer() {
    let layer = GateLayer::new(Limiter::over(Away, policy("2/d", OnError::Deny))).on_error(OnError::Local).log(None);
    let (mut one, mut other) = (gated(&layer), gated(&layer));
    assert_eq!(ask(&mut one, within::get("/")).await.status(), 200);
    assert_eq!(ask(&mut other, within::get("/")).await.status(), 200);
    assert_eq!(ask(&mut one, within::get("/")).await.status(), 429);
    assert_eq!(ask(&mut other, within::get("/")).await.status(), 429);
}

/// On tokio's paused clock, which moves by itself when all wait: exactly to the deadline.
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_given_up_at_the_deadline() {
    let deadline = Duration::from_millis(30);
    for (text, on_error, status, source) in [
        ("2/d", OnError::Allow, 200, "open"),
        ("2/d, 9/w", OnError::Local, 200, "local"),
        ("2/d", OnError::Deny, 503, "closed"),
    ] {
        let limiter = Limiter::over(Hangs::after(1), policy(text, on_error));
        let mut service = gated(&GateLayer::new(limiter).deadline(deadline).log(None));
        let answer = ask(&mut service, within::get("/")).await;
        assert_eq!((answer.status().as_u16(), field(answer.headers(), "tollgate-source")), (200, None), "it answers");
        let start = tokio::time::Instant::now();
        let answer = ask(&mut service, within::get("/")).await;
        assert_eq!(start.elapsed(), deadline);
        assert_eq!(answer.status(), status);
        assert_eq!(field(answer.headers(), "tollgate-source").unwrap(), source);
    }
}

/// A response that is there is not kept for longer than that either.
#[tokio::test(start_paused = true)]
async fn a_response_does_not_wait_for_a_store_that_hangs() {
    let deadline = Duration::from_millis(30);
    for settle in [Settle::Refund, Settle::Charge(3)] {
        let (said, _listening) = Said::listen();
        let limiter = Limiter::over(Hangs::after(1), policy("5/d", OnError::Deny));
        let layer = GateLayer::new(limiter).deadline(deadline).settle(move |_, _| settle);
        let mut service = gated(&layer);
        let start = tokio::time::Instant::now();
        let answer = ask(&mut service, within::get("/")).await;
        assert_eq!(start.elapsed(), deadline, "{settle:?}");
        assert_eq!((answer.status().as_u16(), left(answer.headers())), (200, Some(4)), "{settle:?}");
        assert_eq!(said.lines().len(), 1, "{:?}", said.lines());
    }
}

#[tokio::test]
async fn failures_are_logged_at_the_level_that_was_asked_for() {
    for level in
        [Some(Level::ERROR), Some(Level::WARN), Some(Level::INFO), Some(Level::DEBUG), Some(Level::TRACE), None]
    {
        let (said, _listening) = Said::listen();
        let layer = GateLayer::new(Limiter::over(Away, policy("2/d", OnError::Allow))).log(level);
        ask(&mut gated(&layer), within::get("/")).await;
        let lines = said.lines();
        let Some(level) = level else {
            assert!(lines.is_empty(), "{lines:?}");
            continue;
        };
        assert_eq!(lines.len(), 1, "{lines:?}");
        let told = "a limit could not be checked: the store cannot be reached: no route to host";
        assert!(lines[0].contains(level.as_str()) && lines[0].contains(told), "{lines:?}");
        assert!(!lines[0].contains("203.0.113.7"), "the key is nobody's business: {lines:?}");
    }
}

/// A store that is away does not fill a disk.
#[tokio::test]
async fn not_more_than_one_failure_a_second_is_logged() {
    let (said, _listening) = Said::listen();
    let layer =
        GateLayer::new(Limiter::over(Away, policy("2/d", OnError::Allow))).route("/other", |toll| toll.cost(|_| 2));
    let mut service = gated(&layer);
    let start = std::time::Instant::now();
    for number in 0..2_000 {
        ask(&mut service, within::get(if number % 2 == 0 { "/" } else { "/other" })).await;
    }
    // Seconds that were begun, whatever this machine does meanwhile.
    let most = start.elapsed().as_secs() as usize + 2;
    let lines = said.lines();
    assert!((1..=most).contains(&lines.len()), "{} lines", lines.len());
}

/// A limiter of one's own that fails, or says how long to wait.
struct Own(fn() -> Result<Custom, StoreError>);

impl Decide for Own {
    fn decide(&self, _: &Parts, _: &[u8], _: Cost) -> Deciding {
        let answer = (self.0)();
        Box::pin(async move { answer })
    }
}

#[tokio::test]
async fn a_limiter_of_ones_own_may_fail_too() {
    let fails: fn() -> _ = || Err(StoreError::Refused("out of order".to_owned()));
    for (on_error, status, source) in
        [(None, 200, "open"), (Some(OnError::Allow), 200, "open"), (Some(OnError::Deny), 503, "closed")]
    {
        let layer = GateLayer::new(Limiter::custom(Own(fails))).log(None);
        let layer = on_error.into_iter().fold(layer, GateLayer::on_error);
        let answer = ask(&mut gated(&layer), within::get("/")).await;
        assert_eq!(answer.status(), status);
        assert_eq!(field(answer.headers(), "tollgate-source").unwrap(), source);
    }
}

#[tokio::test]
async fn a_limiter_of_ones_own_that_knows_the_wait_has_it_told() {
    let refuses: fn() -> _ = || {
        let headers = vec![("x-mine".parse().unwrap(), "1".parse().unwrap())];
        Ok(Custom { headers, retry_after: Some(Micros::new(1_000_001)), source: Source::Home, ..Custom::default() })
    };
    let answer = ask(&mut gated(&GateLayer::new(Limiter::custom(Own(refuses)))), within::get("/")).await;
    assert_eq!(field(answer.headers(), "retry-after").unwrap(), "2");
    assert_eq!(field(answer.headers(), "x-mine").unwrap(), "1");
    let (status, body) = within::text(answer);
    assert_eq!(status, 429);
    assert_eq!(body, r#"{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"refused"}"#);
    // Its own field counts.
    let says: fn() -> _ = || {
        let headers = vec![("retry-after".parse().unwrap(), "7".parse().unwrap())];
        Ok(Custom { headers, retry_after: Some(Micros::new(1)), ..Custom::default() })
    };
    let answer = ask(&mut gated(&GateLayer::new(Limiter::custom(Own(says)))), within::get("/")).await;
    assert_eq!(field(answer.headers(), "retry-after").unwrap(), "7");
    // What passes is not told to wait.
    let passes: fn() -> _ = || Ok(Custom { allowed: true, retry_after: Some(Micros::new(1)), ..Custom::default() });
    let answer = ask(&mut gated(&GateLayer::new(Limiter::custom(Own(passes)))), within::get("/")).await;
    assert_eq!((answer.status().as_u16(), field(answer.headers(), "retry-after")), (200, None));
}

/// Counts its questions, for those who wait for them.
#[tokio::test]
async fn limiters_are_asked_once_a_request() {
    struct Counts(Arc<AtomicUsize>);
    impl Decide for Counts {
        fn decide(&self, parts: &Parts, key: &[u8], cost: Cost) -> Deciding {
            assert_eq!((parts.uri.path(), key, cost.get()), ("/x", &b"address:203.0.113.7"[..], 3));
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(Ok(Custom { allowed: true, ..Custom::default() })))
        }
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let layer = GateLayer::new(Limiter::custom(Counts(asked.clone()))).cost(|_| 3);
    let mut service = gated(&layer);
    for _ in 0..10 {
        assert_eq!(ask(&mut service, within::get("/x")).await.status(), 200);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 10);
}
