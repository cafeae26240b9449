//! The public interface of a concurrency limit.

use std::sync::Arc;
#[cfg(feature = "redis")]
use std::time::Duration;

use tollgate_kernel::{Micros, OnError, Reply, Source, StoreError};

use crate::counts::PermitCounts;
use crate::error::SetupError;
#[cfg(feature = "redis")]
use crate::leases::Leases;
use crate::permit::Permit;

/// The maximum number of permits of a key that a limit can allow.
pub const MAX: u32 = 1_000_000;
/// The default for the maximum number of keys with a permit in this process.
pub const MAX_KEYS: usize = 1_000_000;

/// A limit on the number of permits of a key that are held at once. It is cheap to clone; clones share their state.
///
/// ```
/// use tollgate_permits::{Acquisition, Concurrency};
///
/// let reports = Concurrency::memory(1)?;
/// let Acquisition::Held(permit) = reports.acquire(b"alice").ready().unwrap()? else { panic!("it is free") };
/// assert!(matches!(reports.acquire(b"alice").ready().unwrap()?, Acquisition::Full(_)));
/// assert!(matches!(reports.acquire(b"bob").ready().unwrap()?, Acquisition::Held(_)), "keys do not share");
/// assert_eq!(reports.held(b"alice").ready().unwrap()?, 1);
/// drop(permit);
/// assert_eq!(reports.held(b"alice").ready().unwrap()?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Concurrency {
    home: PermitHome,
    most: u32,
    most_keys: usize,
    on_error: OnError,
}

#[derive(Clone, Debug)]
enum PermitHome {
    Memory(Arc<PermitCounts>),
    #[cfg(feature = "redis")]
    Redis(Arc<Leases>),
}

/// The answer to a request for a permit.
#[derive(Debug)]
#[must_use = "a permit is freed at once if it is not kept"]
pub enum Acquisition {
    /// The caller may run for as long as it keeps the permit.
    Held(Permit),
    /// The caller may not run now.
    Full(PermitRefusal),
}

/// The reason why no permit was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitRefusal {
    /// The maximum number of permits held at once.
    pub most: u32,
    /// In Redis: the time until the first of the current leases ends, unless its holder renews it. This is a hint when
    /// to try again; most permits are freed long before. In process it is `None`, because the time is not known.
    pub retry_after: Option<Micros>,
    /// Where the decision was made; `Closed` if the request was refused without one.
    pub source: Source,
}

impl Concurrency {
    /// Creates a limit of `most` permits of a key in this process.
    pub fn memory(most: u32) -> Result<Self, SetupError> {
        Self::of(most, || Ok(PermitHome::Memory(Arc::new(PermitCounts::new()))))
    }

