//! How late the machine is while something is measured: others may use it too.
//!
//! A task sleeps a few milliseconds over and over, as the store's deadlines do, and notes when it was woken
//! late. A call that took too long is forgiven the lateness that fell into it, and no other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

const SLEEP: Duration = Duration::from_millis(2);
/// Timers of the runtime have a grain of a millisecond.
const GRAIN: Duration = Duration::from_millis(1);
/// Sleeps at the same time: the runtime's threads may be late one by one.
const TASKS: usize = 4;

/// When a sleep should have ended, and when it did.
type LateWake = (Instant, Instant);
type LateWakes = Arc<Mutex<Vec<LateWake>>>;

pub(crate) struct LatenessMonitor {
    tasks: Vec<(LateWakes, JoinHandle<()>)>,
}

impl LatenessMonitor {
    pub(crate) fn start() -> Self {
        Self { tasks: (0..TASKS).map(|_| watch_sleeps()).collect() }
    }

    /// The lateness that fell between two moments, by the task that saw most of it.
    pub(crate) fn within(&self, from: Instant, to: Instant) -> Duration {
        let overlap = |(due, woken): &LateWake| (*woken).min(to).saturating_duration_since((*due).max(from));
        let seen = |noted: &Mutex<Vec<LateWake>>| lock(noted).iter().map(overlap).sum();
        self.tasks.iter().map(|(noted, _)| seen(noted)).max().unwrap_or_default()
    }

    /// The longest that one sleep was late.
    pub(crate) fn longest(&self) -> Duration {
        let longest = |noted: &Mutex<Vec<LateWake>>| lock(noted).iter().map(|(due, woken)| *woken - *due).max();
        self.tasks.iter().filter_map(|(noted, _)| longest(noted)).max().unwrap_or_default()
    }
}

impl Drop for LatenessMonitor {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|(_, task)| task.abort());
    }
}

fn watch_sleeps() -> (LateWakes, JoinHandle<()>) {
    let noted = LateWakes::default();
    let notes = noted.clone();
    let task = tokio::spawn(async move {
        loop {
            let due = Instant::now() + SLEEP + GRAIN;
            tokio::time::sleep(SLEEP).await;
            let woken = Instant::now();
            if woken > due {
                lock(&notes).push((due, woken));
            }
        }
    });
    (noted, task)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
