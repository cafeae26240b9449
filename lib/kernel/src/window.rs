//! A counted window: the state of `fixed` and `bucket`.

use crate::units::{EXACT, Timestamp};

/// The start of a window, and the units used in it. A window in which nothing is used is not open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub(crate) start: Timestamp,
    pub(crate) used: u64,
}

impl Window {
    /// Creates a window that begins at `start`.
    pub(crate) fn opening(start: Timestamp) -> Self {
        Self { start, used: 0 }
    }

    /// Returns the window in two words.
    #[inline]
    pub(crate) fn pack(&self) -> [u64; 2] {
        [self.start.get(), self.used]
    }

    /// Returns the window that these words hold.
    #[inline]
    pub(crate) fn unpack([start, used]: [u64; 2]) -> Self {
        Self { start: Timestamp::from_word(start), used }
    }

    /// Counts `units`, exactly up to 2^53, and returns how many were counted.
    pub(crate) fn count(&mut self, units: u64) -> u64 {
        let used = self.used;
        self.used = used.saturating_add(units).min(EXACT);
        self.used - used
    }

    /// Takes back up to `units`, and returns how many.
    pub(crate) fn give_back(&mut self, units: u64) -> u64 {
        let given = units.min(self.used);
        self.used -= given;
        given
    }
}
