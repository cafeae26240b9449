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
//! | `request.rs` | a request with a cost and a mode |
//! | `builder.rs` | policies by name, cap, clock, snapshot |
//! | `rolling.rs` | the rolling limiter with modes, with its own option names |
//! | `shared_rolling.rs` | the same over Redis and a Tollgate server, with the feature `redis` |
//! | `error.rs` | errors in building or saving a gate |

mod builder;
mod error;
mod gate;
mod request;
mod rolling;
#[cfg(feature = "redis")]
mod shared_rolling;

pub use builder::GateBuilder;
pub use error::Error;
pub use gate::Gate;
pub use request::GateRequest;
pub use rolling::RollingLimiter;
#[cfg(feature = "redis")]
pub use shared_rolling::SharedRollingLimiter;
pub use tollgate_dialects::{RollingLimit, RollingOptions, RollingResult};
pub use tollgate_kernel::{
    Clock, Cost, Decision, Detail, JointDecision, KeyCheck, Micros, Mode, OnError, Policy, PolicyError, Reply, Request,
    Source, Store, StoreError, TextError, Timestamp, Wait,
};
pub use tollgate_memory::{
    CachedClock, DEFAULT_CAP, MAX_CAP, MIN_CAP, ManualClock, Memory, MemoryStats, MonotonicClock, SnapshotError,
};
/// The store on Redis and Valkey, and the client of the Tollgate server, for limits that many processes share:
/// `redis::Redis::builder("tollgate://127.0.0.1:7379")`.
#[cfg(feature = "redis")]
pub use tollgate_redis as redis;
