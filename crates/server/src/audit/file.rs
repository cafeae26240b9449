//! The file: a thread appends to it what stands in a bounded queue.

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

/// Lines that wait to be written.
pub(super) const WAITING: usize = 1_024;
/// How long the last lines are waited for: a disk may not answer.
const LAST: Duration = Duration::from_secs(1);

/// Where lines go, and the end of the thread that writes them.
#[derive(Debug)]
pub(super) struct Out {
    orders: Option<SyncSender<Order>>,
    pub(super) shared: Arc<Counts>,
    done: Mutex<Receiver<()>>,
}

/// What the thread is asked to do.
#[derive(Debug)]
enum Order {
    Line(String),
    /// To look whether the file should be opened again, or lost lines be told.
    Look,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) written: AtomicU64,
    pub(super) lost: AtomicU64,
    /// Of the lost ones, those that no line has told yet.
    untold: AtomicU64,
    reopen: AtomicBool,
}

impl Out {
    pub(super) fn new(path: PathBuf, log: Arc<Log>) -> io::Result<Self> {
        let file = open(&path)?;
        Self::to(file, path, log)
    }

    /// To `file`, until it is opened again at `path`.
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

    /// If there is no room for it, the line that comes next looks too.
    fn look(&self) {
        self.orders.as_ref().inspect(|orders| drop(orders.try_send(Order::Look)));
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.shared.written.load(Ordering::Relaxed), self.shared.lost.load(Ordering::Relaxed))
    }
}

/// The last lines are written, unless the disk does not answer.
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
    /// Whether the last line may lack its end.
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

/// Opens the file to append to. It must be one, and nobody else may write it.
fn open(path: &Path) -> io::Result<File> {
    // Without waiting for the reader of a pipe, which is refused below.
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
