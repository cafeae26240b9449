//! Leases that are freed on drop: however their holder ends, the server is told that the place is free.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_kernel::StoreError;

use super::Leases;
use super::lease::Lease;

/// A lease that is held until this value is dropped.
pub(crate) struct HeldLease {
    leases: Arc<Leases>,
    lease: Option<Arc<Lease>>,
}

impl HeldLease {
    pub(crate) fn is_lost(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.is_lost())
    }

    /// Returns how long the lease lasts if it is not renewed.
    pub(crate) fn left(&self) -> Duration {
        Duration::from_micros(self.lease.as_ref().map_or(0, |lease| lease.left()))
    }

    /// Frees the lease and waits until it is free.
    pub(crate) async fn free(mut self) -> Result<(), StoreError> {
        let Some(lease) = self.lease.take() else { return Ok(()) };
        let ended = || StoreError::Away { why: "the runtime of the permits has ended".into(), untouched: false };
        self.leases.start_to_free(lease).await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.leases.start_to_free(lease);
        }
    }
}

impl fmt::Debug for HeldLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldLease").field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}

/// A lease that has been requested. It is freed on drop unless its outcome is known: the caller may stop waiting at any
/// moment, and a call without an answer may have run.
pub(crate) struct PendingLease<'a> {
    leases: &'a Arc<Leases>,
    lease: Arc<Lease>,
    settled: bool,
}

impl<'a> PendingLease<'a> {
    pub(crate) fn new(leases: &'a Arc<Leases>, lease: Arc<Lease>) -> Self {
        Self { leases, lease, settled: false }
    }

    pub(crate) fn id(&self) -> u128 {
        self.lease.id
    }

    /// Records that the lease was not taken.
    pub(crate) fn settle(mut self) {
        self.settled = true;
    }

    /// Records that the lease was taken. Returns an error if that is so long ago that the lease can no longer be relied
    /// on.
    pub(crate) fn hold(mut self) -> Result<HeldLease, StoreError> {
        if self.lease.is_lost() {
            return Err(StoreError::Away { why: "the answer came after the lease".into(), untouched: false });
        }
        self.settled = true;
        self.leases.hold(self.lease.clone());
        Ok(HeldLease { leases: self.leases.clone(), lease: Some(self.lease.clone()) })
    }
}

impl Drop for PendingLease<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.leases.start_to_free(self.lease.clone());
        }
    }
}
