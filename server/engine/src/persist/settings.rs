//! The settings of persistence: what is persisted, how and where.

use std::path::PathBuf;
use std::time::Duration;

/// The settings of persistence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistSettings {
    /// A directory for this server alone.
    pub dir: PathBuf,
    /// Whether every charge is persisted, or only periodic snapshots.
    pub persist: PersistMode,
    /// The longest interval between snapshots. By default every minute if there are only snapshots, otherwise depending
    /// on the growth of the journal.
    pub snapshot_every: Option<Duration>,
    /// Whether to start on damaged files too, with their intact part.
    pub repair: bool,
    /// The behavior on a full disk.
    pub on_full_disk: OnFullDisk,
}

/// What is persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersistMode {
    /// Periodic snapshots, and one at a clean end: charges since the last one are lost in a crash.
    Snapshot,
    /// Every charge, before the request is answered.
    Journal(Fsync),
}

/// When data is synced to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Every second: a crash of the server loses nothing, a crash of the machine loses the last second.
    #[default]
    EverySecond,
    /// Before any request is answered: nothing is lost.
    Always,
}

/// The behavior on a full disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFullDisk {
    /// Continues to decide, persists nothing until there is room, and reports it.
    #[default]
    Keep,
    /// Decides by the policies' `on_error`, as if the disk had failed.
    Stop,
}

impl PersistSettings {
    /// Returns the default settings: a journal in a directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            persist: PersistMode::Journal(Fsync::EverySecond),
            snapshot_every: None,
            repair: false,
            on_full_disk: OnFullDisk::Keep,
        }
    }

    /// Returns the longest interval between snapshots.
    pub(crate) fn every(&self) -> Option<Duration> {
        let usual = (self.persist == PersistMode::Snapshot).then_some(Duration::from_secs(60));
        self.snapshot_every.or(usual)
    }
}
