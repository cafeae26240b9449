//! Clocks: the process's own, one for tests, one that is cheap to read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_core::{Clock, Micros, Timestamp};

/// The process's monotonic clock, set once by the machine's clock and independent of it from then
/// on: when that is corrected, nothing happens. Time in which the machine sleeps does not pass.
#[derive(Clone, Debug)]
pub struct Monotonic {
    clock: quanta::Clock,
    began: u64,
    at: Timestamp,
}

impl Monotonic {
    /// A clock set now.
    pub fn new() -> Self {
        let clock = quanta::Clock::new();
        Self { began: clock.raw(), clock, at: wall() }
    }
}

impl Default for Monotonic {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Timestamp {
        self.at.plus(Micros::new(self.clock.delta_as_nanos(self.began, self.clock.raw()) / 1_000))
    }

    fn is_monotonic(&self) -> bool {
        true
    }

    fn wall(&self) -> Timestamp {
        wall()
    }
}

fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::saturating(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// The clock of a store: mostly the usual one, which is read without a call.
pub(crate) enum Source {
    Usual(Monotonic),
    Given(Box<dyn Clock>),
}

impl Source {
    pub(crate) fn of(given: Option<Box<dyn Clock>>) -> Self {
        given.map_or_else(|| Self::Usual(Monotonic::new()), Self::Given)
    }

    fn other(&self) -> &dyn Clock {
        match self {
            Self::Usual(clock) => clock,
            Self::Given(clock) => &**clock,
        }
    }
}

impl Clock for Source {
    #[inline(always)]
    fn now(&self) -> Timestamp {
        match self {
            Self::Usual(clock) => clock.now(),
            Self::Given(clock) => clock.now(),
        }
    }

    fn is_monotonic(&self) -> bool {
        self.other().is_monotonic()
    }

    fn wall(&self) -> Timestamp {
        self.other().wall()
    }
}

/// A clock that stands until it is set: tests own the time.
///
/// ```
/// use tollgate_memory::{Clock, Manual};
/// use tollgate_core::{Micros, Timestamp};
/// let clock = Manual::at(Timestamp::new(1_000_000).unwrap());
/// let same = clock.clone();
/// clock.advance(Micros::from_secs(5));
/// assert_eq!(same.now().get(), 6_000_000);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Manual {
    time: Arc<AtomicU64>,
    wall: Arc<AtomicU64>,
}

impl Manual {
    /// A clock that stands at `t`. Clones show the same time.
    pub fn at(t: Timestamp) -> Self {
        let clock = Self::default();
        clock.set(t);
        clock
    }

    /// Sets both times, forward or back.
    pub fn set(&self, t: Timestamp) {
        self.time.store(t.get(), Ordering::SeqCst);
        self.set_wall(t);
    }

    /// Sets only the machine's clock, as an operator does.
    pub fn set_wall(&self, t: Timestamp) {
        self.wall.store(t.get(), Ordering::SeqCst);
    }

    /// Lets time pass.
    pub fn advance(&self, span: Micros) {
        self.time.fetch_add(span.get(), Ordering::SeqCst);
        self.wall.fetch_add(span.get(), Ordering::SeqCst);
    }
}

impl Clock for Manual {
    fn now(&self) -> Timestamp {
        Timestamp::saturating(self.time.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::saturating(self.wall.load(Ordering::SeqCst))
    }
}

/// A clock that a thread of its own sets every millisecond, so that reading it costs next to nothing.
///
/// Its error: it is behind by up to a millisecond, and by as much more as the thread is kept from
/// running. Behind is safe: nothing is admitted early. What is lost is precision: a wait that is over
/// may be seen to be over that much later.
#[derive(Debug)]
pub struct Cached {
    time: Arc<AtomicU64>,
}

impl Cached {
    /// How often it is set.
    pub const EVERY: Duration = Duration::from_millis(1);

    /// A cached monotonic clock. Its thread ends soon after the clock is dropped.
    pub fn start() -> std::io::Result<Self> {
        let clock = Monotonic::new();
        let time = Arc::new(AtomicU64::new(clock.now().get()));
        let weak = Arc::downgrade(&time);
        thread::Builder::new().name("tollgate-clock".to_owned()).spawn(move || keep(&weak, &clock))?;
        Ok(Self { time })
    }
}

fn keep(time: &Weak<AtomicU64>, clock: &Monotonic) {
    while let Some(time) = time.upgrade() {
        time.store(clock.now().get(), Ordering::Release);
        drop(time);
        thread::sleep(Cached::EVERY);
    }
}

impl Clock for Cached {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::saturating(self.time.load(Ordering::Acquire))
    }

    fn is_monotonic(&self) -> bool {
        true
    }

    fn wall(&self) -> Timestamp {
        wall()
    }
}
