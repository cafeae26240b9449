//! The keys of the other conventions: what their clients find at the keys they name.
//!
//! A key is alive up to and including the microsecond it expires at, as Redis has it by the millisecond. Plain keys
//! expire by the machine's clock, as in Redis; what limiters remember, by the clock that they decide by. Bytes are
//! counted for all that a key takes; at the cap what has expired goes first, and what has not stays: a plain key
//! is then refused, and the limiters of new keys share few states.
//!
//! | file | what it is |
//! |---|---|
//! | `entry.rs` | what a key holds, and the bytes it takes |
//! | `table.rs` | the keys of all databases in an order of their own, and when they expire |
//! | `plain.rs` | what commands do with text: GET, SET, INCR, EXPIRE, DEL, … |
//! | `scan.rs` | looking at all keys bit by bit |
//! | `limiter.rs`, `rolling.rs` | calls of the dialects, decided on the keys they name; on several keys at once |
//! | `api.rs` | seed 001's counters, and the data beside them |
//! | `overflow.rs` | the states that limiters share when there is no memory for their own |
//! | `kept.rs` | keys as bytes, for what is kept over a restart |
//! | `places.rs` | tests: what callers bring pushes nothing out, and at the cap nothing is forgotten |
//! | `bytes.rs` | tests: what is counted is not less than what is taken |

mod api;
#[cfg(test)]
pub(crate) mod bytes;
mod entry;
mod kept;
mod limiter;
mod overflow;
#[cfg(test)]
mod places;
mod plain;
mod rolling;
mod scan;
mod table;

use tollgate_core::{Clock, Timestamp};

pub(crate) use kept::Cursor;
pub(crate) use limiter::{Spoken, Wrote};
pub(crate) use plain::{Condition, Expiry, Put};
pub(crate) use scan::Scan;
pub(crate) use table::{Change, number};

use crate::fault::{Code, Fault};
use overflow::Overflow;
use table::Table;

/// Databases, as SELECT counts them.
pub(crate) const DATABASES: usize = 16;

/// The longest name of a key, in bytes.
pub(crate) const LONGEST_NAME: usize = 4_096;

/// What the clocks read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// The clock that limiters decide by.
    pub(crate) now: Timestamp,
    /// The machine's clock, which may be set.
    pub(crate) wall: Timestamp,
}

impl Times {
    pub(crate) fn of(clock: &dyn Clock) -> Self {
        Self { now: clock.now(), wall: clock.wall() }
    }

    fn by(self, wall: bool) -> Timestamp {
        if wall { self.wall } else { self.now }
    }
}

/// Both clocks read the same, as they do at a start.
impl From<Timestamp> for Times {
    fn from(now: Timestamp) -> Self {
        Self { now, wall: now }
    }
}

/// All keys of all databases.
#[derive(Debug)]
pub(crate) struct Keys {
    table: Table,
    overflow: Overflow,
    /// Bytes that bans may take.
    bans: usize,
    /// What the latest call of a dialect changed.
    wrote: Wrote,
}

/// What the keys take, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Keys of all databases, some of which may have expired just now.
    pub(crate) keys: usize,
    /// Bytes they take, and the shared states too.
    pub(crate) bytes: usize,
    /// Calls that were decided on a shared state, for lack of memory.
    pub(crate) overflowed: u64,
}

impl Keys {
    /// No key, and memory for `cap` bytes of them. An eighth is for what new keys share at the cap, and another for
    /// bans, which are kept elsewhere.
    pub(crate) fn new(cap: usize) -> Self {
        let (shared, bans) = (cap / 8, cap / 8);
        Self { table: Table::new(cap - shared - bans), overflow: Overflow::new(shared), bans, wrote: Wrote::Nothing }
    }

    /// Bytes of the cap that bans may take.
    pub(crate) fn room_for_bans(&self) -> usize {
        self.bans
    }

    /// What they take.
    pub(crate) fn counts(&self) -> Counts {
        let keys = (0..DATABASES).map(|db| self.table.len(db as u8)).sum();
        Counts { keys, bytes: self.table.bytes() + self.overflow.bytes(), overflowed: self.overflow.uses() }
    }

    /// Forgets the keys of a database, or of all.
    pub(crate) fn flush(&mut self, db: Option<u8>) {
        self.table.flush(db);
        if db.is_none() {
            self.overflow.flush();
        }
    }

    /// The keys of a database: some of them may have expired just now.
    pub(crate) fn len(&mut self, db: u8, now: impl Into<Times>) -> usize {
        self.table.sweep(now.into());
        self.table.len(db)
    }
}

/// The key holds something else.
fn wrong_type() -> Fault {
    Fault::new(Code::WrongType, "Operation against a key holding the wrong kind of value")
}

fn check_name(key: &[u8]) -> Result<(), Fault> {
    if key.len() <= LONGEST_NAME {
        return Ok(());
    }
    Err(Fault::wrong(format!("key: expected at most {LONGEST_NAME} bytes, found {}; hash longer ones", key.len())))
}
