//! The audit file: a thread appends the lines of a bounded queue to it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::{Event, Outcome, What, line};
use crate::log::Log;

/// The most lines that wait to be written.
pub(super) const WAITING: usize = 1_024;
/// How long a shutdown waits for the last lines to be written: a disk may not respond.
const LAST: Duration = Duration::from_secs(1);

/// The queue of lines, and the signal that the thread that writes them has ended.
#[derive(Debug)]
pub(super) struct Out {
    orders: Option<SyncSender<Order>>,
    pub(super) shared: Arc<Counts>,
    done: Mutex<Receiver<()>>,
}

/// A command for the thread.
#[derive(Debug)]
enum Order {
    Line(String),
    /// Checks whether the file should be reopened, or lost lines reported.
    Look,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) written: AtomicU64,
    pub(super) lost: AtomicU64,
    /// Of the lost ones, those that no line has reported yet.
    untold: AtomicU64,
    reopen: AtomicBool,
}

impl Out {
    pub(super) fn new(path: PathBuf, log: Arc<Log>) -> io::Result<Self> {
        let file = open(&path)?;
        Self::to(file, path, log)
    }

    /// Writes to `file`, until it is reopened at `path`.
    pub(super) fn to(file: impl Write + Send + 'static, path: PathBuf, log: Arc<Log>) -> io::Result<Self> {
        let file: Box<dyn Write + Send> = Box::new(file);
        let (orders, waiting) = sync_channel(WAITING);
        let (ended, done) = sync_channel::<()>(1);
        let shared = Arc::<Counts>::default();
        let mut writer = Writer { path, file, torn: false, shared: Arc::clone(&shared), log };
        std::thread::Builder::new().name("tollgate-audit".to_owned()).spawn(move || {
            for order in waiting {
                writer.obey(order);
            }
            drop(ended);
        })?;
        Ok(Self { orders: Some(orders), shared, done: Mutex::new(done) })
    }

    /// Puts a line in the queue, or counts it as lost.
    pub(super) fn put(&self, line: String) {
        let taken = self.orders.as_ref().is_some_and(|orders| orders.try_send(Order::Line(line)).is_ok());
        if !taken {
            self.shared.lose();
        }
    }

    pub(super) fn second(&self) {
        if self.shared.untold.load(Ordering::Relaxed) > 0 || self.shared.reopen.load(Ordering::Relaxed) {
            self.look();
        }
    }

    pub(super) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Relaxed);
        self.look();
    }

    /// Wakes the thread. If the queue is full, the next line makes it check too.
    fn look(&self) {
        self.orders.as_ref().inspect(|orders| drop(orders.try_send(Order::Look)));
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.shared.written.load(Ordering::Relaxed), self.shared.lost.load(Ordering::Relaxed))
    }
}

/// Waits until the last lines are written, unless the disk does not respond.
impl Drop for Out {
    fn drop(&mut self) {
        self.orders = None;
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = done.recv_timeout(LAST);
    }
}

impl Counts {
    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        self.untold.fetch_add(1, Ordering::Relaxed);
    }
}

struct Writer {
    path: PathBuf,
    file: Box<dyn Write + Send>,
    /// Whether the last line may be incomplete.
    torn: bool,
    shared: Arc<Counts>,
    log: Arc<Log>,
}

impl Writer {
    fn obey(&mut self, order: Order) {
        if self.shared.reopen.swap(false, Ordering::Relaxed) {
            match open(&self.path) {
                Ok(file) => (self.file, self.torn) = (Box::new(file), false),
                Err(error) => self.log.error("audit_kept", &[("file", &self.path.display()), ("because", &error)]),
            }
        }
        let lost = self.shared.untold.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let detail = format!("{lost} lines are lost: they came faster than they could be written");
            let event = Event { detail: &detail, ..Event::of_server(What::Lost, Outcome::Done) };
            if !self.write(&line::json(&event, None, false, SystemTime::now())) {
                self.shared.untold.fetch_add(lost, Ordering::Relaxed);
            }
        }
        if let Order::Line(line) = order
            && !self.write(&line)
        {
            self.shared.lose();
        }
    }

    fn write(&mut self, line: &str) -> bool {
        let text = if self.torn { format!("\n{line}") } else { line.to_owned() };
        match self.file.write_all(text.as_bytes()) {
            Ok(()) => {
                self.torn = false;
                self.shared.written.fetch_add(1, Ordering::Relaxed);
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
