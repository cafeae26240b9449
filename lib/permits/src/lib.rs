//! Concurrency limits: a maximum number of operations of a key in flight at once. Policies, in contrast, limit the rate
//! at which requests arrive.
//!
//! A [`Permit`] is held for as long as an operation runs, and frees its place when it is dropped: at the end, when the
//! task is cancelled, and when it panics. In one process that is a count per key. With the feature `redis` it is a
//! lease in Redis or Valkey: it is renewed while the permit is held, is freed by the drop, and ends by itself if its
//! holder dies.
//!
//! ```
//! use tollgate_permits::{Acquisition, Concurrency};
//!
//! let uploads = Concurrency::memory(2)?;
//! let take = || uploads.acquire(b"alice").ready().unwrap();
//! let (Acquisition::Held(first), Acquisition::Held(_second)) = (take()?, take()?) else { panic!("two fit") };
//! assert!(matches!(take()?, Acquisition::Full(full) if full.most == 2));
//! drop(first);
//! assert!(matches!(take()?, Acquisition::Held(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `concurrency.rs` | the public interface of a limit |
//! | `permit.rs` | the permit that a caller holds |
//! | `counts.rs` | permits held in this process |
//! | `error.rs` | errors in the settings of a limit |
//! | `leases/` | permits held in Redis or Valkey (feature `redis`) |

mod concurrency;
mod counts;
mod error;
#[cfg(feature = "redis")]
mod leases;
mod permit;

pub use concurrency::{Acquisition, Concurrency, MAX, MAX_KEYS, PermitRefusal};
pub use error::SetupError;
pub use permit::Permit;