    /// Creates a limit of `most` permits of a key across all processes that use this Redis or Valkey and this name. A
    /// permit is a lease: it is renewed at the latest after a third of its length while the permit is held, and ends by
    /// itself if it is not renewed.
    ///
    /// Only the server's clock decides when a lease ends. If that clock is set forward by more than the length of a
    /// lease, all leases end early; if it is set back, no caller waits longer than the length of a lease.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use tollgate_permits::{Acquisition, Concurrency};
    /// use tollgate_redis::Redis;
    ///
    /// let store = Redis::builder("redis://127.0.0.1:6379").share(0.25).connect().await?;
    /// let exports = Concurrency::redis(store, "exports", 10, Duration::from_secs(30))?;
    /// match exports.acquire(b"alice").await? {
    ///     Acquisition::Held(permit) => {
    ///         // Export. A long operation checks permit.is_lost() from time to time.
    ///         permit.release().await?;
    ///     }
    ///     Acquisition::Full(full) => println!("{} are running", full.most),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn redis(store: tollgate_redis::Redis, name: &str, most: u32, lease: Duration) -> Result<Self, SetupError> {
        Self::of(most, || Ok(PermitHome::Redis(Leases::new(store, name, most, lease)?)))
    }

    fn of(most: u32, home: impl FnOnce() -> Result<PermitHome, SetupError>) -> Result<Self, SetupError> {
        if most == 0 || most > MAX {
            return Err(SetupError::Most(most));
        }
        Ok(Self { home: home()?, most, most_keys: MAX_KEYS, on_error: OnError::default() })
    }

    /// Sets the maximum number of keys that may have a permit in this process at once; further keys are refused as
    /// full. The default is 1,000,000. With Redis it bounds only the permits that this process grants by itself.
    #[must_use]
    pub fn most_keys(self, most_keys: usize) -> Self {
        Self { most_keys, ..self }
    }

    /// Sets what decides while Redis does not answer. The default is `Local`: this process decides, up to the store's
    /// share of the permits (rounded down, at least 1), including those that it already holds.
    #[must_use]
    pub fn on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// Returns the maximum number of permits of a key that may be held at once.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Takes a permit of the key if one is free. In process the answer is available immediately. In Redis it arrives
    /// within the store's deadline; a caller may stop waiting at any time, and a permit granted meanwhile is freed.
    pub fn acquire<'a>(&'a self, key: &'a [u8]) -> Reply<'a, Acquisition> {
        match &self.home {
            PermitHome::Memory(counts) => Reply::now(StoreError::check_key(key).map(|()| {
                let place = counts.take(key, self.most, self.most_keys);
                place.map_or(self.full(None, Source::Home), |place| {
                    Acquisition::Held(Permit::counted(place, Source::Home))
                })
            })),
            #[cfg(feature = "redis")]
            PermitHome::Redis(leases) => Reply::later(self.acquire_lease(leases, key)),
        }
    }

    /// Returns the number of permits of the key that are held now.
    pub fn held<'a>(&'a self, key: &'a [u8]) -> Reply<'a, u32> {
        match &self.home {
            PermitHome::Memory(counts) => Reply::now(StoreError::check_key(key).map(|()| counts.count(key))),
            #[cfg(feature = "redis")]
            PermitHome::Redis(leases) => Reply::later(leases.held(key)),
        }
    }

    /// Returns the number of keys with a permit in this process.
    pub fn keys(&self) -> usize {
        match &self.home {
            PermitHome::Memory(counts) => counts.keys(),
            #[cfg(feature = "redis")]
            PermitHome::Redis(leases) => leases.counts().keys(),
        }
    }

    /// Decides as [`Concurrency::on_error`] specifies for the time when Redis does not answer. Callers can also use it
    /// where Redis answered with an error. An invalid key is always refused.
    pub fn stand_in(&self, key: &[u8]) -> Acquisition {
        if StoreError::check_key(key).is_err() {
            return self.full(None, Source::Local);
        }
        let (counts, most) = match &self.home {
            PermitHome::Memory(counts) => (counts, self.most),
            #[cfg(feature = "redis")]
            PermitHome::Redis(leases) => (leases.counts(), leases.share_of(self.most)),
        };
        match self.on_error {
            OnError::Allow => Acquisition::Held(Permit::open()),
            // The server is tried again within this time.
            OnError::Deny => self.full(Some(Micros::from_secs(1)), Source::Closed),
            OnError::Local => {
                let held = |place| Acquisition::Held(Permit::counted(place, Source::Local));
                counts.take(key, most, self.most_keys).map_or_else(|| self.full(None, Source::Local), held)
            }
        }
    }

    #[cfg(feature = "redis")]
    async fn acquire_lease(&self, leases: &Arc<Leases>, key: &[u8]) -> Result<Acquisition, StoreError> {
        use crate::leases::LeaseAnswer;
        match leases.acquire(key).await {
            Ok(LeaseAnswer::Held(leased)) => {
                let place = leases.counts().take(key, u32::MAX, usize::MAX);
                Ok(Acquisition::Held(Permit::leased(leased, place)))
            }
            Ok(LeaseAnswer::Full(wait)) => Ok(self.full(Some(wait), Source::Home)),
            Err(StoreError::Away { .. }) => Ok(self.stand_in(key)),
            Err(error) => Err(error),
        }
    }

    fn full(&self, retry_after: Option<Micros>, source: Source) -> Acquisition {
        Acquisition::Full(PermitRefusal { most: self.most, retry_after, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(limit: &Concurrency, key: &[u8]) -> Result<Acquisition, StoreError> {
        limit.acquire(key).ready().unwrap()
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for most in [0, MAX + 1, u32::MAX] {
            let error = Concurrency::memory(most).unwrap_err();
            assert_eq!(error.to_string(), format!("expected 1 to 1000000 at once, found {most}"));
        }
        assert_eq!(Concurrency::memory(MAX).unwrap().most(), MAX);
    }

    #[test]
    fn a_key_has_1_to_512_bytes() {
        let limit = Concurrency::memory(1).unwrap();
        for len in [0, 513, 100_000] {
            assert!(matches!(take(&limit, &vec![b'k'; len]), Err(StoreError::Key(found)) if found == len));
            assert!(matches!(limit.held(&vec![b'k'; len]).ready().unwrap(), Err(StoreError::Key(_))));
        }
        for len in [1, 512] {
            assert!(matches!(take(&limit, &vec![b'k'; len]), Ok(Acquisition::Held(_))));
        }
        assert_eq!(limit.keys(), 0);
    }

    #[test]
    fn a_key_beyond_the_maximum_is_refused_as_full() {
        let limit = Concurrency::memory(5).unwrap().most_keys(1);
        let Ok(Acquisition::Held(permit)) = take(&limit, b"one") else { panic!() };
        let Ok(Acquisition::Full(full)) = take(&limit, b"two") else { panic!() };
        assert_eq!(full, PermitRefusal { most: 5, retry_after: None, source: Source::Home });
        drop(permit);
        assert!(matches!(take(&limit, b"two"), Ok(Acquisition::Held(_))));
    }

    #[test]
    fn a_stand_in_decides_as_on_error_says() {
        let limit = Concurrency::memory(1).unwrap();
        let Acquisition::Held(held) = limit.stand_in(b"k") else { panic!() };
        assert_eq!(held.source(), Source::Local);
        assert!(matches!(limit.stand_in(b"k"), Acquisition::Full(full) if full.source == Source::Local));
        let open = limit.clone().on_error(OnError::Allow);
        assert!(matches!(open.stand_in(b"k"), Acquisition::Held(permit) if permit.source() == Source::Open));
        let closed = limit.on_error(OnError::Deny);
        assert!(matches!(closed.stand_in(b"other"), Acquisition::Full(full) if full.source == Source::Closed));
        for key in [vec![], vec![b'k'; 513]] {
            assert!(matches!(open.stand_in(&key), Acquisition::Full(_)));
        }
    }

    #[test]
    fn clones_share_their_permits() {
        let limit = Concurrency::memory(1).unwrap();
        let other = limit.clone();
        let held = take(&limit, b"k").unwrap();
        assert!(matches!(take(&other, b"k"), Ok(Acquisition::Full(_))));
        drop(limit);
        drop(held);
        assert!(matches!(take(&other, b"k"), Ok(Acquisition::Held(_))));
    }

    #[test]
    fn a_panic_frees_what_it_unwinds() {
        let limit = Concurrency::memory(1).unwrap();
        let other = limit.clone();
        let died = std::thread::spawn(move || {
            let _held = take(&other, b"k");
            panic!("on purpose");
        });
        assert!(died.join().is_err());
        assert!(matches!(take(&limit, b"k"), Ok(Acquisition::Held(_))));
    }
}
