//! A store in a file, or in a stream among other things, so that a restart gives no quota away.
//!
//! ```text
//! length, then
//!   magic, version, secret, time          the head
//!   spaces: number of the name and rank,  in this order
//!           policy name, mode, limits
//!   buckets of each shard's table         those of shared buckets last
//! length, then entries                    as often as there are keys for; an entry is a print, a word
//!                                         that tells mark, kind, rank and shard, and the state as words
//! zero                                    no more entries
//! CRC32C of all before it
//! ```
//!
//! Everything is words of eight bytes, least significant first. It tells its own end, so that other things
//! may follow it. A file is written beside its place, synced and renamed. Reading makes a new store, which is
//! thrown away if the checksum at the end is wrong, so a damaged snapshot changes nothing. It holds the store's
//! secret, and only its owner may read a file of it.
//!
//! Others may decide while it is written. A shard is locked only while its slots are copied, so its keys are
//! all there, and each is written as it was at one moment: packed words as they were copied, a record while its
//! slot is locked, wherever the key has moved to since. But not all keys are of the same moment: a charge made
//! meanwhile is in it or not, and one of several keys at once may be in it for some of them only. A policy that
//! came meanwhile is not in it, and keys that were first used under it are not either.
//!
//! Versions 1 to 3 are still read: version 3 had no gaps between the numbers of names, did not tell the sizes of tables,
//! and had no key that told of a part in a bucket. In versions 1 and 2 an entry was alone in its block with a word of its own for its kind, and
//! marks had 12 bits for the name. Version 1 had one policy a name and neither numbers nor ranks. Keys that
//! shared a bucket in those share another from then on, with what is in it.

mod entries;
mod read;
mod write;

use std::fmt;
use std::io;

/// The first word: "TOLLGATE".
const MAGIC: u64 = u64::from_le_bytes(*b"TOLLGATE");
/// The form described above.
const VERSION: u64 = 4;
/// The last with an entry a block.
const ENTRY_A_BLOCK: u64 = 2;
/// The oldest that is read.
const OLDEST: u64 = 1;
/// Where the rank and the kind of a key are in the word that tells its place, and the bit of the rank's byte that tells
/// of a key with a part in a bucket.
const SHARES: u32 = 0x80;
const RANK_SHIFT: u32 = 16;
const KIND_SHIFT: u32 = 24;

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
    /// What it holds takes more than the cap, the first number: about so many bytes, the second.
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
                    "expected a snapshot of version {OLDEST} to {VERSION}, found version {version}; it is of another Tollgate"
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
