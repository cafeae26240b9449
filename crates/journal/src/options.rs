//! Where a journal is, and when it is made to last.

use std::path::PathBuf;

/// Where the files are, and how they are written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory; made if it is not there.
    pub dir: PathBuf,
    /// When what was written is made to outlast a loss of power.
    pub sync: Sync,
    /// Keep what is whole of damaged files, instead of refusing them.
    pub repair: bool,
}

/// When what was written is made to outlast a loss of power. What was written outlasts the process in any case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sync {
    /// By a thread of its own, beginning within a second of the first write that it has not seen.
    EverySecond,
    /// Before `settled` answers; those who wait together share one sync.
    Always,
    /// Only by snapshots and at the end.
    Never,
}
