//! Stores that fail or hang: what decides then, how soon, what the response reports, and what is logged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;
use tollgate_kernel::{
    Cost, Decision, Detail, JointDecision, KeyCheck, Micros, OnError, Policy, Reply, Request, Source, Store,
    StoreError, Timestamp,
};
use tollgate_tower::{CustomDecision, CustomLimiter, DecisionFuture, GateLayer, Limiter, Settlement};
use tracing::Level;

use crate::support::in_process::{self, ask, gated};
use crate::support::log_capture::LogCapture;
use crate::support::{field, left};

/// A store that cannot be reached.
pub(crate) struct AwayStore;

fn away<'a, T>() -> Reply<'a, T> {
    Reply::now(Err(StoreError::Away { why: "no route to host".to_owned(), untouched: true }))
}

impl Store for AwayStore {
    fn check<'a>(&'a self, _: &'a Policy, _: &'a [u8], _: Request) -> Reply<'a, Decision> {
        away()
    }
    fn check_full<'a>(&'a self, _: &'a Policy, _: &'a [u8], _: Request) -> Reply<'a, (Decision, Vec<Detail>)> {
        away()
    }
    fn check_many<'a>(&'a self, _: &'a Policy, _: &'a [&'a [u8]], _: Request) -> Reply<'a, Vec<Decision>> {
        away()
    }
    fn check_all<'a>(&'a self, _: &'a [KeyCheck<'a>]) -> Reply<'a, JointDecision> {
        away()
    }
    fn reset<'a>(&'a self, _: &'a Policy, _: &'a [u8]) -> Reply<'a, ()> {
        away()
    }
    fn refund<'a>(&'a self, _: &'a Policy, _: &'a [u8], _: Cost, _: Timestamp) -> Reply<'a, u64> {
        away()
    }
}

/// A store that answers the first few calls, and no later one.
struct HangingStore {
    home: tollgate::Memory,
    answers: AtomicUsize,
}

impl HangingStore {
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

impl Store for HangingStore {
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
    fn check_all<'a>(&'a self, _: &'a [KeyCheck<'a>]) -> Reply<'a, JointDecision> {
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
            let layer = GateLayer::new(Limiter::over(AwayStore, policy("2/d", of_policy))).log(None);
            other.into_iter().fold(layer, GateLayer::on_error)
        };
        let mut open = gated(&layer(OnError::Allow));
        for _ in 0..5 {
            let answer = ask(&mut open, in_process::get("/")).await;
            assert_eq!(answer.status(), 200);
            assert_eq!(field(answer.headers(), "tollgate-source").unwrap(), "open");
            assert_eq!(left(answer.headers()), Some(2), "nobody counts");
        }
        let mut closed = gated(&layer(OnError::Deny));
        let answer = ask(&mut closed, in_process::get("/")).await;
        assert_eq!(field(answer.headers(), "tollgate-source").unwrap(), "closed");
        assert_eq!(field(answer.headers(), "retry-after").unwrap(), "1");
        let (status, body) = in_process::text(answer);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            body,
            r#"{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"the limits cannot be checked at the moment"}"#
        );
        let mut local = gated(&layer(OnError::Local));
        for (status, remaining) in [(200, 1), (200, 0), (429, 0)] {
            let answer = ask(&mut local, in_process::get("/")).await;
            assert_eq!((answer.status().as_u16(), left(answer.headers())), (status, Some(remaining)));
            assert_eq!(field(answer.headers(), "tollgate-source").unwrap(), "local");
        }
    }
}

/// Every service that the layer is put on counts together, as with a store that answers: axum puts it on each route.
#[tokio::test]
async fn what_decides_locally_is_shared_by_all_services_of_a_layer() {
    let layer =
        GateLayer::new(Limiter::over(AwayStore, policy("2/d", OnError::Deny))).on_error(OnError::Local).log(None);
    let (mut one, mut other) = (gated(&layer), gated(&layer));
    assert_eq!(ask(&mut one, in_process::get("/")).await.status(), 200);
    assert_eq!(ask(&mut other, in_process::get("/")).await.status(), 200);
    assert_eq!(ask(&mut one, in_process::get("/")).await.status(), 429);
    assert_eq!(ask(&mut other, in_process::get("/")).await.status(), 429);
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
        let limiter = Limiter::over(HangingStore::after(1), policy(text, on_error));
        let mut service = gated(&GateLayer::new(limiter).deadline(deadline).log(None));
        let answer = ask(&mut service, in_process::get("/")).await;
        assert_eq!((answer.status().as_u16(), field(answer.headers(), "tollgate-source")), (200, None), "it answers");
        let start = tokio::time::Instant::now();
        let answer = ask(&mut service, in_process::get("/")).await;
        assert_eq!(start.elapsed(), deadline);
        assert_eq!(answer.status(), status);
        assert_eq!(field(answer.headers(), "tollgate-source").unwrap(), source);
    }
}

