//! The audit log: who reset, banned, reloaded, started and stopped something, when, from where, and with what outcome.
//! Each event is one line of JSON, in a file of its own and in the log.
//!
//! | file | what it is |
//! |---|---|
//! | `event.rs` | an event: action, actor, policy and key, outcome |
//! | `line.rs` | an event as a line |
//! | `file.rs` | the file: written by a thread of its own, reopened on request |
//! | `mod.rs` | the audit log, and how many refused attempts it writes |
//!
//! Callers never wait for the file: lines wait in a bounded queue, and those that find it full are counted and reported
//! in a line of their own. A caller without permission can still try as often as it likes, so at most a fixed number of
//! refused attempts is written each second, and the others are counted.

mod event;
mod file;
mod line;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

pub use event::{AuditAction, AuditActor, AuditEvent, AuditOutcome, CallerIdentity, FrontEnd, RequestOrigin};
use file::AuditQueue;

use crate::log::ServerLog;

/// The most refused attempts that are written in a second.
const REFUSED: u64 = 10;

/// The settings of the audit file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFile {
    /// The file. It is created if it does not exist, for its owner alone; a symbolic link is not followed.
    pub path: PathBuf,
    /// Whether keys are written as they are, instead of hashed with a secret of the process.
    pub keys: bool,
}

/// The audit log of a server.
#[derive(Debug, Default)]
pub struct Audit {
    queue: Option<AuditQueue>,
    keys: bool,
    log: Arc<ServerLog>,
    /// Refused attempts that were written in this second, and those that were not.
    refused: AtomicU64,
    left_out: AtomicU64,
}

impl Audit {
    /// Returns an audit log that writes to the log, and to a file if one is given.
    pub fn new(file: Option<AuditFile>, log: Arc<ServerLog>) -> std::io::Result<Self> {
        let keys = file.as_ref().is_some_and(|file| file.keys);
        let queue = file.map(|file| AuditQueue::new(file.path, Arc::clone(&log))).transpose()?;
        Ok(Self { queue, keys, log, ..Self::default() })
    }

    /// Records an event. It never waits.
    pub fn record(&self, event: &AuditEvent<'_>) {
        if matches!(event.outcome, AuditOutcome::Refused(_)) && self.refused.fetch_add(1, Ordering::Relaxed) >= REFUSED
        {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let hash = event.key.map(|key| self.log.hash(key));
        if !event.action.is_logged() {
            line::log(&self.log, event, hash.as_deref());
        }
        if let Some(queue) = &self.queue {
            queue.put(line::json(event, hash.as_deref(), self.keys, SystemTime::now()));
        }
    }

    /// Begins a new second: refused attempts may be written again, and those left out or lost are reported.
    pub fn begin_second(&self) {
        self.refused.store(0, Ordering::Relaxed);
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let detail = format!("{left_out} refused attempts of the last second are not written one by one");
            self.record(&AuditEvent {
                detail: &detail,
                ..AuditEvent::of_server(AuditAction::LeftOut, AuditOutcome::Done)
            });
        }
        if let Some(queue) = &self.queue {
            queue.begin_second();
        }
    }

    /// Reopens the file, so that a file that was moved away is no longer written to.
    pub fn reopen(&self) {
        if let Some(queue) = &self.queue {
            queue.reopen();
        }
    }

    /// Returns the number of lines written to the file so far, and of lines lost.
    pub fn counts(&self) -> (u64, u64) {
        self.queue.as_ref().map_or((0, 0), AuditQueue::counts)
    }
}
