//! The embedded store: exact limits for millions of keys in this process, within a cap on memory,
//! with no thread to start and no clean-up to call.
//!
//! Most programs use it through the `tollgate` crate.
//!
//! | file | what it is |
//! |---|---|
//! | `memory.rs` | the store as its callers see it |
//! | `decide.rs` | deciding a known key, without a lock |
//! | `shared.rs` | what clones share |
//! | `draw.rs`, `held.rs` | deciding under the lock of a shard: a policy's cells, drawn from where they are kept; a key in hand |
//! | `overflow.rs` | the buckets that keys share when there is no memory for their own |
//! | `together.rs` | several keys at once |
//! | `replay.rs` | what was decided before, told again; a key's state, out and in |
//! | `shard.rs` | the table: two buckets a key, grown one at a time |
//! | `slot.rs` | a key's place: four atomic words, no lock to read |
//! | `record.rs` | what two words cannot hold, and what of it a slot mirrors |
//! | `segments.rs`, `budget.rs` | memory that grows without moving, and its cap |
//! | `ident.rs`, `names.rs`, `space.rs` | who a key is; policy names; what keys are packed by |
//! | `clock.rs` | monotonic, manual and cached clocks |
//! | `snapshot/` | a store in a file |
//! | `seam.rs`, `sync.rs` | the store as a home; atomics for programs and for the model checker |
//! | `models.rs`, `schedules.rs` | what the model checkers try: `cargo xtask models` |

mod budget;
mod clock;
mod decide;
mod draw;
mod held;
mod ident;
mod memory;
mod names;
mod overflow;
mod record;
mod replay;
mod seam;
mod segments;
mod shard;
mod shared;
mod slot;
mod snapshot;
mod space;
mod sync;
mod together;

#[cfg(all(test, tollgate_loom))]
mod models;
#[cfg(all(test, tollgate_shuttle))]
mod schedules;

pub use clock::{Cached, Manual, Monotonic};
pub use memory::{DEFAULT_CAP, LEAST_CAP, MOST_CAP, MOST_NAMES, Memory, Prepared, Refunded, Stats};
pub use replay::Remembered;
pub use snapshot::SnapshotError;
pub use tollgate_core::Clock;
