//! Memory and connections of this process while something lasts.

use std::time::Duration;

use tokio::task::JoinHandle;

use crate::machine;

const EVERY: Duration = Duration::from_millis(50);

/// The most memory so far beyond what there was at the beginning, and the most connections.
pub(super) struct UsageMonitor {
    most: tokio::sync::watch::Receiver<(u64, usize)>,
    began: u64,
    task: JoinHandle<()>,
}

impl UsageMonitor {
    /// Watches connections to this port.
    pub(super) fn start(port: u16) -> Self {
        let began = machine::memory();
        let (told, most) = tokio::sync::watch::channel((began, 0));
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let now = (machine::memory(), machine::connections_to(port));
                told.send_modify(|most| *most = (most.0.max(now.0), most.1.max(now.1)));
            }
        });
        Self { most, began, task }
    }

    /// Kilobytes more than at the beginning, and connections at once.
    pub(super) fn most(&self) -> (u64, usize) {
        let (memory, connections) = *self.most.borrow();
        (memory.saturating_sub(self.began), connections)
    }
}

impl Drop for UsageMonitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}
