//! Where a home reads the time.

use crate::units::Timestamp;

/// The clock of a home that decides in process. Time that goes back is no error: the kernel's clock
/// rule holds it.
pub trait Clock: Send + Sync {
    /// The time decisions are made by. It should not follow corrections of the machine's clock.
    fn now(&self) -> Timestamp;

    /// Whether it never goes back: a reading made after another is not earlier, whichever threads make
    /// them. If so, some questions need not be asked again.
    fn is_monotonic(&self) -> bool {
        false
    }

    /// The time of the machine's clock as it is set now: for windows that begin by it.
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
