//! The order lock, and the records that are framed while it is held.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use crate::error::JournalError;
use crate::frame::{self, MAX_RECORD, RECORD};
use crate::inner::{JournalInner, MAX_PENDING, PendingFrames};

/// Frames records while it holds the order lock.
pub struct JournalWriter<'a> {
    // Fields are dropped in this order: first the lock, then what must not be done while it is held.
    order: MutexGuard<'a, PendingFrames>,
    after: DeferredWrite<'a>,
}

impl<'a> JournalWriter<'a> {
    pub(crate) fn new(inner: &'a JournalInner) -> Self {
        Self { order: inner.order(), after: DeferredWrite { inner, large: false } }
    }

    /// Frames one record of at most [`MAX_RECORD`] bytes, which `fill` writes to an empty buffer. A longer one fails
    /// the journal, because the decision could not be stored. While the health is not good nothing is stored, and
    /// `fill` is not called, except after a rotation that is to restore it.
    pub fn frame(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let (order, inner) = (&mut *self.order, self.after.inner);
        if order.closed {
            return;
        }
        order.scratch.clear();
        fill(&mut order.scratch);
        if order.scratch.len() > MAX_RECORD {
            let what = format!("a record of {} bytes, expected at most {MAX_RECORD}", order.scratch.len());
            order.scratch = Vec::new();
            inner.fail(order, JournalError::Disk(what));
            return;
        }
        frame::put(&mut order.bytes, order.next, RECORD, &order.scratch);
        inner.framed.store(order.next, Ordering::Release);
        order.next += 1;
        inner.counts.framed();
        if order.bytes.len() >= MAX_PENDING {
            self.after.large = true;
            if let Ok(mut out) = inner.out.try_lock() {
                let taken = inner.take_pending(order, &mut out);
                // A failure is reported by the health.
                _ = inner.write_taken(order, &mut out, taken);
                self.after.large = false;
            }
        }
    }

    /// Returns the number of the current file, to which records are framed now.
    pub fn file(&self) -> u64 {
        self.order.file
    }
}

impl std::fmt::Debug for JournalWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalWriter").field("file", &self.order.file).finish_non_exhaustive()
    }
}

/// The work to do after the order lock is released.
struct DeferredWrite<'a> {
    inner: &'a JournalInner,
    large: bool,
}

impl Drop for DeferredWrite<'_> {
    fn drop(&mut self) {
        if self.large {
            let mut out = self.inner.out();
            // A failure is reported by the health.
            _ = self.inner.write_pending(&mut out);
        }
    }
}
