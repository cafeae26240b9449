//! Syncs written records, so that they survive a loss of power: the thread that syncs, and one sync for all waiting
//! callers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::JournalError;
use crate::frame;
use crate::inner::{JournalInner, lock};
use crate::options::SyncMode;

/// The delay from the first write to its sync: a second, minus what a thread may need to wake up.
const DELAY: Duration = Duration::from_millis(900);

/// How far a sync reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncPoint {
    pub(crate) file: u64,
    pub(crate) salt: u64,
    pub(crate) len: u64,
}

impl JournalInner {
    /// Syncs until the record with this number is synced.
    pub(crate) fn sync_upto(&self, target: u64) -> Result<(), JournalError> {
        if self.synced.load(Ordering::Acquire) < target {
            let one = lock(&self.syncing);
            // Another thread may have synced it while this one waited.
            if self.synced.load(Ordering::Acquire) < target {
                self.sync_files()?;
            }
            drop(one);
        }
        self.check_health()
    }

    /// Syncs everything that is written. The caller holds `syncing`.
    pub(crate) fn sync_files(&self) -> Result<SyncPoint, JournalError> {
        let (files, reached, upto) = {
            let mut out = self.out();
            self.dirty.store(false, Ordering::Release);
            let mut reached = SyncPoint { file: out.number, salt: out.salt, len: out.len };
            let upto = self.upto();
            if self.synced.load(Ordering::Acquire) >= upto && out.synced > 0 && out.older.is_empty() {
                // Nothing was written since, except a mark.
                reached.len = out.synced;
                return Ok(reached);
            }
            // Older files first, so that a mark proves them too.
            let mut files = std::mem::take(&mut out.older);
            files.push(Arc::clone(&out.file));
            (files, reached, upto)
        };
        let began = Instant::now();
        for file in &files {
            if let Err(error) = file.sync() {
                self.counts.sync_failed();
                return Err(self.fail(&mut self.order(), JournalError::of("the sync", &error)));
            }
        }
        self.counts.synced(began.elapsed());
        self.mark(reached)?;
        self.synced.fetch_max(upto, Ordering::AcqRel);
        self.syncs.send_replace(());
        Ok(reached)
    }

    /// Records in the file how far it is synced. In the mode `Always` the mark waits for the next write; otherwise it
    /// is written at once, so that it exists even if no record follows.
    fn mark(&self, reached: SyncPoint) -> Result<(), JournalError> {
        let mut out = self.out();
        if out.number != reached.file || out.synced >= reached.len {
            return Ok(());
        }
        out.synced = reached.len;
        {
            let mut order = self.order();
            if order.closed {
                return Ok(());
            }
            let seq = order.next;
            order.next += 1;
            frame::put_synced(&mut order.bytes, seq, reached.len, reached.salt);
        }
        if self.sync == SyncMode::Always { Ok(()) } else { self.write_pending(&mut out) }
    }
}

/// The signal that wakes the thread.
#[derive(Default)]
pub(crate) struct SyncSignal {
    state: Mutex<SyncRequest>,
    change: Condvar,
}

/// Which sync the thread must perform next.
#[derive(Default)]
struct SyncRequest {
    /// The time of the first unsynced write.
    since: Option<Instant>,
    /// Whether a caller waits for a sync.
    requested: bool,
    stop: bool,
}

impl SyncSignal {
    pub(crate) fn request(&self) {
        lock(&self.state).requested = true;
        self.change.notify_one();
    }

    pub(crate) fn mark_dirty(&self) {
        lock(&self.state).since.get_or_insert_with(Instant::now);
        self.change.notify_one();
    }

    fn stop(&self) {
        lock(&self.state).stop = true;
        self.change.notify_one();
    }

    /// Waits until a sync is due; returns `false` at the end.
    fn wait_until_due(&self) -> bool {
        let mut request = lock(&self.state);
        loop {
            if request.stop {
                return false;
            }
            let left = request.since.map(|since| DELAY.saturating_sub(since.elapsed()));
            if request.requested || left == Some(Duration::ZERO) {
                request.requested = false;
                request.since = None;
                return true;
            }
            request = match left {
                Some(left) => self.change.wait_timeout(request, left).map_or_else(|bad| bad.into_inner().0, |ok| ok.0),
                None => self.change.wait(request).unwrap_or_else(std::sync::PoisonError::into_inner),
            };
        }
    }
}

/// The thread that syncs.
pub(crate) struct SyncThread {
    inner: Weak<JournalInner>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl SyncThread {
    pub(crate) fn start(inner: &Arc<JournalInner>) -> std::io::Result<Self> {
        let own = Arc::clone(inner);
        let run = move || {
            while own.signal.wait_until_due() {
                let _one = lock(&own.syncing);
                // A failure is reported by the health, and to the waiting callers.
                _ = own.sync_files();
            }
        };
        let handle = std::thread::Builder::new().name("journal-sync".to_owned()).spawn(run)?;
        Ok(Self { inner: Arc::downgrade(inner), handle: Mutex::new(Some(handle)) })
    }

    /// Ends the thread, and waits until it has ended.
    pub(crate) fn stop(&self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.signal.stop();
        }
        if let Some(handle) = lock(&self.handle).take() {
            _ = handle.join();
        }
    }
}
