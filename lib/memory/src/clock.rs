//! Clocks: the monotonic clock of the process, one for tests, and one that is cheap to read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_kernel::{Clock, Micros, Timestamp};

/// The monotonic clock of the process. It is set once from the machine's clock and is independent of it afterwards, so
/// corrections of the machine's clock have no effect. It does not advance while the machine is suspended.
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    clock: quanta::Clock,
    began: u64,
    at: Timestamp,
}

impl MonotonicClock {
    /// Creates a clock that is set now.
    pub fn new() -> Self {
        let clock = quanta::Clock::new();
        Self { began: clock.raw(), clock, at: wall() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
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

/// The clock of a store: usually a [`MonotonicClock`], which is read without a dynamic call.
pub(crate) enum MemoryClock {
    Usual(MonotonicClock),
    Given(Box<dyn Clock>),
}

impl MemoryClock {
    pub(crate) fn of(given: Option<Box<dyn Clock>>) -> Self {
        given.map_or_else(|| Self::Usual(MonotonicClock::new()), Self::Given)
    }

    fn other(&self) -> &dyn Clock {
        match self {
            Self::Usual(clock) => clock,
            Self::Given(clock) => &**clock,
        }
    }
}

impl Clock for MemoryClock {
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

/// A clock that changes only when it is set or advanced, for tests.
///
/// ```
/// use tollgate_memory::{Clock, ManualClock};
/// use tollgate_kernel::{Micros, Timestamp};
/// let clock = ManualClock::at(Timestamp::new(1_000_000).unwrap());
/// let same = clock.clone();
/// clock.advance(Micros::from_secs(5));
/// assert_eq!(same.now().get(), 6_000_000);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    time: Arc<AtomicU64>,
    wall: Arc<AtomicU64>,
}

impl ManualClock {
    /// Creates a clock that shows `t`. Clones show the same time.
    pub fn at(t: Timestamp) -> Self {
        let clock = Self::default();
        clock.set(t);
        clock
    }

    /// Sets both the time and the machine's clock, forward or back.
    pub fn set(&self, t: Timestamp) {
        self.time.store(t.get(), Ordering::SeqCst);
        self.set_wall(t);
    }

    /// Sets only the machine's clock, as an operator would.
    pub fn set_wall(&self, t: Timestamp) {
        self.wall.store(t.get(), Ordering::SeqCst);
    }

    /// Advances the time.
    pub fn advance(&self, span: Micros) {
        self.time.fetch_add(span.get(), Ordering::SeqCst);
        self.wall.fetch_add(span.get(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::saturating(self.time.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::saturating(self.wall.load(Ordering::SeqCst))
    }
}

/// A clock that its own thread updates every millisecond, so that reading it is very cheap.
///
/// It is late by up to a millisecond, plus any time for which the thread does not get to run. A late clock is safe:
/// nothing is admitted early. The cost is precision: the end of a wait may be noticed later by the same amount.
#[derive(Debug)]
pub struct CachedClock {
    time: Arc<AtomicU64>,
}

impl CachedClock {
    /// The interval between updates.
    pub const EVERY: Duration = Duration::from_millis(1);

    /// Starts a cached monotonic clock. Its thread ends soon after the clock is dropped.
    pub fn start() -> std::io::Result<Self> {
        let clock = MonotonicClock::new();
        let time = Arc::new(AtomicU64::new(clock.now().get()));
        let weak = Arc::downgrade(&time);
        thread::Builder::new().name("tollgate-clock".to_owned()).spawn(move || keep(&weak, &clock))?;
        Ok(Self { time })
    }
}

fn keep(time: &Weak<AtomicU64>, clock: &MonotonicClock) {
    while let Some(time) = time.upgrade() {
        time.store(clock.now().get(), Ordering::Release);
        drop(time);
        thread::sleep(CachedClock::EVERY);
    }
}

impl Clock for CachedClock {
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
