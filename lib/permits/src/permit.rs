//! The permit that is held while an operation runs. Law: a permit that no longer exists takes no place, however it
//! ended.

use std::time::Duration;

use tollgate_kernel::{Source, StoreError};

use crate::counts::PermitPlace;
#[cfg(feature = "redis")]
use crate::leases::HeldLease;

/// The right to be one of a limited number of operations that run at once. Dropping it frees the place.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use tollgate_permits::{Acquisition, Concurrency};
///
/// let limit = Concurrency::memory(1).unwrap();
/// let Acquisition::Held(permit) = limit.acquire(b"k").await.unwrap() else { panic!("it is free") };
/// assert!(!permit.is_lost());
/// permit.release().await.unwrap();
/// assert!(matches!(limit.acquire(b"k").await.unwrap(), Acquisition::Held(_)));
/// # });
/// ```
#[derive(Debug)]
#[must_use = "a permit is freed when it is dropped"]
pub struct Permit {
    #[cfg(feature = "redis")]
    leased: Option<HeldLease>,
    /// The place in this process; `None` if the permit is not counted.
    place: Option<PermitPlace>,
    source: Source,
}

impl Permit {
    pub(crate) fn counted(place: PermitPlace, source: Source) -> Self {
        Self {
            #[cfg(feature = "redis")]
            leased: None,
            place: Some(place),
            source,
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn leased(leased: HeldLease, place: Option<PermitPlace>) -> Self {
        Self { leased: Some(leased), place, source: Source::Home }
    }

    /// Creates a permit that is not counted.
    pub(crate) fn open() -> Self {
        Self {
            #[cfg(feature = "redis")]
            leased: None,
            place: None,
            source: Source::Open,
        }
    }

    /// Returns where the permit was granted: at home; or, while Redis did not answer, by this process (`Local`) or
    /// without a check (`Open`).
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns whether the place may have been given to another holder: the lease was not renewed in time, because
    /// Redis did not answer or lost it. A lost permit stays lost. The loss is reported a little before Redis gives the
    /// place away: by a hundredth of the lease and 2 ms. A permit without a lease is never lost.
    pub fn is_lost(&self) -> bool {
        #[cfg(feature = "redis")]
        return self.leased.as_ref().is_some_and(HeldLease::is_lost);
        #[cfg(not(feature = "redis"))]
        false
    }

    /// Returns how long the place certainly belongs to this permit if the lease is not renewed; zero once it is lost.
    /// Returns `None` if there is no lease: the place then belongs to the permit for as long as it is held.
    pub fn left(&self) -> Option<Duration> {
        #[cfg(feature = "redis")]
        return self.leased.as_ref().map(HeldLease::left);
        #[cfg(not(feature = "redis"))]
        None
    }

    /// Frees the place and waits until it is free. An error means that Redis did not answer: freeing is then tried
    /// again in the background, and the place is free at the latest when the lease ends. Dropping the future does not
    /// stop this.
    pub async fn release(self) -> Result<(), StoreError> {
        drop(self.place);
        #[cfg(feature = "redis")]
        if let Some(leased) = self.leased {
            return leased.free().await;
        }
        Ok(())
    }
}
