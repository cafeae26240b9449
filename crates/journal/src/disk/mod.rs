//! The seam to the disk: what the engine asks of a file system, and nothing else.
//!
//! Laws: what `append` wrote may be lost by a loss of power until `sync` answered well; a name that `create`,
//! `rename` or `remove` made or took away may be lost until `sync_dir` answered well; a `sync` that failed says
//! nothing about what was written before it, and a later one that succeeds does not make it good.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | the traits |
//! | `real.rs` | the file system, with its owners and modes |
//! | `emulated.rs` | files in memory that lose power, fill up and fail, for tests |
//! | `survive.rs` | what is left of emulated files after a loss of power |

mod emulated;
mod real;
mod survive;

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use emulated::{Emulated, Operation};
pub use real::Real;
pub use survive::{Rng, Survival};

/// What a name in a directory stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, a socket or the like.
    Other,
}

/// Held for as long as its owner is the one writer.
pub type Lock = Box<dyn Any + Send + Sync>;

/// A file system, as far as the engine needs one.
pub trait Disk: Send + Sync + 'static {
    /// Makes the directory if it is not there, and refuses one that others own or may write to.
    fn prepare(&self, dir: &Path) -> io::Result<()>;

    /// Becomes the one writer; [`io::ErrorKind::WouldBlock`] if there is one.
    fn lock(&self, path: &Path) -> io::Result<Lock>;

    /// The names in a directory, in their order.
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, Kind)>>;

    /// A new file, for this user alone; one that is there is an error.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// A file that is there. A link, or a file that others own or may write to, is refused.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name, in place of the file that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a name away.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names of a directory last.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Microseconds since the Unix epoch, for people to read.
    fn now(&self) -> u64;

    /// A number that nobody can guess.
    fn random(&self) -> u64;
}

/// An open file: read anywhere, written at its end.
pub trait DiskFile: Send + Sync {
    /// How many bytes it has.
    fn size(&self) -> io::Result<u64>;

    /// Reads from `offset` on; fewer bytes than asked for are no error, none is the end.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// One write at the end; it may take fewer bytes than it is given.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Makes its bytes and its size last.
    fn sync(&self) -> io::Result<()>;

    /// Cuts off everything from `size` on.
    fn truncate(&self, size: u64) -> io::Result<()>;
}

/// Writes all of it, in as many writes as the disk wants.
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
