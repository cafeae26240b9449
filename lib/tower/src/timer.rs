//! The timer by which requests wait: the only place in this crate where time passes.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tollgate_kernel::{Micros, Timestamp};

/// A sleep.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A clock that can be waited for. Law: when a sleep of `span` that was started at `t` ends, `now` is at least `t +
/// span`.
pub trait Timer: Send + Sync + 'static {
    /// Returns the current time by this clock.
    fn now(&self) -> Timestamp;

    /// Returns a future that ends after `span`, by this clock. A sleep that is dropped costs nothing from then on.
    fn sleep(&self, span: Micros) -> Sleep;
}

/// The timer of the tokio runtime, in which the services of this crate run.
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer {
    began: tokio::time::Instant,
}

impl TokioTimer {
    /// Creates a timer that starts at zero.
    pub fn new() -> Self {
        Self { began: tokio::time::Instant::now() }
    }
}

impl Default for TokioTimer {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer for TokioTimer {
    fn now(&self) -> Timestamp {
        Timestamp::saturating(Micros::from(self.began.elapsed()).get())
    }

    fn sleep(&self, span: Micros) -> Sleep {
        Box::pin(tokio::time::sleep(Duration::from(span)))
    }
}
