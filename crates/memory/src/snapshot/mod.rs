//! A store in a file, so that a restart gives no quota away.
//!
//! ```text
//! magic, version, secret, time          header
//! spaces: number of the name and rank,  in this order
//!         policy name, mode, limits
//! entries: length, then the key         identity, rank, and the state as words
//! zero                                  no more entries
//! CRC32C of all before it
//! ```
//!
//! Everything is words of eight bytes, least significant first. A file is written beside its place,
//! synced and renamed; it is read twice, first for its checksum, so that a damaged one changes
//! nothing. It holds the store's secret, and only its owner may read it. A charge made while the
//! file is written is in it or not; one of several keys at once may be in it for some of them only.
//!
//! Version 1 had one policy a name and neither numbers nor ranks; it is still read.

mod limits;
mod read;
mod write;

use std::fmt;
use std::io;

/// The first word: "TOLLGATE".
const MAGIC: u64 = u64::from_le_bytes(*b"TOLLGATE");
/// The form described above.
const VERSION: u64 = 2;
/// The oldest that is read.
const OLDEST: u64 = 1;
/// Where the rank of a key is in the word that tells its place.
const RANK_SHIFT: u32 = 16;

/// How a key's state is written.
mod kind {
    pub(super) const PACKED: u64 = 0;
    pub(super) const OWN: u64 = 1;
    pub(super) const CHANGED: u64 = 2;
}

/// Why a snapshot was not written or not read. What was there before is unchanged.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file could not be read or written.
    Io(io::Error),
    /// It is no snapshot.
    NotOne,
    /// It is of another version: that one.
    Version(u64),
    /// It is damaged: its checksum is wrong, or it says what no store wrote.
    Damaged(&'static str),
    /// What it holds takes more than the cap.
    Cap(usize),
    /// A policy of a dialect, whose limits have no written form: its name.
    Policy(String),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "snapshot: {error}"),
            Self::NotOne => f.write_str("expected a snapshot of a Tollgate store, found another file"),
            Self::Version(version) => {
                write!(
                    f,
                    "expected a snapshot of version {OLDEST} to {VERSION}, found version {version}; it is of another Tollgate"
                )
            }
            Self::Damaged(how) => {
                write!(
                    f,
                    "expected a whole snapshot, found a damaged one ({how}); nothing was loaded; start without it"
                )
            }
            Self::Cap(cap) => write!(f, "expected a snapshot that fits into {cap} bytes; raise the memory cap"),
            Self::Policy(name) => write!(f, "expected limits that can be written; those of policy {name:?} cannot"),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
