//! The thread that writes snapshots: when the journal has grown, now and then, and to get out of a failure, which only
//! new files do.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{io, sync::atomic::Ordering};

use tollgate_core::Timestamp;
use tollgate_journal::{Failed, Health};
use tollgate_memory::Memory;

use super::binding::Binding;
use super::sections::{self, Source, Tell, Told};
use super::touched::Touched;
use crate::desk::Home;
use crate::keys::{Keys, Times};
use crate::shared::Shared;

/// How often the thread looks.
const TICK: Duration = Duration::from_millis(200);
/// How often it tries to get out of a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// How long it waits after a snapshot that failed though the journal is well: each leaves a file behind, and what it
/// began takes the journal's room.
const LATER: Duration = Duration::from_secs(60);
/// How often a failure is told again.
const ALARM: Duration = Duration::from_secs(60);
/// What the journal may grow to before a snapshot, at least.
const GROWN: u64 = 64 << 20;

impl Binding {
    /// Writes a snapshot of what is there while others decide; answers its bytes. `late` tells whether there is no
    /// more time for it.
    pub(super) fn snapshot(
        &self,
        memory: &Memory,
        keys: &Mutex<Keys>,
        bans: &Told<'_>,
        now: impl Into<Times>,
        late: &(dyn Fn() -> bool + Sync),
    ) -> Result<u64, Failed> {
        let (began, now) = (Instant::now(), now.into());
        // Before the files change, so that no change falls between; those told whole in the old file count for
        // nothing in the new one.
        self.lock().touched(Some(Touched::new()));
        let notes = || {
            let (book, latest) = (self.book(), Timestamp::saturating(self.latest.load(Ordering::Relaxed)));
            (now.now.max(latest), book.generation)
        };
        let source = Source { memory, keys, notes: &notes, bans, now, late };
        let written = self.journal.rotate().and_then(|rotation| rotation.write(|to| sections::write(&source, to)));
        self.lock().touched(None);
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.took.store(took, Ordering::Relaxed);
        written
    }
}

/// The thread.
pub(crate) struct Upkeep {
    asks: Sender<Ask>,
    thread: Option<JoinHandle<()>>,
}

/// What it is asked.
enum Ask {
    /// To write a snapshot now.
    Snapshot(SyncSender<Result<u64, Failed>>),
    /// To write the last one by a time, and to end.
    End(Instant),
}

impl Upkeep {
    /// Starts it; nothing if nothing is kept.
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Option<Self>> {
        let Some(binding) = shared.desk.home.binding().cloned() else { return Ok(None) };
        let (asks, asked) = channel();
        let work =
            Work { shared: Arc::clone(shared), binding, tried: Instant::now(), told: None, size: 0, failed: false };
        let thread = std::thread::Builder::new().name("tollgate-data".to_owned());
        let thread = thread.spawn(move || work.run(&asked))?;
        Ok(Some(Self { asks, thread: Some(thread) }))
    }

    /// Has a snapshot written now; its bytes are told when it is there.
    pub(crate) fn snapshot(&self) -> Receiver<Result<u64, Failed>> {
        let (tell, told) = sync_channel(1);
        let _ = self.asks.send(Ask::Snapshot(tell));
        told
    }

    /// Writes the last snapshot if there is time for it, ends the journal and the thread.
    pub(crate) fn end(&mut self, within: Duration) {
        let _ = self.asks.send(Ask::End(Instant::now() + within));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    shared: Arc<Shared>,
    binding: Arc<Binding>,
    /// When a snapshot was last begun.
    tried: Instant,
    /// When a failure was last told, if there is one.
    told: Option<Instant>,
    /// Bytes of the latest snapshot.
    size: u64,
    /// Whether the latest try came to nothing.
    failed: bool,
}

impl Work {
    fn run(mut self, asked: &Receiver<Ask>) {
        loop {
            match asked.recv_timeout(TICK) {
                Ok(Ask::Snapshot(tell)) => {
                    let _ = tell.send(self.snapshot(&|| false));
                }
                Ok(Ask::End(by)) => return self.end(by),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn look(&mut self) {
        let since = self.tried.elapsed();
        match self.binding.journal.health() {
            Health::Good => {
                let grown = self.binding.journal.stats().since_snapshot;
                let is_due = self.binding.keeping.every().is_some_and(|every| since >= every);
                let may = !self.failed || since >= LATER;
                if may && (is_due || grown > GROWN.max(2 * self.size)) {
                    let _ = self.snapshot(&|| false);
                }
            }
            health => {
                self.alarm(&health);
                if since >= AGAIN && self.snapshot(&|| false).is_ok() {
                    self.told = None;
                    self.shared.log.info("kept_again", &[("dir", &self.binding.keeping.dir.display())]);
                }
            }
        }
    }

    /// Says every minute that nothing is kept.
    fn alarm(&mut self, health: &Health) {
        if self.told.is_some_and(|told| told.elapsed() < ALARM) {
            return;
        }
        self.told = Some(Instant::now());
        let why: &dyn std::fmt::Display = match health {
            Health::Failed(why) => why,
            _ => &"the disk is full",
        };
        let means = if self.binding.is_away() { "policies say who decides" } else { "it decides on" };
        let dir = self.binding.keeping.dir.display();
        self.shared.log.error("not_kept", &[("dir", &dir), ("why", why), ("means", &means)]);
    }

    fn snapshot(&mut self, late: &(dyn Fn() -> bool + Sync)) -> Result<u64, Failed> {
        self.tried = Instant::now();
        let desk = &self.shared.desk;
        let Home::Embedded(embedded) = &desk.home else { return Ok(0) };
        let bans = |tell: &mut Tell<'_>| {
            desk.bans.each(&mut |policy, key, ban| tell(policy, key, ban.until, ban.level));
        };
        let written = self.binding.snapshot(embedded, &desk.keys, &bans, Times::of(&*desk.clock), late);
        self.failed = written.is_err();
        match &written {
            Ok(bytes) => {
                self.size = *bytes;
                let took = self.tried.elapsed().as_millis();
                self.shared.log.info("snapshot", &[("bytes", bytes), ("took_ms", &took)]);
            }
            Err(why) => {
                self.binding.failed_snapshots.fetch_add(1, Ordering::Relaxed);
                self.shared.log.error("no_snapshot", &[("why", why)]);
            }
        }
        written
    }

    /// The last one, and the end.
    fn end(&mut self, by: Instant) {
        let _ = self.snapshot(&|| Instant::now() >= by);
        if let Err(why) = self.binding.journal.close() {
            self.shared.log.error("not_ended", &[("why", &why)]);
        }
    }
}
