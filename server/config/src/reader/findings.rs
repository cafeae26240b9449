//! Mistakes and warnings as they are found.

use std::fmt::Write;

use tollgate_kernel::{Timestamp, is_word};

use super::ParsedConfig;
use crate::message::{ConfigError, ConfigMessage, ConfigPosition, MAX_MESSAGES};
use crate::model::Config;
use crate::tree::{SyntaxError, TreeNode, quoted};

/// The most mistakes of a file that are collected before they are sorted by position.
const KEPT: usize = 1_000;

/// The reader of a file: its findings so far, and its current path. The other files add the methods that read.
pub(super) struct ConfigReader<'a> {
    pub(super) text: &'a str,
    pub(super) now: Timestamp,
    mistakes: Vec<ConfigFinding>,
    /// The number of mistakes that were not collected.
    more: usize,
    warnings: Vec<ConfigFinding>,
    path: String,
}

/// A mistake or a warning, before its line and column are known.
struct ConfigFinding {
    at: usize,
    path: String,
    expected: String,
    found: String,
    hint: String,
    /// The position of an earlier duplicate, whose line is reported as the hint.
    first: Option<usize>,
}

impl<'a> ConfigReader<'a> {
    pub(super) fn new(text: &'a str, now: Timestamp) -> Self {
        Self { text, now, mistakes: Vec::new(), more: 0, warnings: Vec::new(), path: String::new() }
    }

    /// Runs a function within a field.
    pub(super) fn within<T>(&mut self, name: &str, run: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.step(name);
        let done = run(self);
        self.path.truncate(length);
        done
    }

    /// Runs a function within an entry of a list.
    pub(super) fn at_index<T>(&mut self, index: usize, run: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        // Writing to a string does not fail.
        let _ = write!(self.path, "[{index}]");
        let done = run(self);
        self.path.truncate(length);
        done
    }

    fn step(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        if is_word(name) {
            self.path.push_str(name);
        } else {
            self.path.push_str(&quoted(name));
        }
    }

    /// Reports a mistake at a byte of the text.
    pub(super) fn wrong(
        &mut self,
        at: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if self.has_room() {
            let finding = self.finding(at, expected.into(), found.into(), hint.into());
            self.mistakes.push(finding);
        }
    }

    /// Reports a duplicate of what is at `first`.
    pub(super) fn duplicate(&mut self, at: usize, expected: &str, found: impl Into<String>, first: usize) {
        if self.has_room() {
            let finding = self.finding(at, expected.to_owned(), found.into(), String::new());
            self.mistakes.push(ConfigFinding { first: Some(first), ..finding });
        }
    }

    /// Returns whether another mistake can be collected; counts it if not.
    pub(super) fn has_room(&mut self) -> bool {
        let room = self.mistakes.len() < KEPT;
        self.more += usize::from(!room);
        room
    }

    /// Reports a value of the wrong type.
    pub(super) fn wrong_value(&mut self, node: &TreeNode<'_>, expected: impl Into<String>, hint: impl Into<String>) {
        self.wrong(node.at, expected, node.describe(), hint);
    }

    /// Reports a warning.
    pub(super) fn warn(
        &mut self,
        at: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if self.warnings.len() < KEPT {
            let finding = self.finding(at, expected.into(), found.into(), hint.into());
            self.warnings.push(finding);
        }
    }

    /// Reports a syntax error.
    pub(super) fn syntax_error(&mut self, error: SyntaxError) {
        let SyntaxError { at, expected, found, hint } = error;
        self.wrong(at, expected, found, hint);
    }

    fn finding(&self, at: usize, expected: String, found: String, hint: String) -> ConfigFinding {
        ConfigFinding { at, path: self.path.clone(), expected, found, hint, first: None }
    }

    /// Returns the config if there was no mistake, otherwise the mistakes in the order of the file.
    pub(super) fn finish(mut self, config: Config) -> Result<ParsedConfig, ConfigError> {
        let text = self.text;
        let message = |finding: ConfigFinding| {
            let ConfigFinding { at, path, expected, found, mut hint, first } = finding;
            // Done only here, because counting lines takes time proportional to the file.
            if let Some(first) = first {
                hint = format!("it is in line {} too", ConfigPosition::of(text, first).line);
            }
            ConfigMessage { position: Some(ConfigPosition::of(text, at)), path, expected, found, hint }
        };
        let first = |mut findings: Vec<ConfigFinding>| {
            findings.sort_by_key(|finding| finding.at);
            findings.truncate(MAX_MESSAGES);
            findings.into_iter().map(message).collect::<Vec<_>>()
        };
        if self.mistakes.is_empty() {
            return Ok(ParsedConfig { config, warnings: first(self.warnings) });
        }
        self.more += self.mistakes.len().saturating_sub(MAX_MESSAGES);
        Err(ConfigError { file: None, messages: first(self.mistakes), more: self.more })
    }
}
