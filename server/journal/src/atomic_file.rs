//! Files that appear atomically: written under another name, synced, renamed, and the directory synced. The smallest of
//! them is `newest`, which contains the number of the newest journal, so that its deletion is noticed.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, append_all};
use crate::frame::{word32, word64};
use crate::names::{self, NEWEST};
use crate::snapshot::read_exact;

const MAGIC: &[u8; 8] = b"TGNEWEST";
const NOTE: usize = 20;

/// The contents of `newest`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NewestNote {
    Absent,
    Damaged,
    Number(u64),
}

/// Creates an empty file under the name that is used while it is written.
pub(crate) fn begin(disk: &dyn Disk, dir: &Path, name: &str) -> io::Result<Arc<dyn DiskFile>> {
    create_fresh(disk, &names::new(dir, name))
}

/// Gives a synced file its final name, and makes that durable.
pub(crate) fn finish(disk: &dyn Disk, dir: &Path, name: &str) -> io::Result<()> {
    disk.rename(&names::new(dir, name), &dir.join(name))?;
    disk.sync_dir(dir)
}

/// Creates a file, replacing an existing one.
pub(crate) fn create_fresh(disk: &dyn Disk, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    remove_if_exists(disk, path)?;
    disk.create(path)
}

/// Removes a file, which need not exist.
pub(crate) fn remove_if_exists(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes the number of the newest journal to `newest`.
pub(crate) fn write_newest(disk: &dyn Disk, dir: &Path, number: u64) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(NOTE);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    let file = begin(disk, dir, NEWEST)?;
    append_all(&*file, &bytes)?;
    file.sync()?;
    finish(disk, dir, NEWEST)
}

/// Reads the number of the newest journal from `newest`.
pub(crate) fn read_newest(disk: &dyn Disk, dir: &Path) -> io::Result<NewestNote> {
    let file = match disk.open(&dir.join(NEWEST)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(NewestNote::Absent),
        Err(error) => return Err(error),
    };
    if file.size()? != NOTE as u64 {
        return Ok(NewestNote::Damaged);
    }
    let mut bytes = [0; NOTE];
    read_exact(&*file, &mut bytes, 0)?;
    let right = bytes.starts_with(MAGIC) && crc32c::crc32c(&bytes[..NOTE - 4]) == word32(&bytes, NOTE - 4);
    Ok(if right { NewestNote::Number(word64(&bytes, 8)) } else { NewestNote::Damaged })
}
