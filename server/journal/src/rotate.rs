//! Snapshots during writes: a rotation begins the next journal, then the snapshot for it is written concurrently.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::atomic_file;
use crate::error::JournalError;
use crate::frame::{self, BeginCause, EndCause, JournalHeader};
use crate::inner::{JournalFile, JournalInner, lock};
use crate::journal::Journal;
use crate::names::{self, FileRole};
use crate::snapshot::SnapshotWriter;
use crate::sync::SyncPoint;

impl Journal {
    /// Ends the current file and begins the next, holding the order lock only for the switch between them. Before that,
    /// it blocks for a sync of the directory. If the health is not good, the new file begins anew: records framed from
    /// now on are stored again, and [`Rotation::write`] makes the health good.
    pub fn rotate(&self) -> Result<Rotation, JournalError> {
        let inner = &self.inner;
        if inner.rotating.swap(true, Ordering::AcqRel) {
            return Err(JournalError::Busy);
        }
        // From here on, dropping it allows the next rotation.
        let mut rotation = Rotation { inner: Arc::clone(inner), number: 0, seq: 0, failures: 0 };
        rotation.begin()?;
        Ok(rotation)
    }
}

/// A journal that was begun, for which a snapshot is to be written. It can be dropped without one: the previous
/// snapshot and all journals since are the state.
pub struct Rotation {
    inner: Arc<JournalInner>,
    number: u64,
    seq: u64,
    /// The number of failures when the file was begun.
    failures: u64,
}

impl Rotation {
    /// Returns the number of the journal that was begun.
    pub fn file(&self) -> u64 {
        self.number
    }

