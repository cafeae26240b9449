//! The file system: files of mode 0600 in a directory of mode 0700, never through a symbolic link.

use std::collections::hash_map::RandomState;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Disk, DiskFile, FileKind, Lock};

/// The write permissions of the group and of all others.
const OTHERS_WRITE: u32 = 0o022;

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn prepare(&self, dir: &Path) -> io::Result<()> {
        match std::fs::metadata(dir) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
                if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                    self.sync_dir(parent)?;
                }
            }
            Err(error) => return Err(error),
        }
        let found = std::fs::metadata(dir)?;
        if !found.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "expected a directory, found something else"));
        }
        own(&found, "700")
    }

    /// Locks the directory, which cannot be replaced while its files are in use, and the file, because earlier releases
    /// lock only the file, and some network file systems can lock only files.
    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let dir = path.parent().map(File::open).transpose()?;
        if dir.as_ref().is_some_and(|dir| matches!(dir.try_lock(), Err(TryLockError::WouldBlock))) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let file = options().create(true).mode(0o600).open(path).map_err(link)?;
        regular(&file)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new((dir, file))),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let kind = match entry.file_type()? {
                kind if kind.is_file() => FileKind::File,
                kind if kind.is_dir() => FileKind::Directory,
                _ => FileKind::Other,
            };
            found.push((entry.file_name().to_string_lossy().into_owned(), kind));
        }
        found.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(found)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(options().create_new(true).mode(0o600).open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = options().open(path).map_err(link)?;
        regular(&file)?;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn now(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn random(&self) -> u64 {
        // The standard library seeds its hash maps with random numbers of the system.
        RandomState::new().build_hasher().finish()
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self;
        file.write(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }
}

/// Returns options to read, and to write at the end. With O_NONBLOCK a named pipe in a file's place is refused instead
/// of waited for.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

/// Explains the system's error for a symbolic link.
fn link(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::ELOOP) {
        return io::Error::new(error.kind(), "expected a regular file, found a symbolic link");
    }
    error
}

fn regular(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file, found something else"));
    }
    own(&found, "600")
}

/// Refuses a file or directory that another user owns or may write to.
fn own(found: &Metadata, mode: &str) -> io::Result<()> {
    let why = if found.uid() != user()? {
        "expected this user to own it, found another".to_owned()
    } else if found.mode() & OTHERS_WRITE != 0 {
        let rights = found.mode() & 0o777;
        format!("expected mode {mode}, found {rights:o}, so others may write to it; chmod {mode} it")
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Returns the user that this process runs as. The standard library cannot report it, but a pipe belongs to the user
/// that created it.
fn user() -> io::Result<u32> {
    let (reader, _writer) = io::pipe()?;
    Ok(File::from(OwnedFd::from(reader)).metadata()?.uid())
}
