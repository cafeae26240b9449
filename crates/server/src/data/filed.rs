//! A policy as the embedded store knows it, and as the journal tells of it: by a number, whose meaning stands in
//! each file before its first use.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{OnError, Policy, Timestamp};
use tollgate_memory::Prepared;

use super::frame::put_policy;
use crate::metrics::Whose;

/// A policy, and what the journal calls it. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Filed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    prepared: Prepared,
    /// The store keeps one policy for all that have the same limits, so this stands here.
    on_error: OnError,
    whose: Whose,
    id: u64,
    /// The file of the journal that tells what the number means; 0 is none.
    file: AtomicU64,
    /// The latest decision under it: a clock that reads less was set back.
    latest: AtomicU64,
}

impl Filed {
    pub(super) fn new(prepared: Prepared, policy: &Policy, whose: Whose, id: u64, latest: Timestamp) -> Self {
        let (file, latest) = (AtomicU64::new(0), AtomicU64::new(latest.get()));
        Self(Arc::new(Inner { prepared, on_error: policy.on_error(), whose, id, file, latest }))
    }

    pub(super) fn id(&self) -> u64 {
        self.0.id
    }

    pub(super) fn on_error(&self) -> OnError {
        self.0.on_error
    }

    /// Tells what the number means, if `file` does not yet. The order lock is held.
    pub(super) fn tell(&self, file: u64, to: &mut Vec<u8>) {
        if self.0.file.load(Ordering::Relaxed) != file {
            put_policy(self.0.id, self.policy(), self.0.whose, to);
            self.0.file.store(file, Ordering::Relaxed);
        }
    }

    /// Whether a decision is earlier than one before it. The order lock is held.
    pub(super) fn is_behind(&self, at: Timestamp) -> bool {
        let latest = self.0.latest.load(Ordering::Relaxed);
        if at.get() > latest {
            self.0.latest.store(at.get(), Ordering::Relaxed);
        }
        at.get() < latest
    }
}

impl Deref for Filed {
    type Target = Prepared;

    fn deref(&self) -> &Prepared {
        &self.0.prepared
    }
}
