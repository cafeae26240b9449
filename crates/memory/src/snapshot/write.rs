//! Writing a store to a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Clock, Writer};

use super::limits::{can_be_written, write_limit, write_policy};
use super::{MAGIC, RANK_SHIFT, SnapshotError, VERSION, kind};
use crate::ident::Secret;
use crate::memory::Memory;
use crate::record::Mirror;
use crate::shard::{Shard, lock_slot};
use crate::shared::{Shared, Times};
use crate::slot::Locked;
use crate::space::Space;

impl Memory {
    /// Writes all keys to `path`, replacing what was there in one step. Others may check meanwhile;
    /// answers how many keys were written. Keys as good as new are left out.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<usize, SnapshotError> {
        let path = path.as_ref();
        let beside = beside(path);
        let written = self.shared().write_file(&beside).inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })?;
        fs::rename(&beside, path)?;
        sync_folder(path)?;
        Ok(written)
    }
}

/// A file of this save's own in the same folder, so that renaming is one step.
fn beside(path: &Path) -> PathBuf {
    static SAVES: AtomicU64 = AtomicU64::new(0);
    let save = SAVES.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}-{save}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// A rename is only sure to last once the folder is synced.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // It holds the secret of the store.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        // Left behind by a process of the same number that was killed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

/// Adds up what passes.
struct Summed<W> {
    to: W,
    sum: u32,
}

impl<W: Write> Summed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        self.to.write_all(bytes)
    }

    fn word(&mut self, word: u64) -> io::Result<()> {
        self.put(&word.to_le_bytes())
    }
}

impl Shared {
    fn write_file(&self, path: &Path) -> Result<usize, SnapshotError> {
        let mut to = Summed { to: BufWriter::with_capacity(1 << 20, create(path)?), sum: 0 };
        let (head, told) = self.head()?;
        to.put(&head)?;
        let (mut written, times) = (0, Times::default());
        for shard in self.shards.iter().chain(self.overflow.get()) {
            // Keys neither come nor go while the shard is locked; they may be charged. The disk is not
            // waited for meanwhile.
            let mut entries = Vec::new();
            let inner = shard.lock();
            for slot in shard.slots() {
                let seen = slot.read();
                // A policy that came after the head was written has no place in it.
                let Some(space) = self.names.space_of(&seen).filter(|space| told.has(space)) else { continue };
                if seen.is_empty() || self.expired(&seen, &times) {
                    continue;
                }
                let entry = self.entry(shard, lock_slot(slot), space, &told)?;
                entries.extend((entry.len() as u64).to_le_bytes());
                entries.extend(entry);
                written += 1;
            }
            drop(inner);
            to.put(&entries)?;
        }
        to.word(0)?;
        let sum = to.sum;
        to.word(u64::from(sum))?;
        let file = to.to.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(written)
    }

    /// The head, and which spaces it tells of.
    fn head(&self) -> Result<(Vec<u8>, Told), SnapshotError> {
        let (mut told, mut spaces) = (Told::default(), Writer::default());
        for space in self.names.spaces() {
            let written = can_be_written(space.own.limits());
            if space.rank == 0 && !written {
                return Err(SnapshotError::Policy(space.own.name().to_owned()));
            }
            told.add(space, written);
            if written {
                spaces.put(u64::from(space.name) << RANK_SHIFT | u64::from(space.rank));
                write_policy(&space.own, &mut spaces);
            }
        }
        let mut to = Writer::default();
        let Secret([one, two, three]) = self.secret;
        for word in [MAGIC, VERSION, one, two, three, self.clock.now().get(), told.written as u64] {
            to.put(word);
        }
        let bytes = [to.into_bytes(), spaces.into_bytes()].concat();
        let mut head = (bytes.len() as u64).to_le_bytes().to_vec();
        head.extend(bytes);
        Ok((head, told))
    }

    /// A key with its identity. Which shard it is in is told by a word, since overflow is one of them.
    fn entry(&self, shard: &Shard, locked: Locked<'_>, space: &Space, told: &Told) -> Result<Vec<u8>, SnapshotError> {
        let seen = locked.seen;
        let place = self.shards.iter().position(|other| std::ptr::eq(other, shard)).unwrap_or(self.shards.len());
        let (written, cannot) = (told.wrote(space), || SnapshotError::Policy(space.own.name().to_owned()));
        // Cells that tell their limits themselves need the space for nothing else.
        let rank = if written { u64::from(space.rank) } else { 0 };
        let mut to = Writer::default();
        to.put(seen.print);
        to.put(u64::from(seen.mark()) << 32 | rank << RANK_SHIFT | place as u64);
        if !seen.boxed() {
            [kind::PACKED, seen.words[0], seen.words[1]].into_iter().for_each(|word| to.put(word));
            return if written { Ok(to.into_bytes()) } else { Err(cannot()) };
        }
        let Some(record) = shard.record(Mirror::unpack(seen.words).record) else {
            return Err(SnapshotError::Damaged("a key without its record"));
        };
        let cells = record.each(&space.own);
        if record.is_own() {
            if !written {
                return Err(cannot());
            }
            to.put(kind::OWN);
            cells.iter().for_each(|(_, cell)| cell.write(&mut to));
        } else {
            if !can_be_written(cells.iter().map(|(limit, _)| limit)) {
                return Err(cannot());
            }
            to.put(kind::CHANGED);
            to.put(cells.len() as u64);
            for (limit, cell) in cells {
                write_limit(&limit, &mut to);
                cell.write(&mut to);
            }
        }
        Ok(to.into_bytes())
    }
}

/// The spaces there were when the head was written, and whether it tells of them: limits that only a dialect
/// can build have no written form.
#[derive(Default)]
struct Told {
    /// By number of the name and rank.
    names: Vec<Vec<bool>>,
    written: usize,
}

impl Told {
    /// Adds the next one.
    fn add(&mut self, space: &Space, written: bool) {
        if space.rank == 0 {
            self.names.push(Vec::new());
        }
        if let Some(ranks) = self.names.last_mut() {
            ranks.push(written);
        }
        self.written += usize::from(written);
    }

    fn get(&self, space: &Space) -> Option<bool> {
        self.names.get(usize::from(space.name))?.get(usize::from(space.rank)).copied()
    }

    fn has(&self, space: &Space) -> bool {
        self.get(space).is_some()
    }

    fn wrote(&self, space: &Space) -> bool {
        self.get(space) == Some(true)
    }
}
