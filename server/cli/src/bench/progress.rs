//! A progress bar on standard error, if that is a terminal.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a run, by time or by calls.
pub(crate) struct BenchProgress {
    bar: ProgressBar,
    by_time: bool,
}

impl BenchProgress {
    /// Returns a bar towards `seconds`, or else towards `calls`.
    pub(crate) fn new(seconds: Option<Duration>, calls: u64, title: &str) -> Self {
        let by_time = seconds.is_some();
        if !stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden(), by_time };
        }
        let length = seconds.map_or(calls, millis);
        let bar = ProgressBar::new(length).with_message(title.to_owned());
        let bar = match ProgressStyle::with_template("{wide_bar} {msg}, {eta} left") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        Self { bar, by_time }
    }

    /// Shows the progress.
    pub(crate) fn tick(&self, elapsed: Duration, calls: u64) {
        self.bar.set_position(if self.by_time { millis(elapsed) } else { calls });
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
