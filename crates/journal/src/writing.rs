//! The order lock, and what is framed while it is held.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use crate::error::Failed;
use crate::frame::{self, MOST_RECORD, RECORD};
use crate::inner::{Inner, MOST_PENDING, Order};

/// The order lock, while it is held.
pub struct Writing<'a> {
    // Fields are dropped in this order: first the lock, then what must not be done while it is held.
    order: MutexGuard<'a, Order>,
    after: After<'a>,
}

impl<'a> Writing<'a> {
    pub(crate) fn new(inner: &'a Inner) -> Self {
        Self { order: inner.order(), after: After { inner, large: false } }
    }

    /// Frames one record of at most [`MOST_RECORD`] bytes, which `fill` puts into an empty buffer. A longer one fails
    /// the journal, since what was decided could not be kept. While the health is not good nothing is kept, and `fill`
    /// is not called, except behind a rotation that is to put it right.
    pub fn frame(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let (order, inner) = (&mut *self.order, self.after.inner);
        if order.closed {
            return;
        }
        order.scratch.clear();
        fill(&mut order.scratch);
        if order.scratch.len() > MOST_RECORD {
            let what = format!("a record of {} bytes, expected at most {MOST_RECORD}", order.scratch.len());
            order.scratch = Vec::new();
            inner.fail(order, Failed::Disk(what));
            return;
        }
        frame::put(&mut order.bytes, order.next, RECORD, &order.scratch);
        inner.framed.store(order.next, Ordering::Release);
        order.next += 1;
        inner.counts.framed();
        if order.bytes.len() >= MOST_PENDING {
            self.after.large = true;
            if let Ok(mut out) = inner.out.try_lock() {
                let taken = inner.take(order, &mut out);
                // What failed is told by the health.
                _ = inner.put(order, &mut out, taken);
                self.after.large = false;
            }
        }
    }

    /// The number of the present file: what is framed now goes there.
    pub fn file(&self) -> u64 {
        self.order.file
    }
}

impl std::fmt::Debug for Writing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writing").field("file", &self.order.file).finish_non_exhaustive()
    }
}

/// What is done when the order lock was let go.
struct After<'a> {
    inner: &'a Inner,
    large: bool,
}

impl Drop for After<'_> {
    fn drop(&mut self) {
        if self.large {
            let mut out = self.inner.out();
            // What failed is told by the health.
            _ = self.inner.write_pending(&mut out);
        }
    }
}
