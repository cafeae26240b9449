//! The state that all writers share: frames in the order of the order lock, one write for everything pending.
//!
//! Laws: the order in the file is the order in which the order lock was held; `settled` returns `Ok` only for what was
//! written (and synced, if the mode requires it); after a failure nothing is written to the file that failed, and
//! nothing is settled until a new snapshot and new files are on disk.
//!
//! Locks are taken in this order: `syncing`, `out`, `order`, `health`. The one exception only tries: a holder of
//! `order` with too many pending bytes writes them itself if `out` happens to be free, or else when it releases
//! `order`.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::disk::{Disk, DiskFile, Lock, append_all};
use crate::error::{Health, JournalError};
use crate::frame::{self, BeginCause, JournalHeader};
use crate::options::SyncMode;
use crate::snapshot::SnapshotMeta;
use crate::stats::JournalCounters;
use crate::sync::SyncSignal;

/// The most bytes that wait for a write before they are written without a request.
pub(crate) const MAX_PENDING: usize = 8 << 20;

/// The state that all writers share.
pub(crate) struct JournalInner {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) sync: SyncMode,
    /// Whether there is a thread that syncs.
    pub(crate) attended: bool,
    order: Mutex<PendingFrames>,
    pub(crate) out: Mutex<JournalFile>,
    /// Allows one sync at a time.
    pub(crate) syncing: Mutex<()>,
    /// Allows one snapshot at a time.
    pub(crate) rotating: AtomicBool,
    /// The sequence numbers of the last record framed, written and synced.
    pub(crate) framed: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) synced: AtomicU64,
    /// The number in the file `newest`.
    pub(crate) newest: AtomicU64,
    /// Whether the health is other than good.
    pub(crate) bad: AtomicBool,
    pub(crate) health: Mutex<Health>,
    /// Whether a record was written for which no sync has begun.
    pub(crate) dirty: AtomicBool,
    pub(crate) signal: SyncSignal,
    /// Changes when a sync has ended, successfully or not.
    pub(crate) syncs: watch::Sender<()>,
    pub(crate) counts: JournalCounters,
    _lock: Lock,
}

/// The data behind the order lock: the bytes that wait for a write.
#[derive(Default)]
pub(crate) struct PendingFrames {
    /// Whole frames.
    pub(crate) bytes: Vec<u8>,
    /// One record before it is framed, so that the function that fills it cannot affect the other frames.
    pub(crate) scratch: Vec<u8>,
    /// The sequence number of the next frame.
    pub(crate) next: u64,
    pub(crate) file: u64,
    /// Records are dropped.
    pub(crate) closed: bool,
    /// The journal was closed permanently.
    pub(crate) ended: bool,
    /// The number of failures so far.
    pub(crate) failures: u64,
}

/// The data behind the write lock: the file.
pub(crate) struct JournalFile {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) number: u64,
    pub(crate) salt: u64,
    /// The number of bytes written successfully.
    pub(crate) len: u64,
    /// The number of bytes synced.
    pub(crate) synced: u64,
    /// It was begun after a failure, and its snapshot is not written yet.
    pub(crate) anew: bool,
    /// Nothing was ever stored before it, so whichever file is begun is the first of its directory.
    pub(crate) is_first: bool,
    /// Files that were ended and are not synced yet.
    pub(crate) older: Vec<Arc<dyn DiskFile>>,
    spare: Vec<u8>,
}

/// The parameters with which a journal begins.
pub(crate) struct StartParameters {
    pub(crate) number: u64,
    pub(crate) seq: u64,
    pub(crate) begun: BeginCause,
    pub(crate) snapshot: Option<SnapshotMeta>,
    /// The bytes of journals after the snapshot.
    pub(crate) bytes: u64,
    pub(crate) sync: SyncMode,
    pub(crate) thread: bool,
}

