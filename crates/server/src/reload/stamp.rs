//! What a file is told from another by, without reading it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Which file it is, and which state of it: links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    /// When its content changed, and when anything about it did.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of the file that a path leads to; nothing if there is none.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}
