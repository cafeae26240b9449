//! The keyspace: the keys that clients of the other conventions name, and the values stored at them.
//!
//! A key is alive up to and including the microsecond it expires at, as Redis defines it for milliseconds. Plain keys
//! expire by the machine's clock, as in Redis; limiter state expires by the clock that limiters decide by. All bytes
//! that a key takes are counted. At the cap, expired keys are removed first, and live keys stay: a new plain key is
//! then refused, and the limiters of new keys share a small number of states.
//!
//! | file | what it is |
//! |---|---|
//! | `entry.rs` | the value of a key, and the bytes it takes |
//! | `table.rs` | the keys of all databases in the order of a secret hash, and when they expire |
//! | `plain.rs` | the commands on text: GET, SET, INCR, EXPIRE, DEL, … |
//! | `command.rs` | these commands as values, for whichever place holds the keys |
//! | `scan.rs` | SCAN: iterating over all keys in steps |
//! | `call.rs`, `limiter/` | calls of the dialects, decided on the keys they name |
//! | `api.rs` | redis-limiter's counters, and the data beside them |
//! | `overflow.rs` | the states that limiters share when there is no memory for their own |
//! | `codec.rs` | keys as bytes, for persistence across restarts |
//! | `wire.rs` | numbers and texts as bytes |
//! | `fault.rs` | the errors of requests |
//! | `at_the_cap.rs` | tests: callers cannot push out other state, and at the cap no key loses its state |
//! | `bytes.rs`, `samples.rs` | tests: no fewer bytes are counted than are taken; calls of every dialect |

mod api;
#[cfg(test)]
mod at_the_cap;
#[cfg(test)]
mod bytes;
mod call;
mod codec;
mod command;
mod entry;
mod fault;
mod limiter;
mod overflow;
mod plain;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
mod scan;
mod table;
pub mod wire;

use tollgate_kernel::{Clock, Timestamp};

pub use api::data_of;
pub use call::DialectCall;
pub use codec::KeyCursor;
pub use command::{
    ExpireCommand, KeyCommand, KeyFailure, KeyOutcome, KeyReply, Lifetime, MAX_LISTED, MAX_LISTED_BYTES, SetCommand,
    SetLifetime, too_many_bytes, too_many_keys,
};
pub use entry::number;
pub use fault::{Fault, FaultCode, quoted, shown};
pub use limiter::CallEffect;
pub use plain::{ExpireConditions, Expiry, SetOptions};
pub use scan::ScanOptions;
pub use table::KeyChange;

use overflow::SharedLimiters;
use table::KeyTable;

/// The number of databases, as SELECT counts them.
pub const DATABASES: usize = 16;

/// The longest name of a key, in bytes.
pub const MAX_NAME: usize = 4_096;

/// The readings of both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReadings {
    /// The time by the clock that limiters decide by.
    pub now: Timestamp,
    /// The time by the machine's clock, which may be set.
    pub wall: Timestamp,
}

impl ClockReadings {
    /// Reads both clocks.
    pub fn of(clock: &dyn Clock) -> Self {
        Self { now: clock.now(), wall: clock.wall() }
    }

    fn by(self, wall: bool) -> Timestamp {
        if wall { self.wall } else { self.now }
    }
}

/// Uses one time for both clocks, which read the same at a start.
impl From<Timestamp> for ClockReadings {
    fn from(now: Timestamp) -> Self {
        Self { now, wall: now }
    }
}

/// All keys of all databases.
#[derive(Debug)]
pub struct Keyspace {
    table: KeyTable,
    overflow: SharedLimiters,
    /// The bytes that bans may take.
    bans: usize,
    /// The changes made by the latest call of a dialect.
    effect: CallEffect,
}

/// The memory that the keys take, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyspaceStats {
    /// Keys of all databases, some of which may have expired just now.
    pub keys: usize,
    /// The bytes they take, including the shared states.
    pub bytes: usize,
    /// Calls that were decided on a shared state for lack of memory.
    pub overflowed: u64,
}

impl Keyspace {
    /// Returns an empty keyspace with a memory cap of `cap` bytes. One eighth of the cap is for the states that new
    /// keys share at the cap, and another eighth for bans, which are stored elsewhere.
    pub fn new(cap: usize) -> Self {
        let (shared, bans) = (cap / 8, cap / 8);
        Self {
            table: KeyTable::new(cap - shared - bans),
            overflow: SharedLimiters::new(shared),
            bans,
            effect: CallEffect::Nothing,
        }
    }

    /// Returns the bytes of the cap that bans may take.
    pub fn room_for_bans(&self) -> usize {
        self.bans
    }

    /// Returns the number of keys and the bytes they take.
    pub fn counts(&self) -> KeyspaceStats {
        let keys = (0..DATABASES).map(|db| self.table.len(db as u8)).sum();
        KeyspaceStats { keys, bytes: self.table.bytes() + self.overflow.bytes(), overflowed: self.overflow.uses() }
    }

    /// Removes the keys of one database, or of all databases.
    pub fn flush(&mut self, db: Option<u8>) {
        self.table.flush(db);
        if db.is_none() {
            self.overflow.flush();
        }
    }

    /// Returns the number of keys in a database, some of which may have expired just now.
    pub fn len(&mut self, db: u8, now: impl Into<ClockReadings>) -> usize {
        self.table.sweep(now.into());
        self.table.len(db)
    }
}

/// Returns the error for a key that holds a value of another type.
fn wrong_type() -> Fault {
    Fault::new(FaultCode::WrongType, "Operation against a key holding the wrong kind of value")
}

/// Checks the length of a key.
pub fn check_name(key: &[u8]) -> Result<(), Fault> {
    if key.len() <= MAX_NAME {
        return Ok(());
    }
    Err(Fault::wrong(format!("key: expected at most {MAX_NAME} bytes, found {}; hash longer ones", key.len())))
}
