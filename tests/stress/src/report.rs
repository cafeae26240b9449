//! What came of a campaign: lines for people, and every promise that was broken.

use std::fmt;
use std::io::Write as _;

/// Violations shown; one mistake often makes many.
const MAX_SHOWN: usize = 20;

/// What came of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    lines: Vec<String>,
    violations: Vec<String>,
    more: u64,
}

impl Report {
    /// Adds a line, and shows it at once: campaigns take minutes.
    pub(crate) fn say(&mut self, line: impl Into<String>) {
        let line = line.into();
        let _ = writeln!(std::io::stdout(), "{line}");
        self.lines.push(line);
    }

    /// Adds a broken promise.
    pub(crate) fn violated(&mut self, what: impl Into<String>) {
        if self.violations.len() < MAX_SHOWN {
            self.violations.push(what.into());
        } else {
            self.more += 1;
        }
    }

    /// Adds a broken promise unless it was kept.
    pub(crate) fn demand(&mut self, kept: bool, what: impl FnOnce() -> String) {
        if !kept {
            self.violated(what());
        }
    }

    /// Takes over what another found.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.lines.extend(other.lines);
        other.violations.into_iter().for_each(|what| self.violated(what));
        self.more += other.more;
    }

    /// The broken promises that are shown.
    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Whether every promise was kept.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

/// The violations and the last word; the lines were shown as they came.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "VIOLATION {violation}")?;
        }
        match self.violations.len() as u64 + self.more {
            0 => f.write_str("no promise was broken"),
            all => write!(f, "{all} promises were broken"),
        }
    }
}

/// Why a campaign could not be run; it says nothing about the promises.
#[derive(Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
