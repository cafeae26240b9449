//! A counted window: what `fixed` and `bucket` remember.

use crate::units::{EXACT, Timestamp};

/// When a window began, and what was used in it. One in which nothing is used is not open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub(crate) start: Timestamp,
    pub(crate) used: u64,
}

impl Window {
    /// A window that begins at `start`.
    pub(crate) fn opening(start: Timestamp) -> Self {
        Self { start, used: 0 }
    }

    /// The window in two words.
    #[inline]
    pub(crate) fn pack(&self) -> [u64; 2] {
        [self.start.get(), self.used]
    }

    /// The window of these words.
    #[inline]
    pub(crate) fn unpack([start, used]: [u64; 2]) -> Self {
        Self { start: Timestamp::from_word(start), used }
    }

    /// Counts `units`, exactly up to 2^53; answers how many were counted.
    pub(crate) fn count(&mut self, units: u64) -> u64 {
        let used = self.used;
        self.used = used.saturating_add(units).min(EXACT);
        self.used - used
    }

    /// Takes back up to `units`; answers how many.
    pub(crate) fn give_back(&mut self, units: u64) -> u64 {
        let given = units.min(self.used);
        self.used -= given;
        given
    }
}
