//! Notices that the policy file changed. Editors write beside it and rename, and mounted config maps swap a symbolic
//! link that leads to it, so directories are watched and not the file: the one of its path, and the one it lies in. In
//! case a change is not reported, the file is also checked periodically.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::PolicyFile;
use tollgate_telemetry::log::ServerLog;

/// How long no event must have been reported before the file is read: a change is rarely one write.
const QUIET: Duration = Duration::from_millis(200);
/// The longest time to wait for that.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the file is checked although no event was reported.
const EVERY: Duration = Duration::from_secs(10);

/// The thread that watches the policy file. Dropping it ends the thread.
pub(crate) struct PolicyFileWatcher {
    sender: SyncSender<WatchMessage>,
    thread: Option<JoinHandle<()>>,
}

/// A message to the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchMessage {
    /// Something changed near the file.
    Changed,
    /// The thread should end.
    End,
}

impl PolicyFileWatcher {
    /// Watches a file from now on.
    pub(crate) fn start(file: Arc<PolicyFile>) -> std::io::Result<Self> {
        let (sender, messages) = sync_channel(1);
        let changed = sender.clone();
        let run = move || WatchThread::new(file, changed).run(&messages);
        let thread = std::thread::Builder::new().name("tollgate-config".to_owned()).spawn(run)?;
        Ok(Self { sender, thread: Some(thread) })
    }
}

impl Drop for PolicyFileWatcher {
    fn drop(&mut self) {
        // If the channel is full, the thread is about to take the message in it.
        let _ = self.sender.send(WatchMessage::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread: the file, and the directories that are watched.
struct WatchThread {
    file: Arc<PolicyFile>,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl WatchThread {
    fn new(file: Arc<PolicyFile>, changed: SyncSender<WatchMessage>) -> Self {
        let made = notify::recommended_watcher(move |_: notify::Result<notify::Event>| {
            // A message that is already waiting suffices.
            if let Err(TrySendError::Full(_)) = changed.try_send(WatchMessage::Changed) {}
        });
        let watcher = made.inspect_err(|error| log_unwatched(file.log(), file.path(), error)).ok();
        let mut thread = Self { file, watcher, watched: BTreeSet::new() };
        thread.watch();
        // The file may have changed between the start and now.
        let _ = thread.file.reload_if_changed();
        thread
    }

    fn run(mut self, messages: &Receiver<WatchMessage>) {
        loop {
            match messages.recv_timeout(EVERY) {
                Ok(WatchMessage::Changed) => {
                    if !wait_until_quiet(messages) {
                        return;
                    }
                }
                Ok(WatchMessage::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.watch();
            let _ = self.file.reload_if_changed();
        }
    }

    /// Watches the directories that lead to the file now.
    fn watch(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let wanted = directories(self.file.path());
        for gone in self.watched.difference(&wanted) {
            let _ = watcher.unwatch(gone);
        }
        let mut watched = BTreeSet::new();
        for directory in wanted {
            let is_new = !self.watched.contains(&directory);
            match if is_new { watcher.watch(&directory, RecursiveMode::NonRecursive) } else { Ok(()) } {
                Ok(()) => drop(watched.insert(directory)),
                Err(error) => log_unwatched(self.file.log(), &directory, &error),
            }
        }
        self.watched = watched;
    }
}

/// Waits until no event is reported for a while; returns whether to continue.
fn wait_until_quiet(messages: &Receiver<WatchMessage>) -> bool {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match messages.recv_timeout(QUIET) {
            Ok(WatchMessage::Changed) => {}
            Ok(WatchMessage::End) | Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    true
}

/// Returns the directory of a path, and the directory of the file itself if a symbolic link leads to it.
fn directories(path: &Path) -> BTreeSet<PathBuf> {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
        parent => parent.map(Path::to_owned),
    };
    let own = parent(path).map(|own| own.canonicalize().unwrap_or(own));
    let behind = path.canonicalize().ok().and_then(|path| parent(&path));
    own.into_iter().chain(behind).collect()
}

fn log_unwatched(log: &ServerLog, place: &Path, error: &notify::Error) {
    let seconds = EVERY.as_secs();
    let text = format!("changes are seen within {seconds} s only");
    log.warn("config_unwatched", &[("place", &place.display()), ("because", error), ("text", &text)]);
}
