//! A disk on which snapshots are written as slowly as a test wants, so that others decide before and after each part
//! of one.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use tollgate_journal::disk::{Disk, DiskFile, EmulatedDisk, FileKind, Lock};

/// How many writes to snapshots may pass.
#[derive(Default)]
struct SnapshotGate {
    open: Mutex<u64>,
    changed: Condvar,
}

impl SnapshotGate {
    fn pass(&self) {
        let open = self.open.lock().unwrap();
        *self.changed.wait_while(open, |open| *open == 0).unwrap() -= 1;
    }
}

/// The disk. Clones are the same disk.
#[derive(Clone)]
pub(crate) struct SnapshotGatedDisk {
    pub(crate) disk: EmulatedDisk,
    gate: Arc<SnapshotGate>,
}

impl SnapshotGatedDisk {
    /// A disk with a gate that is open.
    pub(crate) fn new(disk: EmulatedDisk) -> Self {
        let gated = Self { disk, gate: Arc::default() };
        gated.open();
        gated
    }

    /// Nothing passes any more.
    pub(crate) fn shut(&self) {
        *self.gate.open.lock().unwrap() = 0;
    }

    /// So many writes pass.
    pub(crate) fn allow(&self, writes: u64) {
        *self.gate.open.lock().unwrap() = writes;
        self.gate.changed.notify_all();
    }

    pub(crate) fn open(&self) {
        self.allow(u64::MAX);
    }
}

struct SnapshotGatedFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<SnapshotGate>,
}

impl DiskFile for SnapshotGatedFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.gate.pass();
        self.file.append(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync()
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.truncate(size)
    }
}

impl Disk for SnapshotGatedDisk {
    fn prepare(&self, dir: &Path) -> io::Result<()> {
        self.disk.prepare(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.disk.lock(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>> {
        self.disk.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.create(path)?;
        let is_snapshot = path.to_string_lossy().contains("snapshot-");
        Ok(if is_snapshot { Arc::new(SnapshotGatedFile { file, gate: Arc::clone(&self.gate) }) } else { file })
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn now(&self) -> u64 {
        self.disk.now()
    }

    fn random(&self) -> u64 {
        self.disk.random()
    }
}