/// A response that is there is not kept for longer than that either.
#[tokio::test(start_paused = true)]
async fn a_response_does_not_wait_for_a_store_that_hangs() {
    let deadline = Duration::from_millis(30);
    for settle in [Settlement::Refund, Settlement::Charge(3)] {
        let (log, _listening) = LogCapture::listen();
        let limiter = Limiter::over(HangingStore::after(1), policy("5/d", OnError::Deny));
        let layer = GateLayer::new(limiter).deadline(deadline).settle(move |_, _| settle);
        let mut service = gated(&layer);
        let start = tokio::time::Instant::now();
        let answer = ask(&mut service, in_process::get("/")).await;
        assert_eq!(start.elapsed(), deadline, "{settle:?}");
        assert_eq!((answer.status().as_u16(), left(answer.headers())), (200, Some(4)), "{settle:?}");
        assert_eq!(log.lines().len(), 1, "{:?}", log.lines());
    }
}

#[tokio::test]
async fn failures_are_logged_at_the_level_that_was_asked_for() {
    for level in
        [Some(Level::ERROR), Some(Level::WARN), Some(Level::INFO), Some(Level::DEBUG), Some(Level::TRACE), None]
    {
        let (log, _listening) = LogCapture::listen();
        let layer = GateLayer::new(Limiter::over(AwayStore, policy("2/d", OnError::Allow))).log(level);
        ask(&mut gated(&layer), in_process::get("/")).await;
        let lines = log.lines();
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
    let (log, _listening) = LogCapture::listen();
    let layer = GateLayer::new(Limiter::over(AwayStore, policy("2/d", OnError::Allow)))
        .route("/other", |route| route.cost(|_| 2));
    let mut service = gated(&layer);
    let start = std::time::Instant::now();
    for number in 0..2_000 {
        ask(&mut service, in_process::get(if number % 2 == 0 { "/" } else { "/other" })).await;
    }
    // Seconds that were begun, whatever this machine does meanwhile.
    let most = start.elapsed().as_secs() as usize + 2;
    let lines = log.lines();
    assert!((1..=most).contains(&lines.len()), "{} lines", lines.len());
}

/// A custom limiter that fails, or reports how long to wait.
struct FnLimiter(fn() -> Result<CustomDecision, StoreError>);

impl CustomLimiter for FnLimiter {
    fn decide(&self, _: &Parts, _: &[u8], _: Cost) -> DecisionFuture {
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
        let layer = GateLayer::new(Limiter::custom(FnLimiter(fails))).log(None);
        let layer = on_error.into_iter().fold(layer, GateLayer::on_error);
        let answer = ask(&mut gated(&layer), in_process::get("/")).await;
        assert_eq!(answer.status(), status);
        assert_eq!(field(answer.headers(), "tollgate-source").unwrap(), source);
    }
}

#[tokio::test]
async fn a_limiter_of_ones_own_that_knows_the_wait_has_it_told() {
    let refuses: fn() -> _ = || {
        let headers = vec![("x-mine".parse().unwrap(), "1".parse().unwrap())];
        Ok(CustomDecision {
            headers,
            retry_after: Some(Micros::new(1_000_001)),
            source: Source::Home,
            ..CustomDecision::default()
        })
    };
    let answer = ask(&mut gated(&GateLayer::new(Limiter::custom(FnLimiter(refuses)))), in_process::get("/")).await;
    assert_eq!(field(answer.headers(), "retry-after").unwrap(), "2");
    assert_eq!(field(answer.headers(), "x-mine").unwrap(), "1");
    let (status, body) = in_process::text(answer);
    assert_eq!(status, 429);
    assert_eq!(body, r#"{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"refused"}"#);
    // Its own field counts.
    let says: fn() -> _ = || {
        let headers = vec![("retry-after".parse().unwrap(), "7".parse().unwrap())];
        Ok(CustomDecision { headers, retry_after: Some(Micros::new(1)), ..CustomDecision::default() })
    };
    let answer = ask(&mut gated(&GateLayer::new(Limiter::custom(FnLimiter(says)))), in_process::get("/")).await;
    assert_eq!(field(answer.headers(), "retry-after").unwrap(), "7");
    // A request that passes gets no wait.
    let passes: fn() -> _ =
        || Ok(CustomDecision { allowed: true, retry_after: Some(Micros::new(1)), ..CustomDecision::default() });
    let answer = ask(&mut gated(&GateLayer::new(Limiter::custom(FnLimiter(passes)))), in_process::get("/")).await;
    assert_eq!((answer.status().as_u16(), field(answer.headers(), "retry-after")), (200, None));
}

/// A limiter that counts its calls.
#[tokio::test]
async fn limiters_are_asked_once_a_request() {
    struct CountingLimiter(Arc<AtomicUsize>);
    impl CustomLimiter for CountingLimiter {
        fn decide(&self, parts: &Parts, key: &[u8], cost: Cost) -> DecisionFuture {
            assert_eq!((parts.uri.path(), key, cost.get()), ("/x", &b"address:203.0.113.7"[..], 3));
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(Ok(CustomDecision { allowed: true, ..CustomDecision::default() })))
        }
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let layer = GateLayer::new(Limiter::custom(CountingLimiter(asked.clone()))).cost(|_| 3);
    let mut service = gated(&layer);
    for _ in 0..10 {
        assert_eq!(ask(&mut service, in_process::get("/x")).await.status(), 200);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 10);
}
