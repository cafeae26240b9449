//! What distinguishes a file from another, without reading it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The identity and version of a file; symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    /// When its content changed, and when its metadata changed.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// Returns the stamp of the file at a path; `None` if there is no file.
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
