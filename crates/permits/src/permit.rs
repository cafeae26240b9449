//! What is held while something runs. Law: a permit that is gone, however it went, takes no place.

use std::time::Duration;

use tollgate_core::{Source, StoreError};

use crate::counts::Place;
#[cfg(feature = "redis")]
use crate::leases::Leased;

/// A place among those that may run at once. Dropping it frees the place.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use tollgate_permits::{Acquired, Concurrency};
///
/// let limit = Concurrency::memory(1).unwrap();
/// let Acquired::Held(permit) = limit.acquire(b"k").await.unwrap() else { panic!("it is free") };
/// assert!(!permit.is_lost());
/// permit.release().await.unwrap();
/// assert!(matches!(limit.acquire(b"k").await.unwrap(), Acquired::Held(_)));
/// # });
/// ```
#[derive(Debug)]
#[must_use = "a permit is freed when it is dropped"]
pub struct Permit {
    #[cfg(feature = "redis")]
    leased: Option<Leased>,
    /// In this process; none if nobody counts.
    place: Option<Place>,
    source: Source,
}

impl Permit {
    pub(crate) fn counted(place: Place, source: Source) -> Self {
        Self {
            #[cfg(feature = "redis")]
            leased: None,
            place: Some(place),
            source,
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn leased(leased: Leased, place: Option<Place>) -> Self {
        Self { leased: Some(leased), place, source: Source::Home }
    }

    /// One that nobody counts.
    pub(crate) fn open() -> Self {
        Self {
            #[cfg(feature = "redis")]
            leased: None,
            place: None,
            source: Source::Open,
        }
    }

    /// Who granted it: the home; or, while Redis did not answer, this process (`Local`) or nobody (`Open`).
    pub fn source(&self) -> Source {
        self.source
    }

    /// Whether the place may be another's by now: the lease was not renewed in time, since Redis did not answer or
    /// forgot it. It stays so. Told a little before Redis gives the place away: a hundredth of the lease and 2 ms. A
    /// permit that no lease stands behind is never lost.
    pub fn is_lost(&self) -> bool {
        #[cfg(feature = "redis")]
        return self.leased.as_ref().is_some_and(Leased::is_lost);
        #[cfg(not(feature = "redis"))]
        false
    }

    /// How long the place is surely this permit's if the lease is not renewed meanwhile: nothing once it is lost.
    /// `None` if no lease stands behind it: then it is for as long as it is held.
    pub fn left(&self) -> Option<Duration> {
        #[cfg(feature = "redis")]
        return self.leased.as_ref().map(Leased::left);
        #[cfg(not(feature = "redis"))]
        None
    }

    /// Frees the place and waits until it is free. An error says that Redis did not answer: it is asked again in the
    /// background, and at the latest the place is free when the lease ends. Who stops waiting stops nothing.
    pub async fn release(self) -> Result<(), StoreError> {
        drop(self.place);
        #[cfg(feature = "redis")]
        if let Some(leased) = self.leased {
            return leased.free().await;
        }
        Ok(())
    }
}
