//! The statistics of a journal.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::inner::lock;
use crate::snapshot::SnapshotMeta;

/// The statistics of a journal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct JournalStats {
    /// Records framed since the start.
    pub frames: u64,
    /// Bytes written to journals since the start.
    pub written: u64,
    /// Bytes of journals after the last snapshot, including those of earlier runs.
    pub since_snapshot: u64,
    /// The number of the current file.
    pub file: u64,
    /// The bytes of the current file.
    pub file_bytes: u64,
    /// Syncs of the journal that succeeded.
    pub syncs: u64,
    /// Syncs of the journal that failed.
    pub failed_syncs: u64,
    /// The longest sync so far.
    pub longest_sync: Duration,
    /// The time since the last sync ended, or since the start if there was none.
    pub last_sync: Duration,
    /// Whether something was written that is not synced yet.
    pub unsynced: bool,
    /// The number of the last snapshot; zero if there is none.
    pub snapshot: u64,
    /// The bytes of the last snapshot.
    pub snapshot_bytes: u64,
    /// When the last snapshot was begun: microseconds since the Unix epoch; zero if there is none.
    pub snapshot_time: u64,
}

/// The counters behind [`JournalStats`].
pub(crate) struct JournalCounters {
    frames: AtomicU64,
    written: AtomicU64,
    /// Bytes of journals of earlier runs after the last snapshot.
    before: AtomicU64,
    /// The bytes written at the last rotation, and at the rotation of the last snapshot.
    at_rotation: AtomicU64,
    at_snapshot: AtomicU64,
    rest: Mutex<LockedCounters>,
}

/// The counters that change together, under a lock.
struct LockedCounters {
    syncs: u64,
    failed: u64,
    longest: Duration,
    last: Instant,
    snapshot: (u64, u64, u64),
}

impl JournalCounters {
    pub(crate) fn new(snapshot: Option<SnapshotMeta>, before: u64) -> Self {
        let snapshot = snapshot.map_or((0, 0, 0), |about| (about.number, about.size, about.time));
        let rest = LockedCounters { syncs: 0, failed: 0, longest: Duration::ZERO, last: Instant::now(), snapshot };
        Self {
            frames: AtomicU64::new(0),
            written: AtomicU64::new(0),
            before: AtomicU64::new(before),
            at_rotation: AtomicU64::new(0),
            at_snapshot: AtomicU64::new(0),
            rest: Mutex::new(rest),
        }
    }

    /// Counts a record. The caller holds the order lock.
    pub(crate) fn framed(&self) {
        self.frames.store(self.frames.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn rotated(&self, header: u64) {
        self.at_rotation.store(self.written.fetch_add(header, Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn synced(&self, took: Duration) {
        let mut rest = lock(&self.rest);
        rest.syncs += 1;
        rest.longest = rest.longest.max(took);
        rest.last = Instant::now();
    }

    pub(crate) fn sync_failed(&self) {
        lock(&self.rest).failed += 1;
    }

    pub(crate) fn snapshot(&self, number: u64, bytes: u64, time: u64) {
        lock(&self.rest).snapshot = (number, bytes, time);
        self.before.store(0, Ordering::Relaxed);
        self.at_snapshot.store(self.at_rotation.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn stats(&self, file: u64, file_bytes: u64, unsynced: bool) -> JournalStats {
        let rest = lock(&self.rest);
        let written = self.written.load(Ordering::Relaxed);
        let (snapshot, snapshot_bytes, snapshot_time) = rest.snapshot;
        let since = written.saturating_sub(self.at_snapshot.load(Ordering::Relaxed));
        JournalStats {
            frames: self.frames.load(Ordering::Relaxed),
            written,
            since_snapshot: self.before.load(Ordering::Relaxed) + since,
            file,
            file_bytes,
            syncs: rest.syncs,
            failed_syncs: rest.failed,
            longest_sync: rest.longest,
            last_sync: rest.last.elapsed(),
            unsynced,
            snapshot,
            snapshot_bytes,
            snapshot_time,
        }
    }
}