    /// Writes the snapshot that covers everything before the journal begun by the rotation, and removes the files that
    /// it covers. The snapshot may contain some of what was framed since: all records framed by the time `fill` returns
    /// are synced before the snapshot gets its name. Blocks. Returns the size of the snapshot in bytes.
    pub fn write(self, fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<u64, JournalError> {
        let name = names::snapshot(self.number);
        let result = self.put(&name, fill);
        if result.is_err() {
            // The remains are removed at the next start at the latest.
            _ = atomic_file::remove_if_exists(&*self.inner.disk, &names::new(&self.inner.dir, &name));
        }
        let (bytes, time) = result?;
        self.inner.counts.snapshot(self.number, bytes, time);
        self.clear();
        Ok(bytes)
    }

    fn begin(&mut self) -> Result<(), JournalError> {
        let inner = &*self.inner;
        if inner.order().ended {
            return Err(inner.health_error());
        }
        // Pending bytes are written before, so that the order lock is held only briefly.
        if !inner.is_bad() {
            inner.write_pending(&mut inner.out())?;
        }
        let number = inner.out().number + 1;
        let path = inner.dir.join(names::journal(number));
        let trouble = |doing: &str, error: &std::io::Error| {
            _ = atomic_file::remove_if_exists(&*inner.disk, &path);
            JournalError::of(doing, error)
        };
        // Its name is durable before the previous file states that it follows.
        let made = atomic_file::create_fresh(&*inner.disk, &path)
            .and_then(|file| inner.disk.sync_dir(&inner.dir).map(|()| file));
        let file = made.map_err(|error| trouble("beginning a journal", &error))?;
        let (salt, time) = (inner.disk.random(), inner.disk.now());

        let mut out = inner.out();
        let mut order = inner.order();
        if order.ended {
            _ = atomic_file::remove_if_exists(&*inner.disk, &path);
            return Err(inner.health_error());
        }
        let anew = inner.is_bad();
        let (way, seq) = match (anew, out.is_first) {
            (true, true) => (BeginCause::Origin, order.next),
            (true, false) => (BeginCause::Anew, order.next),
            (false, _) => (BeginCause::Rotation, order.next + 1),
        };
        let header = JournalHeader { begun: way, number, seq, time, salt };
        let mut begun = JournalFile::new(file, &header).map_err(|error| trouble("beginning a journal", &error))?;
        (begun.anew, begun.is_first) = (anew, out.is_first);
        if anew {
            inner.forget();
        } else {
            let end = order.next;
            frame::put_end(&mut order.bytes, end, EndCause::Rotation);
            let taken = inner.take_pending(&mut order, &mut out);
            inner.write_taken(&mut order, &mut out, taken)?;
            begun.older = std::mem::take(&mut out.older);
            begun.older.push(Arc::clone(&out.file));
        }
        order.next = seq + 1;
        order.file = number;
        order.closed = false;
        order.bytes.clear();
        inner.counts.rotated(begun.len);
        let needless = (out.anew && inner.newest.load(Ordering::Acquire) < out.number).then_some(out.number);
        *out = begun;
        (self.number, self.seq, self.failures) = (number, seq, order.failures);
        drop(order);
        drop(out);
        inner.mark_dirty();
        if let Some(number) = needless {
            // Also begun after a failure, without a snapshot: it proves nothing, and there may be many such attempts.
            _ = atomic_file::remove_if_exists(&*inner.disk, &inner.dir.join(names::journal(number)));
        }
        Ok(())
    }

    fn put(
        &self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<(u64, u64), JournalError> {
        let (disk, dir) = (&*self.inner.disk, &self.inner.dir);
        let trouble = |error: std::io::Error| JournalError::of("writing a snapshot", &error);
        let time = disk.now();
        let file = atomic_file::begin(disk, dir, name).map_err(trouble)?;
        let mut writer = SnapshotWriter::begin(&*file, self.number, self.seq, time).map_err(trouble)?;
        fill(&mut writer).map_err(|error| match JournalError::of("writing a snapshot", &error) {
            JournalError::Full => JournalError::Full,
            _ => JournalError::Fill(error.to_string()),
        })?;
        let reached = self.settle()?;
        let bytes = writer.end(reached.len, reached.salt).map_err(trouble)?;
        // Even if the write fails: a file that may be noted must stay.
        self.inner.newest.store(self.number, Ordering::Release);
        atomic_file::write_newest(disk, dir, self.number).map_err(trouble)?;
        atomic_file::finish(disk, dir, name).map_err(trouble)?;
        self.inner.heal(self.failures)?;
        Ok((bytes, time))
    }

    /// Writes and syncs everything framed so far, including the files begun by this rotation.
    fn settle(&self) -> Result<SyncPoint, JournalError> {
        let inner = &*self.inner;
        let _one = lock(&inner.syncing);
        if inner.order().failures != self.failures {
            return Err(inner.health_error());
        }
        inner.write_pending(&mut inner.out())?;
        let reached = inner.sync_files()?;
        if inner.order().failures != self.failures { Err(inner.health_error()) } else { Ok(reached) }
    }

    /// Removes the files that the snapshot covers. Those that cannot be removed now are removed at the next start or
    /// snapshot.
    fn clear(&self) {
        let (disk, dir) = (&*self.inner.disk, &self.inner.dir);
        let Ok(entries) = disk.list(dir) else { return };
        for (name, _) in entries {
            if let FileRole::Journal(number) | FileRole::Snapshot(number) = FileRole::of(&name)
                && number < self.number
            {
                _ = disk.remove(&dir.join(name));
            }
        }
        _ = disk.sync_dir(dir);
    }
}

impl Drop for Rotation {
    fn drop(&mut self) {
        let out = self.inner.out();
        if out.anew && out.number == self.number {
            // The framed records are useless without the snapshot that was not written.
            let mut order = self.inner.order();
            order.closed = true;
            order.bytes.clear();
        }
        drop(out);
        self.inner.rotating.store(false, Ordering::Release);
    }
}

impl std::fmt::Debug for Rotation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rotation").field("file", &self.number).finish_non_exhaustive()
    }
}
