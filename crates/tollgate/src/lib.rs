//! Rate limiting, decided exactly: the crate to depend on.
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
//! A [`Gate`] is a policy over a store; it is cheap to clone and to share between threads. Checking a
//! known key allocates nothing and mostly takes no lock; a refusal writes nothing.
//!
//! | file | what it is |
//! |---|---|
//! | `gate.rs` | the gate: check, peek, reset, refund, many keys, several together |
//! | `ask.rs` | a question with a cost and a mode |
//! | `builder.rs` | policies by name, cap, clock, snapshot |
//! | `rolling.rs` | seed 004's limiter by its own words |
//! | `error.rs` | what can be wrong |

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
pub use tollgate_core::{
    Clock, Cost, Decision, Detail, Item, Micros, Mode, OnError, Policy, PolicyError, Reply, Request, Source, Store,
    StoreError, TextError, Timestamp, Together, Wait,
};
pub use tollgate_dialects::{RollingLimit, RollingOptions, RollingResult};
pub use tollgate_memory::{Cached, DEFAULT_CAP, LEAST_CAP, MOST_CAP, Manual, Memory, Monotonic, SnapshotError, Stats};
/// The store on Redis and Valkey, and the client of the Tollgate server, for limits that many processes share:
/// `redis::Redis::builder("tollgate://127.0.0.1:7379")`.
#[cfg(feature = "redis")]
pub use tollgate_redis as redis;

/// The README's own examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// The guide's own examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
pub struct Embedding;
