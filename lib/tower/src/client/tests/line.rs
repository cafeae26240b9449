//! Waiting requests: in which order they are sent, how many there may be, and how they leave.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tower::ServiceExt;

use super::{Client, ScriptedService, answer, get, held};
use crate::client::{ObeyError, ObeyLayer};
use crate::testing::TestClock;

const HERE: &str = "http://a.example/";
const MINUTE: Duration = Duration::from_secs(60);

fn patient(clock: &TestClock) -> ObeyLayer {
    ObeyLayer::new().longest(MINUTE * 10).timer(clock.clone())
}

/// Runs everything that is ready.
async fn settle() {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

/// Makes a request in the background that logs its number when it is answered.
fn waiter(client: &Client, number: usize, log: &Arc<Mutex<Vec<usize>>>) -> tokio::task::JoinHandle<bool> {
    let (client, log) = (client.clone(), Arc::clone(log));
    tokio::spawn(async move {
        let sent = client.oneshot(get(HERE)).await.is_ok();
        log.lock().unwrap().push(number);
        sent
    })
}

#[tokio::test]
async fn who_waits_goes_in_order_and_only_as_many_as_are_left() {
    let clock = TestClock::new();
    let service = ScriptedService::new([answer(200, &[("ratelimit", r#""a";r=0;t=60"#)])]);
    let client = service.behind(&patient(&clock));
    assert_eq!(held(&client, HERE).await, None);
    let log = Arc::default();
    let mut waiters = Vec::new();
    for number in 0..20 {
        waiters.push(waiter(&client, number, &log));
        settle().await;
    }
    assert_eq!((service.asked(), clock.sleeping()), (1, 20));

    // The next window has room for five, which the first answer reports.
    for left in (0..5).rev() {
        service.then(answer(200, &[("ratelimit", &format!(r#""a";r={left};t=60"#))]));
    }
    clock.advance(Duration::from_millis(59_999));
    settle().await;
    assert_eq!(service.asked(), 1);
    clock.advance(Duration::from_millis(1));
    settle().await;
    assert_eq!(service.asked(), 6);
    assert_eq!(*log.lock().unwrap(), [0, 1, 2, 3, 4]);

    // From then on nothing is reported: one is sent, then more as answers arrive, in order.
    clock.advance(MINUTE);
    settle().await;
    assert_eq!(*log.lock().unwrap(), (0..20).collect::<Vec<_>>());
    for waiter in waiters {
        assert!(waiter.await.unwrap());
    }
    assert_eq!(clock.sleeping(), 0);
}

#[tokio::test]
async fn after_retry_after_a_line_does_not_go_as_a_herd() {
    let clock = TestClock::new();
    let service = ScriptedService::new([answer(429, &[("retry-after", "5")])]);
    let client = service.behind(&patient(&clock));
    assert_eq!(held(&client, HERE).await, None);
    let log = Arc::default();
    let waiters: Vec<_> = (0..50).map(|number| waiter(&client, number, &log)).collect();
    settle().await;
    // After each hold one request is sent; its refusal holds the others.
    for round in 1..=10 {
        service.then(answer(429, &[("retry-after", "5")]));
        clock.advance(Duration::from_secs(5));
        settle().await;
        assert_eq!(service.asked(), 1 + round, "one a hold");
    }
    waiters.iter().for_each(|waiter| waiter.abort());
}

#[tokio::test]
async fn an_answer_that_does_not_come_does_not_hold_the_line() {
    let clock = TestClock::new();
    let layer = patient(&clock);
    let service = ScriptedService::new([answer(429, &[("retry-after", "5")])]);
    assert_eq!(held(&service.behind(&layer), HERE).await, None);
    let asked: Arc<Mutex<u32>> = Arc::default();
    let count = Arc::clone(&asked);
    let silent = tower::Layer::layer(
        &layer,
        tower::service_fn(move |_: http::Request<()>| {
            *count.lock().unwrap() += 1;
            std::future::pending::<Result<http::Response<()>, std::convert::Infallible>>()
        }),
    );
    let waiters: Vec<_> = (0..20).map(|_| tokio::spawn(silent.clone().oneshot(get(HERE)))).collect();
    settle().await;
    clock.advance(Duration::from_secs(5));
    for expected in [1, 2, 4, 8, 16, 20] {
        settle().await;
        assert_eq!(*asked.lock().unwrap(), expected);
        clock.advance(Duration::from_secs(1));
    }
    waiters.iter().for_each(|waiter| waiter.abort());
}

#[tokio::test]
async fn who_would_wait_too_long_is_told_as_soon_as_it_is_known() {
    let clock = TestClock::new();
    let service = ScriptedService::new([answer(429, &[("retry-after", "60")])]);
    let client = service.behind(&ObeyLayer::new().longest(Duration::from_secs(59)).timer(clock.clone()));
    assert_eq!(held(&client, HERE).await, None);
    assert_eq!(held(&client, HERE).await, Some(MINUTE), "at once");
    clock.advance(Duration::from_secs(1));
    let log = Arc::default();
    let waiters = [waiter(&client, 0, &log), waiter(&client, 1, &log)];
    settle().await;
    assert_eq!(clock.sleeping(), 2);
    // The first request sent reports another minute, for which the second cannot wait.
    service.then(answer(429, &[("retry-after", "60")]));
    clock.advance(Duration::from_secs(59));
    settle().await;
    let [first, second] = waiters;
    assert!(first.await.unwrap());
    assert!(!second.await.unwrap());
}

#[tokio::test]
async fn a_wait_ends_at_its_deadline() {
    let clock = TestClock::new();
    // Only one unit is left, and it belongs to a request in flight, whose answer may report more.
    let service = ScriptedService::new([answer(200, &[("ratelimit", r#""a";r=1;t=60"#)])]);
    let layer = ObeyLayer::new().longest(Duration::from_secs(3)).timer(clock.clone());
    let client = service.behind(&layer);
    assert_eq!(held(&client, HERE).await, None);
    let silence = tower::service_fn(|_: http::Request<()>| {
        std::future::pending::<Result<http::Response<()>, std::convert::Infallible>>()
    });
    let silent = tokio::spawn(tower::Layer::layer(&layer, silence).oneshot(get(HERE)));
    settle().await;
    let waiting = tokio::spawn(client.oneshot(get(HERE)));
    settle().await;
    assert_eq!(clock.next_wake(), Some(Duration::from_secs(3).into()));
    clock.advance(Duration::from_secs(3));
    match waiting.await.unwrap() {
        Err(ObeyError::Held { retry_after }) => assert_eq!(retry_after, Duration::from_secs(57)),
        other => panic!("{other:?}"),
    }
    silent.abort();
}

#[tokio::test(start_paused = true)]
async fn without_another_timer_waits_are_the_runtimes() {
    let service = ScriptedService::new([answer(429, &[("retry-after", "60")])]);
    let client = service.behind(&ObeyLayer::new().longest(MINUTE));
    assert_eq!(held(&client, HERE).await, None);
    let began = tokio::time::Instant::now();
    assert_eq!(held(&client, HERE).await, None);
    assert!(began.elapsed() >= MINUTE);
    assert_eq!(service.asked(), 2);
}

/// A service that may only be called after it was polled ready, as tower requires; its clones are not ready.
#[derive(Default)]
struct StrictService {
    ready: bool,
    answers: Arc<Mutex<u32>>,
}

impl Clone for StrictService {
    fn clone(&self) -> Self {
        Self { ready: false, answers: Arc::clone(&self.answers) }
    }
}

impl tower::Service<http::Request<()>> for StrictService {
    type Response = http::Response<()>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        self.ready = true;
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without having been made ready");
        *self.answers.lock().unwrap() += 1;
        std::future::ready(Ok(answer(200, &[("ratelimit", r#""a";r=0;t=60"#)])))
    }
}

#[tokio::test]
async fn a_request_goes_by_the_service_that_was_made_ready_for_it_also_after_a_wait() {
    fn sendable<T: Send + 'static>(future: T) -> T {
        future
    }
    let clock = TestClock::new();
    let strict = StrictService::default();
    let answers = Arc::clone(&strict.answers);
    let mut client = tower::Layer::layer(&patient(&clock), strict);
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let future: crate::client::ObeyFuture<StrictService, ()> =
            tower::Service::call(client.ready().await.unwrap(), get(HERE));
        waiting.push(tokio::spawn(sendable(future)));
        settle().await;
    }
    for expected in 1..=3 {
        settle().await;
        assert_eq!(*answers.lock().unwrap(), expected);
        clock.advance(MINUTE);
    }
    for waiting in waiting {
        assert!(waiting.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn no_more_wait_than_may() {
    let clock = TestClock::new();
    let service = ScriptedService::new([answer(429, &[("retry-after", "60")])]);
    let client = service.behind(&patient(&clock).most_waiting(3));
    assert_eq!(held(&client, HERE).await, None);
    let log = Arc::default();
    let waiters: Vec<_> = (0..3).map(|number| waiter(&client, number, &log)).collect();
    settle().await;
    match client.clone().oneshot(get(HERE)).await {
        Err(ObeyError::Full { retry_after }) => assert_eq!(retry_after, MINUTE),
        other => panic!("{other:?}"),
    }
    // Another origin has its own line.
    assert_eq!(held(&client, "http://b.example/").await, None);
    waiters.iter().for_each(|waiter| waiter.abort());
}

#[tokio::test]
async fn who_is_dropped_leaves_at_once_and_the_next_goes() {
    let clock = TestClock::new();
    let service = ScriptedService::new([answer(429, &[("retry-after", "60")])]);
    let client = service.behind(&patient(&clock));
    assert_eq!(held(&client, HERE).await, None);
    let log = Arc::default();
    let waiters: Vec<_> = (0..1_000).map(|number| waiter(&client, number, &log)).collect();
    settle().await;
    assert_eq!(clock.sleeping(), 1_000);
    // The head, the last, and all but two of those between.
    for (number, waiter) in waiters.iter().enumerate() {
        if ![400, 700].contains(&number) {
            waiter.abort();
        }
    }
    settle().await;
    assert_eq!(clock.sleeping(), 2, "no timer is left of those who left");
    clock.advance(MINUTE);
    settle().await;
    assert_eq!(*log.lock().unwrap(), [400, 700]);
    assert_eq!((service.asked(), clock.sleeping()), (3, 0));
}