impl JournalFile {
    /// Returns a file with its header, of which nothing is synced.
    pub(crate) fn new(file: Arc<dyn DiskFile>, header: &JournalHeader) -> io::Result<Self> {
        let mut bytes = Vec::new();
        frame::put_header(&mut bytes, header);
        append_all(&*file, &bytes)?;
        let (number, salt, len) = (header.number, header.salt, bytes.len() as u64);
        Ok(Self {
            file,
            number,
            salt,
            len,
            synced: 0,
            anew: header.begun == BeginCause::Anew,
            is_first: false,
            older: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// Returns a placeholder for a file for which the disk had no room.
    pub(crate) fn without_file(number: u64, begun: BeginCause) -> Self {
        let (file, older, spare) = (Arc::new(UnwritableFile), Vec::new(), Vec::new());
        let is_first = begun == BeginCause::Origin;
        Self { file, number, salt: 0, len: 0, synced: 0, anew: false, is_first, older, spare }
    }
}

/// A file to which nothing can be written.
struct UnwritableFile;

impl DiskFile for UnwritableFile {
    fn size(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn read_at(&self, _into: &mut [u8], _offset: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn append(&self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, _size: u64) -> io::Result<()> {
        Ok(())
    }
}

impl JournalInner {
    /// Returns the state for a file that has its header and is synced.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        lock: Lock,
        out: JournalFile,
        beginning: &StartParameters,
    ) -> Self {
        let &StartParameters { number, seq, sync, thread, .. } = beginning;
        let order = PendingFrames { next: seq + 1, file: number, ..PendingFrames::default() };
        Self {
            disk,
            dir,
            sync,
            attended: thread && sync != SyncMode::Never,
            order: Mutex::new(order),
            out: Mutex::new(out),
            syncing: Mutex::new(()),
            rotating: AtomicBool::new(false),
            framed: AtomicU64::new(seq),
            written: AtomicU64::new(seq),
            synced: AtomicU64::new(seq),
            newest: AtomicU64::new(number),
            bad: AtomicBool::new(false),
            health: Mutex::new(Health::Good),
            dirty: AtomicBool::new(false),
            signal: SyncSignal::default(),
            syncs: watch::Sender::new(()),
            counts: JournalCounters::new(beginning.snapshot, beginning.bytes),
            _lock: lock,
        }
    }

    pub(crate) fn order(&self) -> MutexGuard<'_, PendingFrames> {
        lock(&self.order)
    }

    pub(crate) fn out(&self) -> MutexGuard<'_, JournalFile> {
        lock(&self.out)
    }

    /// Returns an error unless the health is good.
    pub(crate) fn check_health(&self) -> Result<(), JournalError> {
        if self.bad.load(Ordering::Acquire) { Err(self.health_error()) } else { Ok(()) }
    }

    pub(crate) fn health_error(&self) -> JournalError {
        JournalError::from(&*lock(&self.health))
    }

    /// Writes everything framed so far. Returns the record up to which it must be synced, if it must be and is not.
    pub(crate) fn write_out(&self) -> Result<Option<u64>, JournalError> {
        let target = self.framed.load(Ordering::Acquire);
        self.check_health()?;
        if self.written.load(Ordering::Acquire) < target {
            let mut out = self.out();
            // Another thread may have written it while this one waited.
            if self.written.load(Ordering::Acquire) < target {
                self.write_pending(&mut out)?;
            }
            drop(out);
            self.check_health()?;
        }
        let unsynced = self.sync == SyncMode::Always && self.synced.load(Ordering::Acquire) < target;
        Ok(unsynced.then_some(target))
    }

    /// Writes the pending bytes, holding the order lock only while buffers are swapped.
    pub(crate) fn write_pending(&self, out: &mut JournalFile) -> Result<(), JournalError> {
        let taken = self.take_pending(&mut self.order(), out);
        let upto = taken.upto;
        match self.append(out, taken) {
            Ok(()) => self.wrote(upto),
            Err(error) => return Err(self.fail(&mut self.order(), JournalError::of("the write", &error))),
        }
        Ok(())
    }

    /// Takes the pending bytes, to be written with [`write_taken`](Self::write_taken).
    pub(crate) fn take_pending(&self, order: &mut PendingFrames, out: &mut JournalFile) -> PendingWrite {
        out.spare.clear();
        std::mem::swap(&mut order.bytes, &mut out.spare);
        PendingWrite { upto: self.framed.load(Ordering::Acquire) }
    }

    /// Writes the bytes that were taken, with the order lock held.
    pub(crate) fn write_taken(
        &self,
        order: &mut PendingFrames,
        out: &mut JournalFile,
        taken: PendingWrite,
    ) -> Result<(), JournalError> {
        let upto = taken.upto;
        match self.append(out, taken) {
            Ok(()) => self.wrote(upto),
            Err(error) => return Err(self.fail(order, JournalError::of("the write", &error))),
        }
        Ok(())
    }

    fn append(&self, out: &mut JournalFile, _taken: PendingWrite) -> io::Result<()> {
        if out.spare.is_empty() {
            return Ok(());
        }
        let count = out.spare.len() as u64;
        let done = append_all(&*out.file, &out.spare);
        out.spare.clear();
        if out.spare.capacity() > 2 * MAX_PENDING {
            out.spare = Vec::new();
        }
        match done {
            Ok(()) => {
                out.len += count;
                self.counts.wrote(count);
                Ok(())
            }
            Err(error) => {
                // A part may have been written. If it cannot be truncated, it looks like what a loss of power leaves.
                _ = out.file.truncate(out.len);
                Err(error)
            }
        }
    }

    fn wrote(&self, upto: u64) {
        // Marks alone do not need a sync.
        if self.written.fetch_max(upto, Ordering::AcqRel) < upto {
            self.mark_dirty();
        }
    }

    /// Records that written data must be synced.
    pub(crate) fn mark_dirty(&self) {
        if self.sync == SyncMode::EverySecond && !self.dirty.swap(true, Ordering::AcqRel) {
            self.signal.mark_dirty();
        }
    }

    pub(crate) fn upto(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Gives up everything framed so far: it is lost, and only a snapshot can replace it.
    pub(crate) fn forget(&self) {
        let upto = self.framed.load(Ordering::Acquire);
        self.written.fetch_max(upto, Ordering::AcqRel);
        self.synced.fetch_max(upto, Ordering::AcqRel);
    }

    /// Marks the journal as failed: from now on nothing is stored, and nothing is settled.
    pub(crate) fn fail(&self, order: &mut PendingFrames, failed: JournalError) -> JournalError {
        order.closed = true;
        order.bytes.clear();
        order.failures += 1;
        *lock(&self.health) = failed.health();
        self.bad.store(true, Ordering::Release);
        self.syncs.send_replace(());
        failed
    }

    /// Marks the journal as good again: a new snapshot and new files are on disk.
    pub(crate) fn heal(&self, failures: u64) -> Result<(), JournalError> {
        let mut out = self.out();
        let order = self.order();
        if order.failures != failures {
            return Err(self.health_error());
        }
        (out.anew, out.is_first) = (false, false);
        if self.is_bad() {
            *lock(&self.health) = Health::Good;
            self.bad.store(false, Ordering::Release);
        }
        Ok(())
    }

    pub(crate) fn is_bad(&self) -> bool {
        self.bad.load(Ordering::Acquire)
    }
}

/// The record up to which the taken bytes reach.
pub(crate) struct PendingWrite {
    upto: u64,
}

/// Takes a lock. A thread that panicked while it held the lock left consistent values: the data behind these locks is
/// changed only in steps that each leave it consistent.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
