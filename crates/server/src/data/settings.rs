//! What is kept over a restart, how and where: what a server is told of it.

use std::path::PathBuf;
use std::time::Duration;

/// What is kept over a restart, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// Where: a directory of the server's own.
    pub dir: PathBuf,
    /// Everything that is charged, or only a snapshot now and then.
    pub persist: Persist,
    /// How often a snapshot is written at least; every minute if there are only snapshots, else as the journal
    /// grows.
    pub snapshot_every: Option<Duration>,
    /// Starts on damaged files too, with what is whole of them.
    pub repair: bool,
    /// What a full disk means.
    pub on_full_disk: OnFullDisk,
}

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// A snapshot now and then, and at a clean end: what was charged since the last one is lost in a crash.
    Snapshot,
    /// Everything, before it is answered.
    Journal(Fsync),
}

/// When the system is told to write to the disk itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Every second: a crash of the server loses nothing, one of the machine the last second.
    #[default]
    EverySecond,
    /// Before anything is answered: nothing is lost.
    Always,
}

/// What a full disk means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFullDisk {
    /// It decides on, keeps nothing until there is room, and says so.
    #[default]
    Keep,
    /// Policies say who decides, as if the disk had failed.
    Stop,
}

impl Keeping {
    /// The journal in a directory, as it is unless told otherwise.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            persist: Persist::Journal(Fsync::EverySecond),
            snapshot_every: None,
            repair: false,
            on_full_disk: OnFullDisk::Keep,
        }
    }

    /// How often a snapshot is written at least.
    pub(super) fn every(&self) -> Option<Duration> {
        let usual = (self.persist == Persist::Snapshot).then_some(Duration::from_secs(60));
        self.snapshot_every.or(usual)
    }
}
