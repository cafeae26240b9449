//! The options: where a journal is stored, and when it is synced.

use std::path::PathBuf;

/// The directory of a journal, and how it is written.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// The directory; created if it does not exist.
    pub dir: PathBuf,
    /// When written data is synced, to survive a loss of power.
    pub sync: SyncMode,
    /// Whether to keep the intact part of damaged files instead of refusing them.
    pub repair: bool,
}

/// When written data is synced, to survive a loss of power. Written data survives the end of the process in any case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SyncMode {
    /// By a thread of its own, which begins within a second of the first unsynced write.
    EverySecond,
    /// Before `settled` returns; callers that wait at the same time share one sync.
    Always,
    /// Only by snapshots and at the end.
    Never,
}
