//! Errors in the settings of a limit, which is not created then.

use std::fmt;
#[cfg(feature = "redis")]
use std::time::Duration;

use crate::concurrency::MAX;
#[cfg(feature = "redis")]
use crate::leases::{MAX_LEASE, MIN_LEASE};

/// The reason why a limit could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// The number of permits is not in the range 1 to 1,000,000.
    Most(u32),
    /// The name does not consist of 1 to 64 letters, digits, `-` and `_`.
    #[cfg(feature = "redis")]
    Name(String),
    /// The lease is not in the range 100 ms to 24 h.
    #[cfg(feature = "redis")]
    Lease(Duration),
    /// The server does not run scripts.
    #[cfg(feature = "redis")]
    Server,
    /// There is no tokio runtime to renew leases in.
    #[cfg(feature = "redis")]
    Runtime,
    /// The system provides no random numbers, for the given reason.
    #[cfg(feature = "redis")]
    Random(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Most(most) => write!(f, "expected 1 to {MAX} at once, found {most}"),
            #[cfg(feature = "redis")]
            Self::Name(name) => write!(f, "expected a name of 1 to 64 letters, digits, - and _, found {name:?}"),
            #[cfg(feature = "redis")]
            Self::Lease(lease) => {
                write!(f, "expected a lease of {MIN_LEASE:?} to {} h, found {lease:?}", MAX_LEASE.as_secs() / 3600)
            }
            #[cfg(feature = "redis")]
            Self::Server => f.write_str(
                "expected a Redis or Valkey, found a Tollgate server, which has no permits; open the store with redis://",
            ),
            #[cfg(feature = "redis")]
            Self::Runtime => f.write_str("expected a tokio runtime to renew leases in"),
            #[cfg(feature = "redis")]
            Self::Random(why) => write!(f, "expected random numbers from the system: {why}"),
        }
    }
}

impl std::error::Error for SetupError {}
