//! The audit log: who forgot, banned, reloaded, started and stopped something, when, from where, and what came
//! of it. A JSON document a line, in a file of its own and in the log.
//!
//! | file | what it is |
//! |---|---|
//! | `event.rs` | what is told: what, who, from where, on what, with what outcome |
//! | `line.rs` | an event as a line |
//! | `file.rs` | the file: appended to by a thread of its own, opened again when asked |
//! | `mod.rs` | how much of it |
//!
//! Nobody waits for the file: lines stand in a bounded queue, and those that found no room are counted, which
//! is a line too. Whoever may not reset can still try as often as he likes, so of refused attempts so many a
//! second are written, and the others are counted.

mod event;
mod file;
mod line;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

pub(crate) use event::{By, Event, Outcome, What, Who};
use file::Out;

use crate::desk::Part;
use crate::fault::Fault;
use crate::log::Log;

/// Refused attempts that are written in a second.
const REFUSED: u64 = 10;

/// Where the audit log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFile {
    /// The file. It is made if it is not there, for its owner alone; a link is not followed.
    pub path: PathBuf,
    /// Whether keys are written as they are, instead of hashed by a secret of the process.
    pub keys: bool,
}

/// The audit log of a server.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    out: Option<Out>,
    keys: bool,
    log: Arc<Log>,
    /// Refused attempts that were written in this second, and those that were not.
    refused: AtomicU64,
    left_out: AtomicU64,
}

impl Audit {
    /// To a file, if one is named, and to the log.
    pub(crate) fn new(file: Option<AuditFile>, log: Arc<Log>) -> std::io::Result<Self> {
        let keys = file.as_ref().is_some_and(|file| file.keys);
        let out = file.map(|file| Out::new(file.path, Arc::clone(&log))).transpose()?;
        Ok(Self { out, keys, log, ..Self::default() })
    }

    /// Tells an event. It does not wait for anything.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        if matches!(event.outcome, Outcome::Refused(_)) && self.refused.fetch_add(1, Ordering::Relaxed) >= REFUSED {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let hash = event.key.map(|key| self.log.hash(key));
        if !event.what.is_logged() {
            line::log(&self.log, event, hash.as_deref());
        }
        if let Some(out) = &self.out {
            out.put(line::json(event, hash.as_deref(), self.keys, SystemTime::now()));
        }
    }

    /// Tells that a key was forgotten, or why not.
    pub(crate) fn reset(&self, by: &By, part: &Part, fault: Option<&Fault>) {
        let outcome = fault.map_or(Outcome::Done, |fault| Outcome::Failed(&fault.text));
        let (label, key) = (part.known.label(), Some(part.key.as_slice()));
        let policy = label.as_str();
        let named = part.known.policy.to_string();
        let detail = if policy == named { "" } else { &named };
        self.tell(&Event { what: What::Reset, by, policy, key, outcome, detail });
    }

    /// A second has passed: refused attempts have their lines again, and what was left out or lost is told.
    pub(crate) fn second(&self) {
        self.refused.store(0, Ordering::Relaxed);
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let detail = format!("{left_out} refused attempts of the last second are not written one by one");
            self.tell(&Event { detail: &detail, ..Event::of_server(What::LeftOut, Outcome::Done) });
        }
        if let Some(out) = &self.out {
            out.second();
        }
    }

    /// Opens the file again, so that what was moved away is no longer written to.
    pub(crate) fn reopen(&self) {
        if let Some(out) = &self.out {
            out.reopen();
        }
    }

    /// Lines written to the file so far, and lines that were lost.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.out.as_ref().map_or((0, 0), Out::counts)
    }
}
