//! Snapshots during writes: a rotation begins the next journal, then the snapshot for it is written concurrently.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::Failed;
use crate::frame::{self, Begun, End, Header};
use crate::inner::{Inner, Out, lock};
use crate::journal::Journal;
use crate::names::{self, Name};
use crate::snapshot::Writer;
use crate::sync::Reached;
use crate::whole;

impl Journal {
    /// Ends the current file and begins the next, holding the order lock only for the switch between them. Before that,
    /// it blocks for a sync of the directory. If the health is not good, the new file begins anew: records framed from
    /// now on are stored again, and [`Rotation::write`] makes the health good.
    pub fn rotate(&self) -> Result<Rotation, Failed> {
        let inner = &self.inner;
        if inner.rotating.swap(true, Ordering::AcqRel) {
            return Err(Failed::Busy);
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
    inner: Arc<Inner>,
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
    pub fn write(self, fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<u64, Failed> {
        let name = names::snapshot(self.number);
        let result = self.put(&name, fill);
        if result.is_err() {
            // The remains are removed at the next start at the latest.
            _ = whole::gone(&*self.inner.disk, &names::new(&self.inner.dir, &name));
        }
        let (bytes, time) = result?;
        self.inner.counts.snapshot(self.number, bytes, time);
        self.clear();
        Ok(bytes)
    }

    fn begin(&mut self) -> Result<(), Failed> {
        let inner = &*self.inner;
        if inner.order().ended {
            return Err(inner.failed());
        }
        // Pending bytes are written before, so that the order lock is held only briefly.
        if !inner.is_bad() {
            inner.write_pending(&mut inner.out())?;
        }
        let number = inner.out().number + 1;
        let path = inner.dir.join(names::journal(number));
        let trouble = |doing: &str, error: &std::io::Error| {
            _ = whole::gone(&*inner.disk, &path);
            Failed::of(doing, error)
        };
        // Its name is durable before the previous file states that it follows.
        let made = whole::fresh(&*inner.disk, &path).and_then(|file| inner.disk.sync_dir(&inner.dir).map(|()| file));
        let file = made.map_err(|error| trouble("beginning a journal", &error))?;
        let (salt, time) = (inner.disk.random(), inner.disk.now());

        let mut out = inner.out();
        let mut order = inner.order();
        if order.ended {
            _ = whole::gone(&*inner.disk, &path);
            return Err(inner.failed());
        }
        let anew = inner.is_bad();
        let (way, seq) = match (anew, out.is_first) {
            (true, true) => (Begun::Origin, order.next),
            (true, false) => (Begun::Anew, order.next),
            (false, _) => (Begun::Rotation, order.next + 1),
        };
        let header = Header { begun: way, number, seq, time, salt };
        let mut begun = Out::new(file, &header).map_err(|error| trouble("beginning a journal", &error))?;
        (begun.anew, begun.is_first) = (anew, out.is_first);
        if anew {
            inner.forget();
        } else {
            let end = order.next;
            frame::put_end(&mut order.bytes, end, End::Rotation);
            let taken = inner.take(&mut order, &mut out);
            inner.put(&mut order, &mut out, taken)?;
            begun.older = std::mem::take(&mut out.older);
            begun.older.push(Arc::clone(&out.file));
        }
        order.next = seq + 1;
        order.file = number;
        order.closed = false;
        order.bytes.clear();
        inner.counts.rotated(begun.len);
        let needless = (out.anew && inner.noted.load(Ordering::Acquire) < out.number).then_some(out.number);
        *out = begun;
        (self.number, self.seq, self.failures) = (number, seq, order.failures);
        drop(order);
        drop(out);
        inner.soil();
        if let Some(number) = needless {
            // Also begun after a failure, without a snapshot: it proves nothing, and there may be many such attempts.
            _ = whole::gone(&*inner.disk, &inner.dir.join(names::journal(number)));
        }
        Ok(())
    }

    fn put(&self, name: &str, fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<(u64, u64), Failed> {
        let (disk, dir) = (&*self.inner.disk, &self.inner.dir);
        let trouble = |error: std::io::Error| Failed::of("writing a snapshot", &error);
        let time = disk.now();
        let file = whole::begin(disk, dir, name).map_err(trouble)?;
        let mut writer = Writer::begin(&*file, self.number, self.seq, time).map_err(trouble)?;
        fill(&mut writer).map_err(|error| match Failed::of("writing a snapshot", &error) {
            Failed::Full => Failed::Full,
            _ => Failed::Fill(error.to_string()),
        })?;
        let reached = self.settle()?;
        let bytes = writer.end(reached.len, reached.salt).map_err(trouble)?;
        // Even if the write fails: a file that may be noted must stay.
        self.inner.noted.store(self.number, Ordering::Release);
        whole::note(disk, dir, self.number).map_err(trouble)?;
        whole::finish(disk, dir, name).map_err(trouble)?;
        self.inner.heal(self.failures)?;
        Ok((bytes, time))
    }

    /// Writes and syncs everything framed so far, including the files begun by this rotation.
    fn settle(&self) -> Result<Reached, Failed> {
        let inner = &*self.inner;
        let _one = lock(&inner.syncing);
        if inner.order().failures != self.failures {
            return Err(inner.failed());
        }
        inner.write_pending(&mut inner.out())?;
        let reached = inner.sync_files()?;
        if inner.order().failures != self.failures { Err(inner.failed()) } else { Ok(reached) }
    }

    /// Removes the files that the snapshot covers. Those that cannot be removed now are removed at the next start or
    /// snapshot.
    fn clear(&self) {
        let (disk, dir) = (&*self.inner.disk, &self.inner.dir);
        let Ok(entries) = disk.list(dir) else { return };
        for (name, _) in entries {
            if let Name::Journal(number) | Name::Snapshot(number) = Name::of(&name)
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
