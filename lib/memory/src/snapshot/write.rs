//! Writing a store to a file or a stream.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_kernel::{Clock, KeyState, Writer};

use super::{KIND_SHIFT, MAGIC, RANK_SHIFT, SHARES, SnapshotError, VERSION, kind};
use crate::ident::{StoreIdent, StoreSecret};
use crate::memory::Memory;
use crate::record::Mirror;
use crate::shard::Shard;
use crate::shared::{MemoryCore, StoreTimes};
use crate::slot::{LockedSlot, Slot, SlotContents};
use crate::space::Space;
use crate::sync::relax;

/// A block of entries is ended once it reaches this length.
const BLOCK: usize = 256 << 10;

impl Memory {
    /// Writes all keys to `path`, replacing the file atomically. Other threads may check meanwhile. Returns the number
    /// of keys written. Keys that have expired are left out.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<usize, SnapshotError> {
        let path = path.as_ref();
        let beside = beside(path);
        let written = self.write_file(&beside).inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })?;
        fs::rename(&beside, path)?;
        sync_folder(path)?;
        Ok(written)
    }

    /// Writes like [`Memory::save`], but to a stream, which may continue after the snapshot. The parts written are few
    /// and large.
    pub fn save_to(&self, to: &mut dyn Write) -> Result<usize, SnapshotError> {
        let mut to = StoreWriter { to, sum: 0 };
        let shared = self.shared();
        let (head, written_spaces) = shared.head();
        to.put(&(head.len() as u64).to_le_bytes())?;
        to.put(&head)?;
        let (mut written, mut block, times) = (0, Writer::default(), StoreTimes::default());
        for (number, shard) in shared.all_shards() {
            for seen in copy_of(shard) {
                if shared.is_to_be_written(&seen, &written_spaces, &times) {
                    written += usize::from(shared.write_entry(shard, number as u64, seen, &written_spaces, &mut block));
                }
                if block.len() >= BLOCK {
                    to.put_block(&mut block)?;
                }
            }
        }
        to.put_block(&mut block)?;
        to.put(&0u64.to_le_bytes())?;
        let sum = u64::from(to.sum);
        to.put(&sum.to_le_bytes())?;
        Ok(written)
    }

    fn write_file(&self, path: &Path) -> Result<usize, SnapshotError> {
        let mut file = create(path)?;
        let written = self.save_to(&mut file)?;
        file.sync_all()?;
        Ok(written)
    }
}

/// Returns the path of a file for this save in the same folder, so that renaming is atomic.
fn beside(path: &Path) -> PathBuf {
    static SAVES: AtomicU64 = AtomicU64::new(0);
    let save = SAVES.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}-{save}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// Syncs the folder of a file: only then is a rename durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // The file contains the secret of the store.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        // Left behind by a killed process with the same process id.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

/// A writer that computes a checksum.
struct StoreWriter<'a> {
    to: &'a mut dyn Write,
    sum: u32,
}

impl StoreWriter<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        self.to.write_all(bytes)
    }

    /// Writes a block and clears it. An empty block is not written, because it would mark the end.
    fn put_block(&mut self, block: &mut Writer) -> io::Result<()> {
        if !block.is_empty() {
            self.put(&(block.len() as u64).to_le_bytes())?;
            self.put(block.as_bytes())?;
            block.clear();
        }
        Ok(())
    }
}

impl MemoryCore {
    /// Returns the head, and the spaces that it contains.
    fn head(&self) -> (Vec<u8>, WrittenSpaces) {
        let (mut written_spaces, mut spaces) = (WrittenSpaces::default(), Writer::default());
        for space in self.names.spaces() {
            written_spaces.add(space);
            spaces.put(u64::from(space.name) << RANK_SHIFT | u64::from(space.rank));
            space.own.write(&mut spaces);
        }
        let mut to = Writer::default();
        let StoreSecret([one, two, three]) = self.properties.secret;
        for word in [MAGIC, VERSION, one, two, three, self.clock.now().get(), written_spaces.all as u64] {
            to.put(word);
        }
        let mut sizes = Writer::default();
        let shared = self.overflow.sizes();
        sizes.put((self.shards.len() + shared.len()) as u64);
        self.shards.iter().map(Shard::buckets).chain(shared).for_each(|buckets| sizes.put(buckets as u64));
        ([to.as_bytes(), spaces.as_bytes(), sizes.as_bytes()].concat(), written_spaces)
    }

