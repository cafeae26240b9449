//! The thread that writes snapshots: when the journal has grown, periodically, and to recover from a failure, which
//! requires new files.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{io, sync::atomic::Ordering};

use tollgate_journal::{Health, JournalError};

use crate::engine::Engine;
use crate::home::Home;
use crate::persist::{BanSink, Binding};

/// The interval at which the thread checks.
const TICK: Duration = Duration::from_millis(200);
/// The interval at which it tries to recover from a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// The pause after a snapshot that failed although the journal works: each failure leaves a file behind, and an
/// unfinished snapshot takes room from the journal.
const LATER: Duration = Duration::from_secs(60);
/// The interval at which a failure is reported again.
const ALARM: Duration = Duration::from_secs(60);
/// The least size that the journal may grow to before a snapshot, in bytes.
const GROWN: u64 = 64 << 20;

/// The thread that writes snapshots.
pub struct Upkeep {
    commands: Sender<UpkeepCommand>,
    thread: Option<JoinHandle<()>>,
}

/// A command for the thread.
enum UpkeepCommand {
    /// Writes a snapshot now.
    Snapshot(SyncSender<Result<u64, JournalError>>),
    /// Writes the last snapshot by a time, and ends.
    End(Instant),
}

impl Upkeep {
    /// Starts the thread; returns `None` if persistence is not enabled.
    pub fn start(engine: &Arc<Engine>) -> io::Result<Option<Self>> {
        let Some(binding) = engine.home.binding().cloned() else { return Ok(None) };
        let (commands, receiver) = channel();
        let worker = UpkeepWorker {
            engine: Arc::clone(engine),
            binding,
            begun: Instant::now(),
            reported: None,
            size: 0,
            failed: false,
        };
        let thread = std::thread::Builder::new().name("tollgate-data".to_owned());
        let thread = thread.spawn(move || worker.run(&receiver))?;
        Ok(Some(Self { commands, thread: Some(thread) }))
    }

    /// Requests a snapshot now; its size in bytes is sent when it is written.
    pub fn snapshot(&self) -> Receiver<Result<u64, JournalError>> {
        let (sender, receiver) = sync_channel(1);
        let _ = self.commands.send(UpkeepCommand::Snapshot(sender));
        receiver
    }

    /// Writes the last snapshot if there is time for it, ends the journal and the thread.
    pub fn end(&mut self, within: Duration) {
        let _ = self.commands.send(UpkeepCommand::End(Instant::now() + within));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct UpkeepWorker {
    engine: Arc<Engine>,
    binding: Arc<Binding>,
    /// When a snapshot was last begun.
    begun: Instant,
    /// When a failure was last reported, if there is one.
    reported: Option<Instant>,
    /// The size of the latest snapshot in bytes.
    size: u64,
    /// Whether the latest snapshot failed.
    failed: bool,
}

impl UpkeepWorker {
    fn run(mut self, commands: &Receiver<UpkeepCommand>) {
        loop {
            match commands.recv_timeout(TICK) {
                Ok(UpkeepCommand::Snapshot(sender)) => {
                    let _ = sender.send(self.snapshot(&|| false));
                }
                Ok(UpkeepCommand::End(by)) => return self.end(by),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn look(&mut self) {
        let since = self.begun.elapsed();
        match self.binding.journal.health() {
            Health::Good => {
                let grown = self.binding.journal.stats().since_snapshot;
                let is_due = self.binding.settings.every().is_some_and(|every| since >= every);
                let may = !self.failed || since >= LATER;
                if may && (is_due || grown > GROWN.max(2 * self.size)) {
                    let _ = self.snapshot(&|| false);
                }
            }
            health => {
                self.alarm(&health);
                if since >= AGAIN && self.snapshot(&|| false).is_ok() {
                    self.reported = None;
                    self.engine.log.info("kept_again", &[("dir", &self.binding.settings.dir.display())]);
                }
            }
        }
    }

    /// Reports every minute that nothing is persisted.
    fn alarm(&mut self, health: &Health) {
        if self.reported.is_some_and(|reported| reported.elapsed() < ALARM) {
            return;
        }
        self.reported = Some(Instant::now());
        let why: &dyn std::fmt::Display = match health {
            Health::Failed(why) => why,
            _ => &"the disk is full",
        };
        let means = if self.binding.is_away() { "policies say who decides" } else { "it decides on" };
        let dir = self.binding.settings.dir.display();
        self.engine.log.error("not_kept", &[("dir", &dir), ("why", why), ("means", &means)]);
    }

    fn snapshot(&mut self, late: &(dyn Fn() -> bool + Sync)) -> Result<u64, JournalError> {
        self.begun = Instant::now();
        let engine = Arc::clone(&self.engine);
        let Home::Embedded(embedded) = &engine.home else { return Ok(0) };
        let bans = |tell: &mut BanSink<'_>| {
            engine.bans.each(&mut |policy, key, ban| tell(policy, key, ban.until, ban.level));
        };
        let written = embedded.snapshot(&engine.keys, &bans, engine.times(), late);
        self.failed = written.is_err();
        match &written {
            Ok(bytes) => {
                self.size = *bytes;
                let took = self.begun.elapsed().as_millis();
                self.engine.log.info("snapshot", &[("bytes", bytes), ("took_ms", &took)]);
            }
            Err(why) => {
                self.binding.failed_snapshots.fetch_add(1, Ordering::Relaxed);
                self.engine.log.error("no_snapshot", &[("why", why)]);
            }
        }
        written
    }

    /// Writes the last snapshot, and ends the journal.
    fn end(&mut self, by: Instant) {
        let _ = self.snapshot(&|| Instant::now() >= by);
        if let Err(why) = self.binding.journal.close() {
            self.engine.log.error("not_ended", &[("why", &why)]);
        }
    }
}
