//! The policy file: read at the start and whenever it changes, and adopted as a whole or not at all. The result is
//! logged.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | reading it, and reporting what changed |
//! | `watch.rs` | noticing that it changed |
//! | `reloader.rs` | everything that is read again on request |
//! | `stamp.rs` | what distinguishes a file from another |

mod reloader;
mod stamp;
#[cfg(test)]
mod tests;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_config::{Config, changes};

pub use reloader::Reloader;
pub(crate) use reloader::audit_reload;
pub(crate) use watch::PolicyFileWatcher;

use crate::metrics::ReloadResult;
use crate::shared::ServerState;
use stamp::FileStamp;
use tollgate_engine::{AdoptionOutcome, Engine};
use tollgate_telemetry::audit::AuditAction;
use tollgate_telemetry::log::ServerLog;

/// The largest number of lines that are logged about changes.
const MAX_LINES: usize = 15;

/// The policy file of a server.
pub(crate) struct PolicyFile {
    path: PathBuf,
    shared: Arc<ServerState>,
    /// The file that was read last, valid or not; `None` if there was none. Locked while the file is read, so that only
    /// one thread reads it at a time.
    seen: Mutex<Option<FileStamp>>,
}

/// The content of the file at the start, and the stamp of the file.
pub(crate) struct InitialConfig {
    pub(crate) config: Config,
    seen: Option<FileStamp>,
}

/// Reads the file at the start, before any policies are in use.
pub(crate) fn read_initial(path: &Path, log: &ServerLog) -> Result<InitialConfig, String> {
    let seen = FileStamp::of(path);
    let config = read(path, log)?;
    Ok(InitialConfig { config, seen })
}

/// Reads the file. Warnings are logged and are not errors.
fn read(path: &Path, log: &ServerLog) -> Result<Config, String> {
    let read = tollgate_config::read_file(path).map_err(|error| error.to_string())?;
    for message in read.warnings.iter().take(MAX_LINES) {
        let line = message.position.as_ref().map_or(0, |position| position.line);
        log.warn("config_odd", &[("file", &path.display()), ("line", &line), ("text", message)]);
    }
    Ok(read.config)
}

impl PolicyFile {
    fn new(path: PathBuf, first: Option<FileStamp>, shared: Arc<ServerState>) -> Self {
        Self { path, shared, seen: Mutex::new(first) }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn log(&self) -> &ServerLog {
        &self.shared.log
    }

    /// Reads the file again if it is not the one that was read last.
    pub(crate) fn reload_if_changed(&self) -> Option<ReloadResult> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = FileStamp::of(&self.path);
        (*seen != now).then(|| self.read_again(now, &mut seen, "it changed"))
    }

    /// Reads the file again in any case.
    pub(crate) fn reload(&self) -> ReloadResult {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = FileStamp::of(&self.path);
        self.read_again(now, &mut seen, "somebody asked for it")
    }

    /// The stamp is taken before reading, so that a change made while reading has a later one and is noticed the next
    /// time.
    fn read_again(&self, now: Option<FileStamp>, seen: &mut Option<FileStamp>, because: &str) -> ReloadResult {
        *seen = now;
        let ServerState { engine, log, metrics, .. } = &*self.shared;
        let outcome = read(&self.path, log).and_then(|config| adopt(engine, log, config));
        let changed = outcome.as_ref().map_or(&[][..], |(_, changed)| changed);
        let words = changed.iter().take(MAX_LINES).map(String::as_str).collect::<Vec<_>>().join("; ");
        let (file, number, count) = (self.path.display(), engine.generation().number, changed.len());
        let detail = format!("{file}, since {because}: generation {number}, changes: {count}. {words}");
        audit_reload(&self.shared, AuditAction::Policies, &outcome, &detail);
        let result = outcome.map(|(result, _)| result).unwrap_or_else(|why| {
            let (kept, file) = (engine.generation().number, self.path.display());
            for line in why.lines().take(MAX_LINES) {
                log.error("config_kept", &[("file", &file), ("generation", &kept), ("because", &line)]);
            }
            ReloadResult::Invalid
        });
        metrics.reloads.count(result);
        result
    }
}

impl InitialConfig {
    /// Returns the file, to be watched from now on.
    pub(crate) fn file(self, path: PathBuf, shared: Arc<ServerState>) -> PolicyFile {
        PolicyFile::new(path, self.seen, shared)
    }
}

/// Applies the file's policies to all further requests, and reports what changed, to the log and to the caller.
fn adopt(engine: &Engine, log: &ServerLog, config: Config) -> Result<(ReloadResult, Vec<String>), String> {
    let before = Arc::clone(&engine.generation());
    let changed = changes(&before.config, &config);
    drop(before);
    match engine.adopt(config).map_err(|error| error.to_string())? {
        AdoptionOutcome::Unchanged => {
            log.info("config_unchanged", &[("generation", &engine.generation().number)]);
            Ok((ReloadResult::Unchanged, Vec::new()))
        }
        AdoptionOutcome::As(number) => {
            log.info("config_reloaded", &[("generation", &number), ("changes", &changed.len())]);
            for line in changed.iter().take(MAX_LINES) {
                log.info("config_changed", &[("generation", &number), ("text", line)]);
            }
            Ok((ReloadResult::Ok, changed))
        }
    }
}
