//! An emulated disk in memory that loses power, fills up and fails, deterministically for a given seed. For tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::survive::{self, FileContent, NameChange, Rng, Survival};
use super::{Disk, DiskFile, FileKind, Lock};

/// An operation that changes a disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DiskOperation {
    /// Creates a file.
    Create,
    /// Appends bytes to a file.
    Append,
    /// Syncs a file.
    Sync,
    /// Truncates a file.
    Truncate,
    /// Renames a file.
    Rename,
    /// Removes a name.
    Remove,
    /// Syncs the names of a directory.
    SyncDir,
}

/// A disk in memory. Clones share the same disk.
#[derive(Clone)]
pub struct EmulatedDisk {
    world: Arc<Mutex<EmulatedState>>,
}

struct EmulatedState {
    names: BTreeMap<PathBuf, u64>,
    lasting: BTreeMap<PathBuf, u64>,
    changes: Vec<NameChange>,
    files: BTreeMap<u64, FileContent>,
    next: u64,
    operations: u64,
    off_at: Option<u64>,
    off: bool,
    room: Option<u64>,
    faults: Vec<InjectedFault>,
    locked: BTreeSet<PathBuf>,
    rng: Rng,
    now: u64,
}

struct InjectedFault {
    operation: DiskOperation,
    /// The number of operations that succeed before it.
    before: u64,
    times: u64,
    error: i32,
}

