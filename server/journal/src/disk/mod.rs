//! The interface to the disk: what the journal needs of a file system, and nothing else.
//!
//! Laws: what `append` wrote may be lost by a loss of power until `sync` returns `Ok`; a change of names by `create`,
//! `rename` or `remove` may be lost until `sync_dir` returns `Ok`; a `sync` that failed says nothing about the data
//! written before it, and a later one that succeeds does not make that data durable.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | the traits |
//! | `real.rs` | the file system, with its owners and modes |
//! | `emulated.rs` | files in memory that lose power, fill up and fail, for tests |
//! | `survive.rs` | the contents of emulated files after a loss of power |

mod emulated;
mod real;
mod survive;

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use emulated::{DiskOperation, EmulatedDisk};
pub use real::RealDisk;
pub use survive::Survival;

/// The kind of an entry of a directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, a socket or the like.
    Other,
}

/// A lock, which is held for as long as its owner is the single writer.
pub type Lock = Box<dyn Any + Send + Sync>;

/// A file system, as far as the journal needs one.
pub trait Disk: Send + Sync + 'static {
    /// Creates the directory if it does not exist, and refuses one that others own or may write to.
    fn prepare(&self, dir: &Path) -> io::Result<()>;

    /// Locks a directory for the single writer; fails with [`io::ErrorKind::WouldBlock`] if there is one already.
    fn lock(&self, path: &Path) -> io::Result<Lock>;

    /// Returns the names in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>>;

    /// Creates a file for this user alone; fails if it exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file. A symbolic link, or a file that others own or may write to, is refused.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file, replacing the file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Returns the microseconds since the Unix epoch, for people to read.
    fn now(&self) -> u64;

    /// Returns an unpredictable number.
    fn random(&self) -> u64;
}

/// An open file that is read anywhere and written at its end.
pub trait DiskFile: Send + Sync {
    /// Returns its size in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Reads from `offset` on; may read fewer bytes than requested, and reads 0 at the end.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes once at the end; may write fewer bytes than it is given.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Makes its bytes and its size durable.
    fn sync(&self) -> io::Result<()>;

    /// Removes everything from `size` on.
    fn truncate(&self, size: u64) -> io::Result<()>;
}

/// Writes all bytes, in as many writes as the disk needs.
pub(crate) fn append_all(file: &dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::WriteZero, "the disk takes no more bytes")),
            Ok(taken) => bytes = bytes.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