    /// Returns whether a key is to be written. A policy that was added after the head was written is not in it.
    fn is_to_be_written(&self, seen: &SlotContents, written_spaces: &WrittenSpaces, times: &StoreTimes) -> bool {
        self.names.space_of(seen).is_some_and(|space| written_spaces.has(space)) && !self.expired(seen, times)
    }
}

/// Returns the contents of a shard's slots. The shard is locked meanwhile, and no longer, so that no key is inserted or
/// removed.
fn copy_of(shard: &Shard) -> Vec<SlotContents> {
    let mut slots = Vec::with_capacity(shard.keys() + shard.keys() / 8);
    let _inner = shard.lock();
    slots.extend(shard.slots().map(Slot::read).filter(|seen| !seen.is_empty()));
    slots
}

impl MemoryCore {
    /// Returns all shards with their numbers; those of overflow buckets have the number after the last. They come
    /// first: a charge to a bucket while a snapshot is written is also replayed, and would be counted twice if the
    /// snapshot had it.
    fn all_shards(&self) -> impl Iterator<Item = (usize, &Shard)> {
        let buckets = self.overflow.shards().map(|shard| (self.shards.len(), shard));
        buckets.chain(self.shards.iter().enumerate())
    }

    /// Writes a key with its identity, unless it has been forgotten since. The number of its shard is included, since
    /// buckets are in a separate shard.
    fn write_entry(
        &self,
        shard: &Shard,
        number: u64,
        seen: SlotContents,
        written_spaces: &WrittenSpaces,
        to: &mut Writer,
    ) -> bool {
        if !seen.boxed() {
            // The contents that were read are of one moment.
            write_packed(number, &seen, to);
            return true;
        }
        let Some(locked) = lock_key(shard, seen.ident()) else { return false };
        let Some(space) = self.names.space_of(&locked.seen) else { return false };
        if !locked.seen.boxed() && written_spaces.has(space) {
            write_packed(number, &locked.seen, to);
            return true;
        }
        // The holder of the slot has exclusive use of the record.
        let record = if locked.seen.boxed() {
            shard.record(Mirror::unpack(locked.seen.words).record).map(|record| {
                let is_own = record.is_own() && written_spaces.has(space);
                put_ident(
                    if is_own { &locked.seen } else { &seen },
                    number,
                    if is_own { kind::OWN } else { kind::CHANGED },
                    to,
                );
                if is_own { record.write(to) } else { record.state(&space.own).write(to) }
            })
        } else {
            // Meanwhile the key was packed by a policy that was added after the head was written.
            space.own.limits().first().map(|limit| {
                put_ident(&seen, number, kind::CHANGED, to);
                KeyState::of(&space.own, vec![limit.unpack(locked.seen.words)]).write(to);
            })
        };
        record.is_some()
    }
}

/// Locks the slot of a known key, wherever it has moved; returns `None` if it was forgotten.
fn lock_key(shard: &Shard, ident: StoreIdent) -> Option<LockedSlot<'_>> {
    let mut tries = 0;
    loop {
        let found = shard.find(ident).or_else(|| {
            let _inner = shard.lock();
            shard.find(ident)
        });
        let (slot, seen) = found?;
        if let Some(locked) = slot.lock(seen) {
            return Some(locked);
        }
        relax(&mut tries);
    }
}

fn write_packed(number: u64, seen: &SlotContents, to: &mut Writer) {
    put_ident(seen, number, kind::PACKED, to);
    seen.words.into_iter().for_each(|word| to.put(word));
}

fn put_ident(seen: &SlotContents, number: u64, form: u64, to: &mut Writer) {
    to.put(seen.print);
    let rank = u64::from(seen.rank()) | if seen.shares() { u64::from(SHARES) } else { 0 };
    to.put(u64::from(seen.mark()) << 32 | form << KIND_SHIFT | rank << RANK_SHIFT | number);
}

/// The spaces that existed when the head was written, and that it contains.
#[derive(Default)]
struct WrittenSpaces {
    /// The number of spaces of each name, by the number of the name.
    names: Vec<usize>,
    all: usize,
}

impl WrittenSpaces {
    /// Adds the next space.
    fn add(&mut self, space: &Space) {
        self.names.resize(usize::from(space.name) + 1, 0);
        self.names[usize::from(space.name)] += 1;
        self.all += 1;
    }

    fn has(&self, space: &Space) -> bool {
        self.names.get(usize::from(space.name)).is_some_and(|ranks| usize::from(space.rank) < *ranks)
    }
}
