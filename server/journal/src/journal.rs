//! The journal while it is written: the interface for a server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::disk::{Disk, Lock};
use crate::error::{Failed, Health, OpenError};
use crate::frame::{self, End, Header};
use crate::inner::{Beginning, Inner, Out, lock};
use crate::names;
use crate::stats::Stats;
use crate::sync::SyncThread;
use crate::whole;
use crate::writing::Writing;

/// A journal that is being written. Share it by reference or in an `Arc`.
pub struct Journal {
    pub(crate) inner: Arc<Inner>,
    thread: Option<SyncThread>,
}

impl Journal {
    /// Begins a file, makes it durable, and records it as the newest.
    pub(crate) fn first_file(disk: &dyn Disk, dir: &Path, beginning: &Beginning) -> Result<Out, OpenError> {
        let &Beginning { number, seq, begun, .. } = beginning;
        let path = dir.join(names::journal(number));
        let header = Header { begun, number, seq, time: disk.now(), salt: disk.random() };
        let failed = |source| OpenError::Disk { doing: "beginning", path: path.clone(), source };
        let mut out = begin_file(disk, &path, &header).map_err(failed)?;
        out.file.sync().and_then(|()| disk.sync_dir(dir)).map_err(failed)?;
        out.synced = out.len;
        whole::note(disk, dir, number).map_err(failed)?;
        Ok(out)
    }

    /// Continues with the file that was begun.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        lock: Lock,
        out: Out,
        beginning: &Beginning,
    ) -> Result<Self, OpenError> {
        let path = dir.join(names::journal(beginning.number));
        let failed = |source| OpenError::Disk { doing: "beginning", path, source };
        let inner = Arc::new(Inner::new(disk, dir, lock, out, beginning));
        let thread = if inner.attended { Some(SyncThread::start(&inner).map_err(failed)?) } else { None };
        Ok(Self { inner, thread })
    }

    /// Stops storing records, as on a full disk, until a snapshot is written. For a caller that could not write a
    /// snapshot that must exist.
    pub fn give_up(&self) {
        self.inner.fail(&mut self.inner.order(), Failed::Full);
    }

    /// Takes the order lock. Decide, and [`frame`](Writing::frame) the decision, while it is held, and hold it briefly.
    pub fn lock(&self) -> Writing<'_> {
        Writing::new(&self.inner)
    }

    /// Writes everything framed so far on this thread, with one write for everything pending; with
    /// [`Always`](crate::Sync::Always) it is synced as well, with one sync for all waiting callers. Costs a few loads
    /// if nothing is pending.
    pub async fn settled(&self) -> Result<(), Failed> {
        let inner = &self.inner;
        let Some(target) = inner.write_out()? else { return Ok(()) };
        if !inner.attended {
            return inner.sync_upto(target);
        }
        let mut syncs = inner.syncs.subscribe();
        inner.signal.want();
        loop {
            inner.fine()?;
            if inner.synced.load(Ordering::Acquire) >= target {
                return Ok(());
            }
            if syncs.changed().await.is_err() {
                return Err(inner.failed());
            }
        }
    }

    /// Does the same as [`settled`](Self::settled), blocking.
    pub fn settle_now(&self) -> Result<(), Failed> {
        match self.inner.write_out()? {
            Some(target) => self.inner.sync_upto(target),
            None => Ok(()),
        }
    }

    /// Writes and syncs everything framed so far, whatever the mode. Blocks.
    pub fn sync_now(&self) -> Result<(), Failed> {
        self.inner.write_out()?;
        self.inner.sync_upto(self.inner.written.load(Ordering::Acquire))
    }

    /// Returns the condition of the journal.
    pub fn health(&self) -> Health {
        if self.inner.bad.load(Ordering::Acquire) { lock(&self.inner.health).clone() } else { Health::Good }
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> Stats {
        let (file, len) = {
            let out = self.inner.out();
            (out.number, out.len)
        };
        let unsynced = self.inner.written.load(Ordering::Acquire) > self.inner.synced.load(Ordering::Acquire);
        self.inner.counts.stats(file, len, unsynced)
    }

    /// Ends the journal cleanly and makes it durable. Nothing is stored after that.
    pub fn close(&self) -> Result<(), Failed> {
        self.inner.write_out()?;
        {
            let _one = lock(&self.inner.syncing);
            // Everything else first, so that its mark proves it, then the end.
            self.inner.sync_files()?;
            let mut out = self.inner.out();
            let mut order = self.inner.order();
            self.inner.fine()?;
            let seq = order.next;
            order.next += 1;
            frame::put_end(&mut order.bytes, seq, End::Clean);
            let taken = self.inner.take(&mut order, &mut out);
            self.inner.put(&mut order, &mut out, taken)?;
            if let Err(error) = out.file.sync() {
                return Err(self.inner.fail(&mut order, Failed::of("the sync at the end", &error)));
            }
            order.ended = true;
            self.inner.fail(&mut order, Failed::Disk("the journal was closed".to_owned()));
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
fn begin_file(disk: &dyn Disk, path: &Path, header: &Header) -> io::Result<Out> {
    let file = match disk.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(path)?,
        made => made?,
    };
    if file.size()? > 0 {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "expected no file or an empty one, found another"));
    }
    Out::new(file, header)
}
