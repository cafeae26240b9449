//! Waiting instead of refusing: requests that do not fit yet line up until they do.
//!
//! Every key has a line of its own, first come first served. Only the head of a line asks the limiter, and sleeps as
//! long as it was told; the others are woken when their turn has come. So there is one timer a key, whatever the
//! number of waiters, and a key's requests reach the limiter one after the other.
//!
//! | file | what it is |
//! |---|---|
//! | `asked.rs` | what is asked of whoever decides, and what becomes of a request |
//! | `wait.rs` | the way of one request through the line |
//! | `place.rs` | a request's place, given up when dropped |
//! | `queue.rs` | who stands where: no time, no waking, only the order |
//! | `lengths.rs` | the longest line, found at once |
//! | `tests/` | the laws |

mod asked;
mod lengths;
mod place;
mod queue;
#[cfg(test)]
mod tests;
mod wait;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_core::Micros;

use crate::timer::{Timer, TokioTimer};

pub use asked::{Ask, Asked, Waited};
use queue::Queue;

/// How many may wait, if nothing else is said.
const MOST: usize = 10_000;

/// Where requests wait until they fit, each no longer than a given time. Clones share the line.
///
/// Its memory is bounded by [`Line::most`]. When it is full, a key with few waiters takes the place of the last waiter
/// of the longest line: one key's flood does not keep other keys from waiting.
///
/// ```
/// use std::time::Duration;
/// use tollgate::StoreError;
/// use tollgate_tower::line::{Ask, Line, Waited};
/// use tollgate_tower::testing::TestClock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = TestClock::new();
/// let gate = clock.gate("1/s")?;
/// let line = Line::new(Duration::from_secs(5)).timer(clock.clone());
/// let request = || {
///     line.wait(b"alice", async |ask| match ask {
///         Ask::Charge => gate.check("alice"),
///         Ask::Look => gate.peek("alice"),
///     })
/// };
/// assert!(matches!(request().await?, Waited::Passed(_)));
///
/// let second = async { assert!(matches!(request().await?, Waited::Passed(_))); Ok::<(), StoreError>(()) };
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
#[must_use = "a line in which nobody waits does nothing"]
pub struct Line {
    shared: Arc<Shared>,
}

/// What all clones share.
struct Shared {
    longest: Micros,
    most: usize,
    most_a_key: usize,
    timer: Arc<dyn Timer>,
    queue: Mutex<Queue>,
}

impl Line {
    /// A line in which nobody waits longer than this; at most 10,000 wait at once, by the tokio runtime's timer.
    pub fn new(longest: Duration) -> Self {
        Self::of(longest.into(), MOST, usize::MAX, Arc::new(TokioTimer::new()))
    }

    /// How many may wait at once, over all keys. The line that this gives is a new one, not that of earlier clones.
    pub fn most(self, most: usize) -> Self {
        let Shared { longest, most_a_key, ref timer, .. } = *self.shared;
        Self::of(longest, most, most_a_key, timer.clone())
    }

    /// How many may wait at once under one key; as many as in all if not given. The line that this gives is a new one.
    pub fn most_a_key(self, most_a_key: usize) -> Self {
        let Shared { longest, most, ref timer, .. } = *self.shared;
        Self::of(longest, most, most_a_key, timer.clone())
    }

    /// What measures the time; the tokio runtime if not given. The line that this gives is a new one.
    pub fn timer(self, timer: impl Timer) -> Self {
        let Shared { longest, most, most_a_key, .. } = *self.shared;
        Self::of(longest, most, most_a_key, Arc::new(timer))
    }

    /// How many wait now.
    pub fn waiting(&self) -> usize {
        self.shared.queue().waiting()
    }

    /// Under how many keys.
    pub fn keys(&self) -> usize {
        self.shared.queue().keys()
    }

    fn of(longest: Micros, most: usize, most_a_key: usize, timer: Arc<dyn Timer>) -> Self {
        Self { shared: Arc::new(Shared { longest, most, most_a_key, timer, queue: Mutex::default() }) }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { longest, most, .. } = *self.shared;
        let mut shown = f.debug_struct("Line");
        shown.field("longest", &longest).field("most", &most).field("waiting", &self.waiting());
        shown.finish_non_exhaustive()
    }
}

impl Shared {
    /// Law: no waker is woken or dropped while this is held, since that may end a task that has a place here.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
