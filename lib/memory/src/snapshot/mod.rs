//! A store in a file, or in a stream with other data, so that a restart does not reset any limit.
//!
//! | file | what it is |
//! |---|---|
//! | `write.rs` | a store to a file or a stream |
//! | `read.rs` | a file or a stream to a store |
//! | `entries.rs` | the keys that were read, put into their places |
//!
//! ```text
//! length, then
//!   magic, version, secret, time          the head
//!   spaces: number of the name and rank,  in this order
//!           policy name, mode, limits
//!   buckets of each shard's table         those of shared buckets last
//! length, then entries                    repeated for all keys; an entry is a print, a word
//!                                         with mark, kind, rank and shard, and the state as words
//! zero                                    no more entries
//! CRC32C of all before it
//! ```
//!
//! Everything is words of eight bytes, least significant byte first. A snapshot marks its own end, so that other data
//! may follow it. A file is written next to its final place, synced and renamed. Reading creates a new store, which is
//! discarded if the checksum at the end is wrong, so a damaged snapshot changes nothing. The snapshot contains the
//! store's secret, and only the owner of a snapshot file may read it.
//!
//! Other threads may decide while it is written. A shard is locked only while its slots are copied, so all its keys are
//! included, and each is written as it was at one moment: packed words as they were copied, a record while its slot is
//! locked, wherever the key has moved since. But not all keys are of the same moment: a charge made meanwhile may or
//! may not be included, and a charge of several keys at once may be included for only some of them. A policy that was
//! added meanwhile is not included, and neither are keys that were first used under it.
//!
//! Versions 1 to 3 can still be read. Version 3 had no gaps between the numbers of names, did not contain the sizes of
//! tables, and had no mark for keys with a part in a bucket. In versions 1 and 2 each block contained one entry, with a
//! separate word for its kind, and marks had 12 bits for the name. Version 1 had one policy per name and neither
//! numbers nor ranks. Keys that shared a bucket in those share another from then on, with what is in it.

mod entries;
mod read;
mod write;

use std::fmt;
use std::io;

/// The first word: "TOLLGATE".
const MAGIC: u64 = u64::from_le_bytes(*b"TOLLGATE");
/// The current version, described above.
const VERSION: u64 = 4;
/// The last version with one entry per block.
const ENTRY_A_BLOCK: u64 = 2;
/// The oldest version that can be read.
const MIN_VERSION: u64 = 1;
/// The bit of the rank's byte that marks a key with a part in a bucket. The rank and the kind of a key are in the
/// second word of its entry, at the shifts below.
const SHARES: u32 = 0x80;
const RANK_SHIFT: u32 = 16;
const KIND_SHIFT: u32 = 24;

/// The ways in which a key's state is written.
mod kind {
    pub(super) const PACKED: u64 = 0;
    pub(super) const OWN: u64 = 1;
    pub(super) const CHANGED: u64 = 2;
}

/// The reason why a snapshot could not be written or read. What existed before is unchanged.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file could not be read or written.
    Io(io::Error),
    /// The file is not a snapshot.
    NotOne,
    /// The snapshot has this version, which is not supported.
    Version(u64),
    /// The snapshot is damaged: its checksum is wrong, or it contains something that no store writes.
    Damaged(&'static str),
    /// The contents need more memory than the cap, the first number: about as many bytes as the second number.
    Cap(usize, usize),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "snapshot: {error}"),
            Self::NotOne => f.write_str("expected a snapshot of a Tollgate store, found another file"),
            Self::Version(version) => {
                write!(
                    f,
                    "expected a snapshot of version {MIN_VERSION} to {VERSION}, found version {version}; it is of another Tollgate"
                )
            }
            Self::Damaged(how) => {
                write!(
                    f,
                    "expected a whole snapshot, found a damaged one ({how}); nothing was loaded; start without it"
                )
            }
            Self::Cap(cap, needed) => {
                write!(
                    f,
                    "expected a snapshot that fits into {cap} bytes, found one that needs about {needed}; raise the memory cap"
                )
            }
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
