//! Mistakes and warnings as they are found.

use std::fmt::Write;

use tollgate_kernel::{Timestamp, is_word};

use super::Read;
use crate::message::{ConfigError, MAX_MESSAGES, Message, Place};
use crate::model::Config;
use crate::tree::{Broken, Node, quoted};

/// The most mistakes of a file that are collected before they are sorted by position.
const KEPT: usize = 1_000;

/// The findings in a file so far, and the reader's current path.
pub(super) struct Notes<'a> {
    pub(super) text: &'a str,
    pub(super) now: Timestamp,
    mistakes: Vec<Finding>,
    /// The number of mistakes that were not collected.
    more: usize,
    warnings: Vec<Finding>,
    path: String,
}

struct Finding {
    at: usize,
    path: String,
    expected: String,
    found: String,
    hint: String,
    /// The position of an earlier duplicate, whose line is reported as the hint.
    first: Option<usize>,
}

impl<'a> Notes<'a> {
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
    pub(super) fn again(&mut self, at: usize, expected: &str, found: impl Into<String>, first: usize) {
        if self.has_room() {
            let finding = self.finding(at, expected.to_owned(), found.into(), String::new());
            self.mistakes.push(Finding { first: Some(first), ..finding });
        }
    }

    /// Returns whether another mistake can be collected; counts it if not.
    pub(super) fn has_room(&mut self) -> bool {
        let room = self.mistakes.len() < KEPT;
        self.more += usize::from(!room);
        room
    }

    /// Reports a value of the wrong type.
    pub(super) fn wrong_value(&mut self, node: &Node<'_>, expected: impl Into<String>, hint: impl Into<String>) {
        self.wrong(node.at, expected, node.in_words(), hint);
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
    pub(super) fn broken(&mut self, broken: Broken) {
        let Broken { at, expected, found, hint } = broken;
        self.wrong(at, expected, found, hint);
    }

    fn finding(&self, at: usize, expected: String, found: String, hint: String) -> Finding {
        Finding { at, path: self.path.clone(), expected, found, hint, first: None }
    }

    /// Returns the config if there was no mistake, otherwise the mistakes in the order of the file.
    pub(super) fn end(mut self, config: Config) -> Result<Read, ConfigError> {
        let text = self.text;
        let message = |finding: Finding| {
            let Finding { at, path, expected, found, mut hint, first } = finding;
            // Done only here, because counting lines takes time proportional to the file.
            if let Some(first) = first {
                hint = format!("it is in line {} too", Place::of(text, first).line);
            }
            Message { place: Some(Place::of(text, at)), path, expected, found, hint }
        };
        let first = |mut findings: Vec<Finding>| {
            findings.sort_by_key(|finding| finding.at);
            findings.truncate(MAX_MESSAGES);
            findings.into_iter().map(message).collect::<Vec<_>>()
        };
        if self.mistakes.is_empty() {
            return Ok(Read { config, warnings: first(self.warnings) });
        }
        self.more += self.mistakes.len().saturating_sub(MAX_MESSAGES);
        Err(ConfigError { file: None, messages: first(self.mistakes), more: self.more })
    }
}
