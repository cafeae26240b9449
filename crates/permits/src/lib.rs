//! At most so many of a key at once: a limit on what is in flight, beside policies, which limit what comes in.
//!
//! A [`Permit`] is held for as long as something runs, and frees its place when it is dropped: at the end, when the
//! task is cancelled, and when it panics. In one process that is a count a key. With the feature `redis` it is a
//! lease in Redis or Valkey: renewed while the permit is held, freed by the drop, and by itself once its holder is
//! dead.
//!
//! ```
//! use tollgate_permits::{Acquired, Concurrency};
//!
//! let uploads = Concurrency::memory(2)?;
//! let take = || uploads.acquire(b"alice").ready().unwrap();
//! let (Acquired::Held(first), Acquired::Held(_second)) = (take()?, take()?) else { panic!("two fit") };
//! assert!(matches!(take()?, Acquired::Full(full) if full.most == 2));
//! drop(first);
//! assert!(matches!(take()?, Acquired::Held(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `concurrency.rs` | the limit as its callers see it |
//! | `permit.rs` | what they hold |
//! | `counts.rs` | places taken in this process |
//! | `error.rs` | what is wrong with a setting |
//! | `leases/` | places taken in Redis or Valkey (feature `redis`) |

mod concurrency;
mod counts;
mod error;
#[cfg(feature = "redis")]
mod leases;
mod permit;

pub use concurrency::{Acquired, Concurrency, Full, MOST, MOST_KEYS};
pub use error::SetupError;
pub use permit::Permit;
