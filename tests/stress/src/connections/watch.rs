//! Files and memory of the server, and what the system holds for connections, while something lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::server::Server;
use crate::{Failure, machine};

const EVERY: Duration = Duration::from_millis(100);

/// The most of each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeakUsage {
    pub(super) files: usize,
    /// Kilobytes.
    pub(super) memory: u64,
    /// Kilobytes of all connections of the machine: others may have some too.
    pub(super) system: u64,
}

pub(super) struct UsageMonitor {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<PeakUsage>,
}

impl PeakUsage {
    pub(super) fn now(server: &Server) -> Self {
        Self { files: server.files(), memory: server.memory(), system: machine::memory_of_connections() }
    }

    fn with(self, other: Self) -> Self {
        Self {
            files: self.files.max(other.files),
            memory: self.memory.max(other.memory),
            system: self.system.max(other.system),
        }
    }
}

impl UsageMonitor {
    pub(super) fn start(server: &Arc<Server>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (server, stopped) = (Arc::clone(server), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut most = PeakUsage::default();
            while !stopped.load(Ordering::Relaxed) {
                most = most.with(PeakUsage::now(&server));
                std::thread::sleep(EVERY);
            }
            most
        });
        Self { stop, thread }
    }

    pub(super) fn end(self) -> Result<PeakUsage, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| Failure("the watch on the server panicked".to_owned()))
    }
}
