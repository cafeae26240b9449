//! What goes wrong at a start, and what goes wrong later.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a directory could not be opened. Nothing in it was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another journal of this one, writes there.
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// A file is not what was written; without a repair there is no start.
    Damaged(Damage),
    /// A file was written by a newer version.
    Version {
        /// The file.
        file: PathBuf,
        /// What was expected, and what was found.
        what: String,
    },
    /// The caller could make nothing of a record.
    Record {
        /// The file.
        file: PathBuf,
        /// Where in it the record begins.
        offset: u64,
        /// What the caller said.
        what: String,
    },
    /// The disk refused, or a file is not for this user alone.
    Disk {
        /// What was being done.
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Where a file is not what was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// What was expected, and what was found.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: damaged at offset {}: {}", self.file.display(), self.offset, self.what)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { dir } => {
                write!(
                    f,
                    "{}: in use by another server; expected a directory that no one else writes to",
                    dir.display()
                )
            }
            Self::Damaged(damage) => write!(
                f,
                "{damage}; nothing was changed; --repair keeps what is whole before the damage and tells what is left out"
            ),
            Self::Version { file, what } => {
                write!(f, "{}: {what}; it was written by a newer version, use that one", file.display())
            }
            Self::Record { file, offset, what } => {
                write!(f, "{}: the record at offset {offset} cannot be used: {what}", file.display())
            }
            Self::Disk { doing, path, source } => write!(f, "{}: {doing} failed: {source}", path.display()),
        }
    }
}

impl OpenError {
    /// Whether it is for lack of room on the disk alone.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Disk { source, .. } if is_full(source))
    }
}

/// EFBIG comes from a file size limit; for who writes it is the same as a full disk.
fn is_full(error: &io::Error) -> bool {
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge].contains(&error.kind())
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Disk { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// How the journal is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Health {
    /// What is settled is on disk.
    Good,
    /// The disk is full; nothing more is written.
    Full,
    /// A write or a sync failed, in these words; nothing more is written.
    Failed(String),
}

/// Why something is not on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Failed {
    /// The disk is full.
    Full,
    /// A write or a sync failed, in these words.
    Disk(String),
    /// A snapshot is under way; one at a time.
    Busy,
    /// The one who fills a snapshot failed, in these words.
    Fill(String),
}

impl Failed {
    /// Sorts what the system said.
    pub(crate) fn of(doing: &str, error: &io::Error) -> Self {
        if is_full(error) { Self::Full } else { Self::Disk(format!("{doing} failed: {error}")) }
    }

    /// What the health is when this happened to the journal itself.
    pub(crate) fn health(&self) -> Health {
        match self {
            Self::Full => Health::Full,
            other => Health::Failed(other.to_string()),
        }
    }
}

impl From<&Health> for Failed {
    fn from(health: &Health) -> Self {
        match health {
            Health::Full => Self::Full,
            Health::Failed(what) => Self::Disk(what.clone()),
            Health::Good => Self::Disk("the journal failed and was put right since".to_owned()),
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the disk is full"),
            Self::Disk(what) => f.write_str(what),
            Self::Busy => f.write_str("a snapshot is under way, expected one at a time"),
            Self::Fill(what) => write!(f, "the snapshot could not be filled: {what}"),
        }
    }
}

impl Error for Failed {}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => f.write_str("good"),
            Self::Full => f.write_str("full"),
            Self::Failed(what) => write!(f, "failed: {what}"),
        }
    }
}
