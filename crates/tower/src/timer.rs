//! Where waiting is measured: the one seam of everything here that lets time pass.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tollgate_core::{Micros, Timestamp};

/// A sleep.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A clock that can be waited for. Law: once a sleep of `span` that was begun at `t` ends, `now` is at least
/// `t + span`.
pub trait Timer: Send + Sync + 'static {
    /// The time by this clock.
    fn now(&self) -> Timestamp;

    /// Ends after `span`, by this clock. A sleep that is dropped costs nothing from then on.
    fn sleep(&self, span: Micros) -> Sleep;
}

/// The timer of the tokio runtime, which every service here runs in.
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer {
    began: tokio::time::Instant,
}

impl TokioTimer {
    /// A timer that begins at zero.
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
