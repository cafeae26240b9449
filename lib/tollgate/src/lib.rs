//! Exact rate limiting: the crate to depend on.
//!
//! ```
//! use tollgate::Gate;
//!
//! let gate = Gate::memory("100/min, 10/s gcra burst=20")?;
//! let decision = gate.check("user:42")?;
//! assert!(decision.allowed);
//! assert_eq!(decision.remaining, 19);
//! # Ok::<(), tollgate::Error>(())
//! ```
//!
//! A [`Gate`] is a policy over a store. It is cheap to clone and to share between threads. Checking a known key
//! allocates nothing and usually takes no lock; a refusal writes nothing.
//!
//! | file | what it is |
//! |---|---|
//! | `gate.rs` | the gate: check, peek, reset, refund, many keys, several requests together |
//! | `ask.rs` | a request with a cost and a mode |
//! | `builder.rs` | policies by name, cap, clock, snapshot |
//! | `rolling.rs` | the limiter of seed 004 with its own option names |
//! | `error.rs` | errors in building or saving a gate |

mod ask;
mod builder;
mod error;
mod gate;
mod rolling;

pub use ask::Ask;
pub use builder::Builder;
pub use error::Error;
pub use gate::Gate;
pub use rolling::Rolling;
pub use tollgate_dialects::{RollingLimit, RollingOptions, RollingResult};
pub use tollgate_kernel::{
    Clock, Cost, Decision, Detail, Item, Micros, Mode, OnError, Policy, PolicyError, Reply, Request, Source, Store,
    StoreError, TextError, Timestamp, Together, Wait,
};
pub use tollgate_memory::{Cached, DEFAULT_CAP, MAX_CAP, MIN_CAP, Manual, Memory, Monotonic, SnapshotError, Stats};
/// The store on Redis and Valkey, and the client of the Tollgate server, for limits that many processes share:
/// `redis::Redis::builder("tollgate://127.0.0.1:7379")`.
#[cfg(feature = "redis")]
pub use tollgate_redis as redis;
