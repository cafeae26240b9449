//! The bytes a store may take, and those it has taken.

use crate::sync::{AtomicUsize, Ordering};

/// A cap on bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    cap: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(cap: usize) -> Self {
        Self { cap, used: AtomicUsize::new(0) }
    }

    /// Takes `bytes` if the cap allows them.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.cap);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts bytes that are taken already, whatever the cap says.
    pub(crate) fn count(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether `bytes` more would pass the cap.
    pub(crate) fn lacks(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) > self.cap
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn cap(&self) -> usize {
        self.cap
    }
}
