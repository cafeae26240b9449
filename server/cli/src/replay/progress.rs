//! A progress bar on standard error, if that is a terminal.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a replay, by the bytes it has read.
pub(crate) struct ReplayProgress {
    bar: ProgressBar,
    bytes_read: Arc<AtomicU64>,
}

impl ReplayProgress {
    /// Returns a bar towards `size`, a spinner if that is not known, nothing without a terminal.
    pub(crate) fn new(size: Option<u64>, bytes_read: Arc<AtomicU64>) -> Self {
        let bar = match size {
            _ if !stderr().is_terminal() => ProgressBar::hidden(),
            Some(size) => {
                styled(ProgressBar::new(size), "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left")
            }
            None => styled(ProgressBar::new_spinner(), "{spinner} {bytes}, {bytes_per_sec}"),
        };
        Self { bar, bytes_read }
    }

    /// Shows the progress.
    pub(crate) fn tick(&self) {
        if !self.bar.is_hidden() {
            self.bar.set_position(self.bytes_read.load(Ordering::Relaxed));
        }
    }

    /// Removes the bar: the report follows.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
