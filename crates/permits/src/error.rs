//! What is wrong with a setting: nothing was made then.

use std::fmt;
#[cfg(feature = "redis")]
use std::time::Duration;

use crate::concurrency::MOST;
#[cfg(feature = "redis")]
use crate::leases::{LONGEST_LEASE, SHORTEST_LEASE};

/// Why there is no such limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// Not 1 to 1,000,000 at once.
    Most(u32),
    /// Not a name of 1 to 64 letters, digits, `-` and `_`.
    #[cfg(feature = "redis")]
    Name(String),
    /// Not a lease of 100 ms to 24 h.
    #[cfg(feature = "redis")]
    Lease(Duration),
    /// A server that runs no scripts.
    #[cfg(feature = "redis")]
    Server,
    /// There is no tokio runtime here to renew leases in.
    #[cfg(feature = "redis")]
    Runtime,
    /// The system gives no random numbers: why.
    #[cfg(feature = "redis")]
    Random(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Most(most) => write!(f, "expected 1 to {MOST} at once, found {most}"),
            #[cfg(feature = "redis")]
            Self::Name(name) => write!(f, "expected a name of 1 to 64 letters, digits, - and _, found {name:?}"),
            #[cfg(feature = "redis")]
            Self::Lease(lease) => {
                write!(f, "expected a lease of {SHORTEST_LEASE:?} to {} h, found {lease:?}", LONGEST_LEASE.as_secs() / 3600)
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
