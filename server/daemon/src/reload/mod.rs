//! The policy file: read at the start and whenever it changes, and adopted as a whole or not at all. The result is
//! logged.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | reading it, and reporting what changed |
//! | `watch.rs` | noticing that it changed |
//! | `again.rs` | everything that is read again on request |
//! | `stamp.rs` | what distinguishes a file from another |

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

use crate::metrics::Read;
use crate::shared::Shared;
use stamp::Stamp;
use tollgate_engine::{Adopted, Engine};
use tollgate_telemetry::audit::What;
use tollgate_telemetry::log::Log;

/// The largest number of lines that are logged about changes.
const TOLD: usize = 15;

/// The policy file of a server.
pub(crate) struct PolicyFile {
    path: PathBuf,
    shared: Arc<Shared>,
    /// The file that was read last, valid or not; `None` if there was none. Locked while the file is read, so that only
    /// one thread reads it at a time.
    seen: Mutex<Option<Stamp>>,
}

/// The content of the file at the start, and the stamp of the file.
pub(crate) struct First {
    pub(crate) config: Config,
    seen: Option<Stamp>,
}

/// Reads the file at the start, before any policies are in use.
pub(crate) fn first(path: &Path, log: &Log) -> Result<First, String> {
    let seen = Stamp::of(path);
    let config = read(path, log)?;
    Ok(First { config, seen })
}

/// Reads the file. Warnings are logged and are not errors.
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

    /// Reads the file again if it is not the one that was read last.
    pub(crate) fn look(&self) -> Option<Read> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Stamp::of(&self.path);
        (*seen != now).then(|| self.read_as(now, &mut seen, "it changed"))
    }

    /// Reads the file again in any case.
    pub(crate) fn reload(&self) -> Read {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Stamp::of(&self.path);
        self.read_as(now, &mut seen, "somebody asked for it")
    }

    /// The stamp is taken before reading, so that a change made while reading has a later one and is noticed the next
    /// time.
    fn read_as(&self, now: Option<Stamp>, seen: &mut Option<Stamp>, because: &str) -> Read {
        *seen = now;
        let Shared { engine, log, metrics, .. } = &*self.shared;
        let came = read(&self.path, log).and_then(|config| take(engine, log, config));
        let changed = came.as_ref().map_or(&[][..], |(_, changed)| changed);
        let words = changed.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join("; ");
        let (file, number, count) = (self.path.display(), engine.generation().number, changed.len());
        let detail = format!("{file}, since {because}: generation {number}, changes: {count}. {words}");
        told(&self.shared, What::Policies, &came, &detail);
        let came = came.map(|(came, _)| came).unwrap_or_else(|why| {
            let (kept, file) = (engine.generation().number, self.path.display());
            for line in why.lines().take(TOLD) {
                log.error("config_kept", &[("file", &file), ("generation", &kept), ("because", &line)]);
            }
            Read::Invalid
        });
        metrics.reloads.count(came);
        came
    }
}

impl First {
    /// Returns the file, to be watched from now on.
    pub(crate) fn file(self, path: PathBuf, shared: Arc<Shared>) -> PolicyFile {
        PolicyFile::new(path, self.seen, shared)
    }
}

/// Applies the file's policies to all further requests, and reports what changed, to the log and to the caller.
fn take(engine: &Engine, log: &Log, config: Config) -> Result<(Read, Vec<String>), String> {
    let before = Arc::clone(&engine.generation());
    let changed = changes(&before.config, &config);
    drop(before);
    match engine.adopt(config).map_err(|error| error.to_string())? {
        Adopted::Unchanged => {
            log.info("config_unchanged", &[("generation", &engine.generation().number)]);
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