impl EmulatedDisk {
    /// Returns an empty disk.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, BTreeMap::new())
    }

    /// Returns a disk with these files, synced.
    pub fn with(seed: u64, files: BTreeMap<PathBuf, Vec<u8>>) -> Self {
        let (mut names, mut contents) = (BTreeMap::new(), BTreeMap::new());
        for (id, (path, bytes)) in (0..).zip(files) {
            names.insert(path, id);
            contents.insert(id, FileContent { lasting: bytes.clone(), current: bytes, ..FileContent::default() });
        }
        let world = EmulatedState {
            lasting: names.clone(),
            next: names.len() as u64,
            names,
            changes: Vec::new(),
            files: contents,
            operations: 0,
            off_at: None,
            off: false,
            room: None,
            faults: Vec::new(),
            locked: BTreeSet::new(),
            rng: Rng::new(seed),
            now: 1_790_000_000_000_000,
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Returns the number of operations so far that change a disk.
    pub fn operations(&self) -> u64 {
        self.world().operations
    }

    /// Cuts the power at the operation with this number, counted from 0; an append may write a part of its bytes
    /// before.
    pub fn lose_power_at(&self, operation: u64) {
        self.world().off_at = Some(operation);
    }

    /// Cuts the power now.
    pub fn lose_power(&self) {
        self.world().off = true;
    }

    /// Limits the number of bytes that can still be written.
    pub fn set_room(&self, room: Option<u64>) {
        self.world().room = room;
    }

    /// Lets `times` operations of this kind fail with this error of the system, after `before` of them that succeed.
    pub fn fail(&self, operation: DiskOperation, before: u64, times: u64, error: i32) {
        self.world().faults.push(InjectedFault { operation, before, times, error });
    }

    /// Removes all faults.
    pub fn fail_no_more(&self) {
        self.world().faults.clear();
    }

    /// Returns the disk that a system finds when it starts after the power was lost.
    pub fn restart(&self, survival: Survival, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let world = self.world();
        let names = survive::names(&world.lasting, &world.names, &world.changes, survival, &mut rng);
        let mut files = BTreeMap::new();
        for (path, id) in names {
            let content = world.files.get(&id).map(|content| content.survivors(survival, &mut rng));
            files.insert(path, content.unwrap_or_default());
        }
        Self::with(seed, files)
    }

    /// Returns all files by their current names.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let world = self.world();
        let bytes = |id: &u64| world.files.get(id).map(|content| content.current.clone()).unwrap_or_default();
        world.names.iter().map(|(path, id)| (path.clone(), bytes(id))).collect()
    }

    fn world(&self) -> MutexGuard<'_, EmulatedState> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EmulatedState {
    /// Counts an operation; returns an error if it fails, or if there is no power.
    fn operate(&mut self, operation: DiskOperation) -> io::Result<()> {
        self.powered()?;
        if self.off_at == Some(self.operations) {
            self.off = true;
        }
        self.operations += 1;
        self.powered()?;
        for fault in self.faults.iter_mut().filter(|fault| fault.operation == operation && fault.times > 0) {
            if fault.before > 0 {
                fault.before -= 1;
            } else {
                fault.times -= 1;
                return Err(io::Error::from_raw_os_error(fault.error));
            }
        }
        Ok(())
    }

    fn powered(&self) -> io::Result<()> {
        if self.off { Err(io::Error::other("there is no power")) } else { Ok(()) }
    }

    fn content(&mut self, id: u64) -> io::Result<&mut FileContent> {
        self.files.get_mut(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for EmulatedDisk {
    fn prepare(&self, _dir: &Path) -> io::Result<()> {
        self.world().powered()
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let mut world = self.world();
        world.powered()?;
        if !world.locked.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(EmulatedLock { disk: self.clone(), path: path.to_owned() }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>> {
        let world = self.world();
        world.powered()?;
        let here = world.names.keys().filter(|path| path.parent() == Some(dir));
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(here.map(|path| (name(path), FileKind::File)).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        world.operate(DiskOperation::Create)?;
        if world.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = world.next;
        world.next += 1;
        world.files.insert(id, FileContent::default());
        world.names.insert(path.to_owned(), id);
        world.changes.push(NameChange::Added(path.to_owned(), id));
        Ok(Arc::new(EmulatedFile { disk: self.clone(), id }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let world = self.world();
        world.powered()?;
        let id = *world.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(EmulatedFile { disk: self.clone(), id }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.operate(DiskOperation::Rename)?;
        let id = world.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        world.names.insert(to.to_owned(), id);
        world.changes.push(NameChange::Moved(from.to_owned(), to.to_owned(), id));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        if world.names.contains_key(path) {
            world.operate(DiskOperation::Remove)?;
        }
        world.powered()?;
        let id = world.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        if let (Some(room), Some(content)) = (world.room, world.files.get(&id)) {
            world.room = Some(room + content.current.len() as u64);
        }
        world.changes.push(NameChange::Gone(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.operate(DiskOperation::SyncDir)?;
        world.lasting = world.names.clone();
        world.changes.clear();
        Ok(())
    }

    fn now(&self) -> u64 {
        let mut world = self.world();
        world.now += 1;
        world.now
    }

    fn random(&self) -> u64 {
        self.world().rng.word()
    }
}

/// The lock of the single writer.
struct EmulatedLock {
    disk: EmulatedDisk,
    path: PathBuf,
}

impl Drop for EmulatedLock {
    fn drop(&mut self) {
        self.disk.world().locked.remove(&self.path);
    }
}

/// An open file, independent of its name.
struct EmulatedFile {
    disk: EmulatedDisk,
    id: u64,
}

impl DiskFile for EmulatedFile {
    fn size(&self) -> io::Result<u64> {
        let mut world = self.disk.world();
        world.powered()?;
        Ok(world.content(self.id)?.current.len() as u64)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut world = self.disk.world();
        world.powered()?;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = world.content(self.id)?.current.get(offset..).unwrap_or_default();
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut world = self.disk.world();
        let operated = world.operate(DiskOperation::Append);
        let part = world.rng.index(bytes.len() + 1);
        if let Err(error) = operated {
            // A failed append may have written a part; without power, only the operation at which the power was lost
            // may have.
            if world.off_at.is_some_and(|at| at + 1 == world.operations) || !world.off {
                world.content(self.id)?.current.extend_from_slice(&bytes[..part]);
            }
            if world.off {
                world.off_at = None;
            }
            return Err(error);
        }
        let fits = world.room.map_or(bytes.len(), |room| bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
        if fits == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        world.room = world.room.map(|room| room - fits as u64);
        world.content(self.id)?.current.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.disk.world();
        let operated = world.operate(DiskOperation::Sync);
        let off = world.off;
        let content = world.content(self.id)?;
        match operated {
            Ok(()) => content.sync(),
            Err(error) => {
                if !off {
                    content.give_up();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        let mut world = self.disk.world();
        world.operate(DiskOperation::Truncate)?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let content = world.content(self.id)?;
        let freed = content.current.len().saturating_sub(size) as u64;
        content.cut |= size < content.lasting.len();
        content.current.truncate(size);
        world.room = world.room.map(|room| room + freed);
        Ok(())
    }
}
