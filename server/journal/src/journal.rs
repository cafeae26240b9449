//! The journal while it is written: the interface for a server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::atomic_file;
use crate::disk::{Disk, Lock};
use crate::error::{Health, JournalError, JournalOpenError};
use crate::frame::{self, EndCause, JournalHeader};
use crate::inner::{JournalFile, JournalInner, StartParameters, lock};
use crate::names;
use crate::stats::JournalStats;
use crate::sync::SyncThread;
use crate::writer::JournalWriter;

/// A journal that is being written. Share it by reference or in an `Arc`.
pub struct Journal {
    pub(crate) inner: Arc<JournalInner>,
    thread: Option<SyncThread>,
}

impl Journal {
    /// Begins a file, makes it durable, and records it as the newest.
    pub(crate) fn first_file(
        disk: &dyn Disk,
        dir: &Path,
        beginning: &StartParameters,
    ) -> Result<JournalFile, JournalOpenError> {
        let &StartParameters { number, seq, begun, .. } = beginning;
        let path = dir.join(names::journal(number));
        let header = JournalHeader { begun, number, seq, time: disk.now(), salt: disk.random() };
        let failed = |source| JournalOpenError::Disk { doing: "beginning", path: path.clone(), source };
        let mut out = begin_file(disk, &path, &header).map_err(failed)?;
        out.file.sync().and_then(|()| disk.sync_dir(dir)).map_err(failed)?;
        out.synced = out.len;
        atomic_file::write_newest(disk, dir, number).map_err(failed)?;
        Ok(out)
    }

    /// Continues with the file that was begun.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        lock: Lock,
        out: JournalFile,
        beginning: &StartParameters,
    ) -> Result<Self, JournalOpenError> {
        let path = dir.join(names::journal(beginning.number));
        let failed = |source| JournalOpenError::Disk { doing: "beginning", path, source };
        let inner = Arc::new(JournalInner::new(disk, dir, lock, out, beginning));
        let thread = if inner.attended { Some(SyncThread::start(&inner).map_err(failed)?) } else { None };
        Ok(Self { inner, thread })
    }

    /// Stops storing records, as on a full disk, until a snapshot is written. For a caller that could not write a
    /// snapshot that must exist.
    pub fn give_up(&self) {
        self.inner.fail(&mut self.inner.order(), JournalError::Full);
    }

    /// Takes the order lock. Decide, and [`frame`](JournalWriter::frame) the decision, while it is held, and hold it
    /// briefly.
    pub fn lock(&self) -> JournalWriter<'_> {
        JournalWriter::new(&self.inner)
    }

    /// Writes everything framed so far on this thread, with one write for everything pending; with
    /// [`Always`](crate::SyncMode::Always) it is synced as well, with one sync for all waiting callers. Costs a few
    /// loads if nothing is pending.
    pub async fn settled(&self) -> Result<(), JournalError> {
        let inner = &self.inner;
        let Some(target) = inner.write_out()? else { return Ok(()) };
        if !inner.attended {
            return inner.sync_upto(target);
        }
        let mut syncs = inner.syncs.subscribe();
        inner.signal.request();
        loop {
            inner.check_health()?;
            if inner.synced.load(Ordering::Acquire) >= target {
                return Ok(());
            }
            if syncs.changed().await.is_err() {
                return Err(inner.health_error());
            }
        }
    }

    /// Does the same as [`settled`](Self::settled), blocking.
    pub fn settle_now(&self) -> Result<(), JournalError> {
        match self.inner.write_out()? {
            Some(target) => self.inner.sync_upto(target),
            None => Ok(()),
        }
    }

    /// Writes and syncs everything framed so far, whatever the mode. Blocks.
    pub fn sync_now(&self) -> Result<(), JournalError> {
        self.inner.write_out()?;
        self.inner.sync_upto(self.inner.written.load(Ordering::Acquire))
    }

    /// Returns the condition of the journal.
    pub fn health(&self) -> Health {
        if self.inner.bad.load(Ordering::Acquire) { lock(&self.inner.health).clone() } else { Health::Good }
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> JournalStats {
        let (file, len) = {
            let out = self.inner.out();
            (out.number, out.len)
        };
        let unsynced = self.inner.written.load(Ordering::Acquire) > self.inner.synced.load(Ordering::Acquire);
        self.inner.counts.stats(file, len, unsynced)
    }

    /// Ends the journal cleanly and makes it durable. Nothing is stored after that.
    pub fn close(&self) -> Result<(), JournalError> {
        self.inner.write_out()?;
        {
            let _one = lock(&self.inner.syncing);
            // Everything else first, so that its mark proves it, then the end.
            self.inner.sync_files()?;
            let mut out = self.inner.out();
            let mut order = self.inner.order();
            self.inner.check_health()?;
            let seq = order.next;
            order.next += 1;
            frame::put_end(&mut order.bytes, seq, EndCause::Clean);
            let taken = self.inner.take_pending(&mut order, &mut out);
            self.inner.write_taken(&mut order, &mut out, taken)?;
            if let Err(error) = out.file.sync() {
                return Err(self.inner.fail(&mut order, JournalError::of("the sync at the end", &error)));
            }
            order.ended = true;
            self.inner.fail(&mut order, JournalError::Disk("the journal was closed".to_owned()));
        }
        if let Some(thread) = &self.thread {
            thread.stop();
        }
        Ok(())
    }
}

impl Drop for Journal {
    /// Stops the thread. Records that were not settled are not written: no caller was told that they were.
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            thread.stop();
        }
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("dir", &self.inner.dir).field("health", &self.health()).finish_non_exhaustive()
    }
}

/// Returns a journal file with its header; an existing file must be empty.
fn begin_file(disk: &dyn Disk, path: &Path, header: &JournalHeader) -> io::Result<JournalFile> {
    let file = match disk.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(path)?,
        made => made?,
    };
    if file.size()? > 0 {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "expected no file or an empty one, found another"));
    }
    JournalFile::new(file, header)
}
