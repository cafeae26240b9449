//! The trait through which a home reads the time.

use crate::units::Timestamp;

/// The clock of a home that decides in process. Time that goes back is not an error: the kernel's clock rule handles
/// it.
pub trait Clock: Send + Sync {
    /// Returns the time by which decisions are made. It should not follow corrections of the machine's clock.
    fn now(&self) -> Timestamp;

    /// Returns whether the clock never goes back: a reading made after another is not earlier, whichever threads make
    /// them. If so, a store may answer some requests without deciding them again.
    fn is_monotonic(&self) -> bool {
        false
    }

    /// Returns the time of the machine's clock as it is set now, for windows that are aligned to it.
    fn wall(&self) -> Timestamp {
        self.now()
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn is_monotonic(&self) -> bool {
        (**self).is_monotonic()
    }

    fn wall(&self) -> Timestamp {
        (**self).wall()
    }
}
