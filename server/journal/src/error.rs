//! Errors at a start, and errors later.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a directory could not be opened. Nothing in it was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum JournalOpenError {
    /// Another process, or another journal of this process, writes to the directory.
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// A file is not what was written; it can be started only with a repair.
    Damaged(Damage),
    /// A file was written by a newer version.
    Version {
        /// The file.
        file: PathBuf,
        /// What was expected, and what was found.
        what: String,
    },
    /// The caller could not use a record.
    Record {
        /// The file.
        file: PathBuf,
        /// The offset at which the record begins.
        offset: u64,
        /// The caller's message.
        what: String,
    },
    /// The disk failed, or others may write to a file.
    Disk {
        /// The operation that failed.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// A place where a file is not what was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The offset in it.
    pub offset: u64,
    /// What was expected, and what was found.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: damaged at offset {}: {}", self.file.display(), self.offset, self.what)
    }
}

impl fmt::Display for JournalOpenError {
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

impl JournalOpenError {
    /// Returns whether the only cause is a full disk.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Disk { source, .. } if is_full(source))
    }
}

/// Returns whether a disk is full. EFBIG comes from a file size limit, which for a writer is the same as a full disk.
fn is_full(error: &io::Error) -> bool {
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge].contains(&error.kind())
}

impl Error for JournalOpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Disk { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The condition of a journal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Health {
    /// Everything settled is on disk.
    Good,
    /// The disk is full; nothing more is written.
    Full,
    /// A write or a sync failed, with this message; nothing more is written.
    Failed(String),
}

/// The reason why data is not on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum JournalError {
    /// The disk is full.
    Full,
    /// A write or a sync failed, with this message.
    Disk(String),
    /// A snapshot is in progress; only one is possible at a time.
    Busy,
    /// The caller's function that fills a snapshot failed, with this message.
    Fill(String),
}

impl JournalError {
    /// Classifies an error of the system.
    pub(crate) fn of(doing: &str, error: &io::Error) -> Self {
        if is_full(error) { Self::Full } else { Self::Disk(format!("{doing} failed: {error}")) }
    }

    /// Returns the condition of a journal to which this happened.
    pub(crate) fn health(&self) -> Health {
        match self {
            Self::Full => Health::Full,
            other => Health::Failed(other.to_string()),
        }
    }
}

impl From<&Health> for JournalError {
    fn from(health: &Health) -> Self {
        match health {
            Health::Full => Self::Full,
            Health::Failed(what) => Self::Disk(what.clone()),
            Health::Good => Self::Disk("the journal failed and was put right since".to_owned()),
        }
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the disk is full"),
            Self::Disk(what) => f.write_str(what),
            Self::Busy => f.write_str("a snapshot is under way, expected one at a time"),
            Self::Fill(what) => write!(f, "the snapshot could not be filled: {what}"),
        }
    }
}

impl Error for JournalError {}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => f.write_str("good"),
            Self::Full => f.write_str("full"),
            Self::Failed(what) => write!(f, "failed: {what}"),
        }
    }
}
