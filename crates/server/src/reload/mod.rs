//! The policy file: read at the start and whenever it changes, taken as a whole or not at all, and what came of it
//! told.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | reading it, and telling what changed |
//! | `watch.rs` | seeing that it changed |
//! | `again.rs` | everything that is read again when somebody asks for it |
//! | `stamp.rs` | what a file is told from another by |

mod again;
mod stamp;
#[cfg(test)]
mod tests;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_config::{Config, changes};

pub use again::Reload;
pub(crate) use again::told;
pub(crate) use watch::Watch;

use crate::audit::What;
use crate::desk::{Adopted, Desk};
use crate::log::Log;
use crate::metrics::Read;
use crate::shared::Shared;
use stamp::Stamp;

/// Of the lines that tell what changed, so many are written.
const TOLD: usize = 15;

/// The policy file of a server.
pub(crate) struct PolicyFile {
    path: PathBuf,
    shared: Arc<Shared>,
    /// The file that was read last, right or wrong; nothing if there was none. Held while it is read, so that
    /// it is read by one at a time.
    seen: Mutex<Option<Stamp>>,
}

/// What a file says at the start, and which file it was.
pub(crate) struct First {
    pub(crate) config: Config,
    seen: Option<Stamp>,
}

/// Reads the file before there is anything to change.
pub(crate) fn first(path: &Path, log: &Log) -> Result<First, String> {
    let seen = Stamp::of(path);
    let config = read(path, log)?;
    Ok(First { config, seen })
}

/// What the file says. What is odd about it is told, and is no mistake.
fn read(path: &Path, log: &Log) -> Result<Config, String> {
    let read = tollgate_config::read_file(path).map_err(|error| error.to_string())?;
    for message in read.warnings.iter().take(TOLD) {
        let line = message.place.as_ref().map_or(0, |place| place.line);
        log.warn("config_odd", &[("file", &path.display()), ("line", &line), ("text", message)]);
    }
    Ok(read.config)
}

impl PolicyFile {
    fn new(path: PathBuf, first: Option<Stamp>, shared: Arc<Shared>) -> Self {
        Self { path, shared, seen: Mutex::new(first) }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Reads the file again if it is another than the one read last.
    pub(crate) fn look(&self) -> Option<Read> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Stamp::of(&self.path);
        (*seen != now).then(|| self.read_as(now, &mut seen, "it changed"))
    }

    /// Reads the file again, whatever it is.
    pub(crate) fn reload(&self) -> Read {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Stamp::of(&self.path);
        self.read_as(now, &mut seen, "somebody asked for it")
    }

    /// What is changed while it is read has a later stamp than the one kept here, and is seen the next time.
    fn read_as(&self, now: Option<Stamp>, seen: &mut Option<Stamp>, because: &str) -> Read {
        *seen = now;
        let Shared { desk, log, .. } = &*self.shared;
        let came = read(&self.path, log).and_then(|config| take(desk, log, config));
        let changed = came.as_ref().map_or(&[][..], |(_, changed)| changed);
        let words = changed.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join("; ");
        let (file, number, count) = (self.path.display(), desk.generation().number, changed.len());
        let detail = format!("{file}, since {because}: generation {number}, changes: {count}. {words}");
        told(&self.shared, What::Policies, &came, &detail);
        let came = came.map(|(came, _)| came).unwrap_or_else(|why| {
            let (kept, file) = (desk.generation().number, self.path.display());
            for line in why.lines().take(TOLD) {
                log.error("config_kept", &[("file", &file), ("generation", &kept), ("because", &line)]);
            }
            Read::Invalid
        });
        desk.metrics.reloads.count(came);
        came
    }
}

impl First {
    /// The file, to be looked at from now on.
    pub(crate) fn file(self, path: PathBuf, shared: Arc<Shared>) -> PolicyFile {
        PolicyFile::new(path, self.seen, shared)
    }
}

/// Has requests see what the file says, and tells what changed, in the log and to its caller.
fn take(desk: &Desk, log: &Log, config: Config) -> Result<(Read, Vec<String>), String> {
    let before = Arc::clone(&desk.generation());
    let changed = changes(&before.config, &config);
    drop(before);
    match desk.adopt(config).map_err(|error| error.to_string())? {
        Adopted::Unchanged => {
            log.info("config_unchanged", &[("generation", &desk.generation().number)]);
            Ok((Read::Unchanged, Vec::new()))
        }
        Adopted::As(number) => {
            log.info("config_reloaded", &[("generation", &number), ("changes", &changed.len())]);
            for line in changed.iter().take(TOLD) {
                log.info("config_changed", &[("generation", &number), ("text", line)]);
            }
            Ok((Read::Ok, changed))
        }
    }
}
