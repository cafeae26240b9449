//! The embedded store: exact limits for millions of keys in this process, within a cap on memory, without a thread to
//! start or a clean-up to call.
//!
//! Most programs use it through the `tollgate` crate.
//!
//! | file | what it is |
//! |---|---|
//! | `memory.rs` | the public interface of the store |
//! | `decide.rs` | deciding a known key, without a lock |
//! | `shared.rs` | the state that clones share |
//! | `draw.rs`, `held_key.rs` | deciding under the lock of a shard: a policy's cells, read from where they are kept; a key that is locked |
//! | `overflow.rs` | the buckets that keys share when there is no memory for their own state |
//! | `together.rs` | deciding several keys at once |
//! | `replay.rs` | replaying earlier decisions; exporting and importing the state of a key |
//! | `shard.rs` | the table: two buckets per key, grown one bucket at a time |
//! | `slot.rs` | the place of a key: four atomic words that are read without a lock |
//! | `record.rs` | state that does not fit in two words, and the part of it that a slot mirrors |
//! | `segments.rs`, `budget.rs` | memory that grows without moving, and its cap |
//! | `ident.rs`, `names.rs`, `space.rs` | the identity of a key; policy names; the policy that a key is packed by |
//! | `clock.rs` | monotonic, manual and cached clocks |
//! | `snapshot/` | a store in a file |
//! | `store.rs`, `sync.rs` | the implementation of `Store`; atomics for programs and for the model checker |
//! | `models.rs`, `schedules.rs` | the tests run by the model checkers: `cargo xtask models` |

mod budget;
mod clock;
mod decide;
mod draw;
mod held_key;
mod ident;
mod memory;
mod names;
mod overflow;
mod record;
mod replay;
mod segments;
mod shard;
mod shared;
mod slot;
mod snapshot;
mod space;
mod store;
mod sync;
mod together;

#[cfg(all(test, tollgate_loom))]
mod models;
#[cfg(all(test, tollgate_shuttle))]
mod schedules;

pub use clock::{CachedClock, ManualClock, MonotonicClock};
pub use memory::{DEFAULT_CAP, MAX_CAP, MAX_NAMES, MIN_CAP, Memory, MemoryPolicy, MemoryRefund, MemoryStats};
pub use replay::PlacedState;
pub use snapshot::SnapshotError;
pub use tollgate_kernel::Clock;
