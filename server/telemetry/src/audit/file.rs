//! The audit file: a thread appends the lines of a bounded queue to it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::{AuditAction, AuditEvent, AuditOutcome, line};
use crate::log::ServerLog;

/// The most lines that wait to be written.
pub(super) const WAITING: usize = 1_024;
/// How long a shutdown waits for the last lines to be written: a disk may not respond.
const LAST: Duration = Duration::from_secs(1);

/// The queue of lines, and the signal that the thread that writes them has ended.
#[derive(Debug)]
pub(super) struct AuditQueue {
    commands: Option<SyncSender<AuditCommand>>,
    pub(super) counters: Arc<AuditCounters>,
    done: Mutex<Receiver<()>>,
}

/// A command for the thread.
#[derive(Debug)]
enum AuditCommand {
    Line(String),
    /// Checks whether the file should be reopened, or lost lines reported.
    Check,
}

/// The counts of lines, and the request to reopen the file; shared by the queue and the thread.
#[derive(Debug, Default)]
pub(super) struct AuditCounters {
    pub(super) written: AtomicU64,
    pub(super) lost: AtomicU64,
    /// Of the lost ones, those that no line has reported yet.
    unreported: AtomicU64,
    reopen: AtomicBool,
}

impl AuditQueue {
    pub(super) fn new(path: PathBuf, log: Arc<ServerLog>) -> io::Result<Self> {
        let file = open(&path)?;
        Self::to(file, path, log)
    }

    /// Writes to `file`, until it is reopened at `path`.
    pub(super) fn to(file: impl Write + Send + 'static, path: PathBuf, log: Arc<ServerLog>) -> io::Result<Self> {
        let file: Box<dyn Write + Send> = Box::new(file);
        let (commands, waiting) = sync_channel(WAITING);
        let (ended, done) = sync_channel::<()>(1);
        let counters = Arc::<AuditCounters>::default();
        let mut writer = AuditWriter { path, file, torn: false, counters: Arc::clone(&counters), log };
        std::thread::Builder::new().name("tollgate-audit".to_owned()).spawn(move || {
            for command in waiting {
                writer.execute(command);
            }
            drop(ended);
        })?;
        Ok(Self { commands: Some(commands), counters, done: Mutex::new(done) })
    }

    /// Puts a line in the queue, or counts it as lost.
    pub(super) fn put(&self, line: String) {
        let taken = self.commands.as_ref().is_some_and(|commands| commands.try_send(AuditCommand::Line(line)).is_ok());
        if !taken {
            self.counters.lose();
        }
    }

    pub(super) fn begin_second(&self) {
        if self.counters.unreported.load(Ordering::Relaxed) > 0 || self.counters.reopen.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    pub(super) fn reopen(&self) {
        self.counters.reopen.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Wakes the thread. If the queue is full, the next line makes it check too.
    fn wake(&self) {
        self.commands.as_ref().inspect(|commands| drop(commands.try_send(AuditCommand::Check)));
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.counters.written.load(Ordering::Relaxed), self.counters.lost.load(Ordering::Relaxed))
    }
}

/// Waits until the last lines are written, unless the disk does not respond.
impl Drop for AuditQueue {
    fn drop(&mut self) {
        self.commands = None;
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = done.recv_timeout(LAST);
    }
}

impl AuditCounters {
    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        self.unreported.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the thread writes with.
struct AuditWriter {
    path: PathBuf,
    file: Box<dyn Write + Send>,
    /// Whether the last line may be incomplete.
    torn: bool,
    counters: Arc<AuditCounters>,
    log: Arc<ServerLog>,
}

impl AuditWriter {
    fn execute(&mut self, command: AuditCommand) {
        if self.counters.reopen.swap(false, Ordering::Relaxed) {
            match open(&self.path) {
                Ok(file) => (self.file, self.torn) = (Box::new(file), false),
                Err(error) => self.log.error("audit_kept", &[("file", &self.path.display()), ("because", &error)]),
            }
        }
        let lost = self.counters.unreported.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let detail = format!("{lost} lines are lost: they came faster than they could be written");
            let event = AuditEvent { detail: &detail, ..AuditEvent::of_server(AuditAction::Lost, AuditOutcome::Done) };
            if !self.write(&line::json(&event, None, false, SystemTime::now())) {
                self.counters.unreported.fetch_add(lost, Ordering::Relaxed);
            }
        }
        if let AuditCommand::Line(line) = command
            && !self.write(&line)
        {
            self.counters.lose();
        }
    }

    fn write(&mut self, line: &str) -> bool {
        let text = if self.torn { format!("\n{line}") } else { line.to_owned() };
        match self.file.write_all(text.as_bytes()) {
            Ok(()) => {
                self.torn = false;
                self.counters.written.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(error) => {
                self.torn = true;
                self.log.error("audit_failed", &[("file", &self.path.display()), ("because", &error)]);
                false
            }
        }
    }
}

/// Opens the file for appending. It must be a regular file that only its owner may write.
fn open(path: &Path) -> io::Result<File> {
    // Does not wait for the reader of a pipe, which is refused below.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    let wrong = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if !found.is_file() {
        return wrong("expected a file".to_owned());
    }
    if found.mode() & 0o022 != 0 {
        let path = path.display();
        return wrong(format!("expected that only its owner may write it; chmod go-w {path}"));
    }
    Ok(file)
}
