//! For tests of applications: a clock that the test moves, for gates and for everything in this crate that waits;
//! requests that are made in process; and a store that fails on request.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! use std::time::Duration;
//! use tollgate_tower::GateLayer;
//! use tollgate_tower::testing::{TestClock, request};
//! # use tower_layer::Layer;
//! # let service = tower::service_fn(|_: http::Request<String>| async {
//! #     Ok::<_, std::convert::Infallible>(http::Response::new(String::from("hello")))
//! # });
//! let clock = TestClock::new();
//! // An axum Router, or any other service.
//! let app = GateLayer::new(clock.gate("1/min")?).layer(service);
//! let get = || request("/").from("203.0.113.7").ask(&app);
//! assert_eq!(get().await?.body, "hello");
//! assert_eq!(get().await?.status, 429);
//! clock.advance(Duration::from_secs(60));
//! assert_eq!(get().await?.status, 200);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

mod failing;
mod request;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tollgate::{DEFAULT_CAP, Gate, ManualClock, Memory};
use tollgate_kernel::{Clock, Micros, Timestamp};

pub use failing::FailingStore;
pub use request::{TestRequest, TestRequestError, TestResponse, request};

use crate::plug::Limiters;
use crate::timer::{Sleep, Timer};

/// A clock that stands still until the test moves it, and then wakes the sleepers that are due. Clones show the
/// same time.
///
/// ```
/// use tollgate_tower::testing::TestClock;
/// let clock = TestClock::new();
/// let gate = clock.gate("1/min")?;
/// assert!(gate.check("alice")?.allowed);
/// assert!(!gate.check("alice")?.allowed);
/// clock.advance(std::time::Duration::from_secs(60));
/// assert!(gate.check("alice")?.allowed);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TestClock {
    time: ManualClock,
    sleepers: Arc<Mutex<Sleepers>>,
}

#[derive(Debug, Default)]
struct Sleepers {
    /// By wake time and order of arrival.
    waiting: BTreeMap<(Timestamp, u64), Option<Waker>>,
    arrivals: u64,
}

/// The initial time of the clock: a round number of seconds, in 2023.
const BEGIN: u64 = 1_700_000_000_000_000;

impl TestClock {
    /// Creates a clock that stands at 1,700,000,000 seconds.
    pub fn new() -> Self {
        Self { time: ManualClock::at(Timestamp::saturating(BEGIN)), sleepers: Arc::default() }
    }

    /// Creates a gate with this policy that uses this clock.
    pub fn gate(&self, policy: &str) -> Result<Gate, tollgate::Error> {
        Gate::builder().policy(policy).clock(self.clone()).build()
    }

    /// Creates named limiters that use this clock, in process and enabled.
    pub fn limiters(&self) -> Limiters {
        Limiters::embedded(Memory::with_clock(DEFAULT_CAP, Box::new(self.clone()))).enabled(|| true)
    }

    /// Moves the clock forward and wakes the sleepers that are due, in order.
    pub fn advance(&self, span: impl Into<Micros>) {
        self.time.advance(span.into());
        self.wake();
    }

    /// Sets the clock, forward or back, and wakes the sleepers that are due.
    pub fn set(&self, to: Timestamp) {
        self.time.set(to);
        self.wake();
    }

    fn wake(&self) {
        let now = Clock::now(&self.time);
        let due: Vec<Waker> = {
            let mut sleepers = self.lock();
            let later = sleepers.waiting.split_off(&(now.plus(Micros::new(1)), 0));
            std::mem::replace(&mut sleepers.waiting, later).into_values().flatten().collect()
        };
        due.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of sleepers, by which a test knows whether everything it started is waiting.
    pub fn sleeping(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Returns the time until the first sleeper wakes.
    pub fn next_wake(&self) -> Option<Micros> {
        let first = self.lock().waiting.keys().next().map(|(at, _)| *at);
        first.map(|at| at.since(Clock::now(&self.time)))
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Clock::now(&self.time)
    }

    fn wall(&self) -> Timestamp {
        self.time.wall()
    }
}

impl Timer for TestClock {
    fn now(&self) -> Timestamp {
        Clock::now(&self.time)
    }

    fn sleep(&self, span: Micros) -> Sleep {
        let mut sleepers = self.lock();
        sleepers.arrivals += 1;
        let entry = (Clock::now(&self.time).plus(span), sleepers.arrivals);
        sleepers.waiting.insert(entry, None);
        drop(sleepers);
        Box::pin(TestSleep { clock: self.clone(), entry })
    }
}

struct TestSleep {
    clock: TestClock,
    entry: (Timestamp, u64),
}

impl Future for TestSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut sleepers = self.clock.lock();
        if Clock::now(&self.clock.time) >= self.entry.0 {
            sleepers.waiting.remove(&self.entry);
            return Poll::Ready(());
        }
        sleepers.waiting.insert(self.entry, Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for TestSleep {
    fn drop(&mut self) {
        self.clock.lock().waiting.remove(&self.entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleepers_wake_when_the_clock_reaches_their_time_and_not_before() {
        let clock = TestClock::new();
        let sleeper = tokio::spawn(Timer::sleep(&clock, Micros::from_secs(2)));
        tokio::task::yield_now().await;
        assert_eq!((clock.sleeping(), clock.next_wake()), (1, Some(Micros::from_secs(2))));
        clock.advance(Micros::new(1_999_999));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Micros::new(1));
        sleeper.await.unwrap();
        assert_eq!(clock.sleeping(), 0);
    }

    #[test]
    fn a_sleep_that_is_dropped_is_forgotten() {
        let clock = TestClock::new();
        let sleep = Timer::sleep(&clock, Micros::from_secs(1));
        assert_eq!(clock.sleeping(), 1);
        drop(sleep);
        assert_eq!(clock.sleeping(), 0);
    }
}
