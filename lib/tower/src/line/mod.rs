//! Waiting instead of refusing: requests that do not fit yet wait in line until they do.
//!
//! Every key has its own line, first come first served. Only the head of a line asks the limiter, and sleeps for
//! the wait that it reports; the others are woken when it is their turn. So there is one timer for each key,
//! regardless of the number of waiters, and a key's requests reach the limiter one after the other.
//!
//! | file | what it is |
//! |---|---|
//! | `question.rs` | the question to the limiter, and the result of a request |
//! | `wait.rs` | the path of one request through the line |
//! | `position.rs` | a request's position, given up when dropped |
//! | `queue.rs` | the order of the waiters: no time, no waking |
//! | `lengths.rs` | the lengths of the lines, to find the longest one quickly |
//! | `tests/` | the laws |

mod lengths;
mod position;
mod question;
mod queue;
#[cfg(test)]
mod tests;
mod wait;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_kernel::Micros;

use crate::timer::{Timer, TokioTimer};

pub use question::{LineAnswer, LineOutcome, LineQuestion};
use queue::LineQueue;

/// The default maximum number of waiting requests.
const MAX: usize = 10_000;

/// A line in which requests wait until they fit, each no longer than a given time. Clones share the line.
///
/// Its memory is bounded by [`WaitLine::most`]. When it is full, a request of a key with few waiters displaces the last
/// waiter of the longest line, so that a flood of one key does not keep other keys from waiting.
///
/// ```
/// use std::time::Duration;
/// use tollgate::StoreError;
/// use tollgate_tower::line::{LineQuestion, WaitLine, LineOutcome};
/// use tollgate_tower::testing::TestClock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = TestClock::new();
/// let gate = clock.gate("1/s")?;
/// let line = WaitLine::new(Duration::from_secs(5)).timer(clock.clone());
/// let request = || {
///     line.wait(b"alice", async |ask| match ask {
///         LineQuestion::Charge => gate.check("alice"),
///         LineQuestion::Look => gate.peek("alice"),
///     })
/// };
/// assert!(matches!(request().await?, LineOutcome::Passed(_)));
///
/// let second = async { assert!(matches!(request().await?, LineOutcome::Passed(_))); Ok::<(), StoreError>(()) };
/// let time = async {
///     assert_eq!((line.waiting(), clock.next_wake()), (1, Some(Duration::from_secs(1).into())));
///     clock.advance(Duration::from_secs(1));
/// };
/// tokio::join!(second, time).0?;
/// assert_eq!((line.waiting(), line.keys()), (0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a line does nothing until requests wait in it"]
pub struct WaitLine {
    core: Arc<LineCore>,
}

/// What all clones share.
struct LineCore {
    longest: Micros,
    most: usize,
    most_a_key: usize,
    timer: Arc<dyn Timer>,
    queue: Mutex<LineQueue>,
}

impl WaitLine {
    /// Creates a line in which no request waits longer than this, at most 10,000 wait at once, and the tokio
    /// runtime's timer is used.
    pub fn new(longest: Duration) -> Self {
        Self::of(longest.into(), MAX, usize::MAX, Arc::new(TokioTimer::new()))
    }

    /// Sets how many requests may wait at once, over all keys. This returns a new line, which earlier clones do not
    /// share.
    pub fn most(self, most: usize) -> Self {
        let LineCore { longest, most_a_key, ref timer, .. } = *self.core;
        Self::of(longest, most, most_a_key, timer.clone())
    }

    /// Sets how many requests may wait at once under one key. The default is the limit for all keys. This returns a
    /// new line.
    pub fn most_a_key(self, most_a_key: usize) -> Self {
        let LineCore { longest, most, ref timer, .. } = *self.core;
        Self::of(longest, most, most_a_key, timer.clone())
    }

    /// Sets the timer. The default is the tokio runtime's. This returns a new line.
    pub fn timer(self, timer: impl Timer) -> Self {
        let LineCore { longest, most, most_a_key, .. } = *self.core;
        Self::of(longest, most, most_a_key, Arc::new(timer))
    }

    /// Returns how many requests are waiting.
    pub fn waiting(&self) -> usize {
        self.core.queue().waiting()
    }

    /// Returns under how many keys requests are waiting.
    pub fn keys(&self) -> usize {
        self.core.queue().keys()
    }

    fn of(longest: Micros, most: usize, most_a_key: usize, timer: Arc<dyn Timer>) -> Self {
        Self { core: Arc::new(LineCore { longest, most, most_a_key, timer, queue: Mutex::default() }) }
    }
}

impl fmt::Debug for WaitLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LineCore { longest, most, .. } = *self.core;
        let mut shown = f.debug_struct("WaitLine");
        shown.field("longest", &longest).field("most", &most).field("waiting", &self.waiting());
        shown.finish_non_exhaustive()
    }
}

impl LineCore {
    /// Locks the queue. Law: no waker is woken or dropped while it is locked, since that may end a task that has a
    /// place here.
    fn queue(&self) -> MutexGuard<'_, LineQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
