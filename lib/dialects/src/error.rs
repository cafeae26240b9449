//! The error of an invalid call: which argument is wrong, what was expected of it, and what was found.

use std::fmt;

use tollgate_kernel::{LimitError, PolicyError};

/// The longest part of an argument that an error repeats, in characters.
const MAX_FOUND: usize = 40;

/// An invalid call. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialectError {
    argument: String,
    expected: String,
    found: String,
}

impl DialectError {
    /// Creates an error for `argument`, whose bytes `found` are not what was expected.
    pub(crate) fn new(argument: impl Into<String>, expected: impl Into<String>, found: &[u8]) -> Self {
        let text = String::from_utf8_lossy(found);
        let mut short: String = text.chars().take(MAX_FOUND).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        // Quoted and escaped, so that no argument can break a line of a protocol or a log.
        Self { argument: argument.into(), expected: expected.into(), found: format!("{short:?}") }
    }

    /// Creates an error for a wrong number of items, of which there are `found`.
    pub(crate) fn number(argument: &str, expected: impl Into<String>, found: usize) -> Self {
        Self { argument: argument.to_owned(), expected: expected.into(), found: found.to_string() }
    }

    /// Creates an error for an argument from which the kernel cannot build a limit.
    pub(crate) fn limit(argument: impl Into<String>, problem: LimitError, found: &[u8]) -> Self {
        Self::new(argument, problem.expected, found)
    }

    /// Creates an error for limits that do not form a policy.
    pub(crate) fn policy(argument: &str, error: PolicyError) -> Self {
        match error {
            PolicyError::Limits(found) => Self::number(argument, "1 to 32 of them", found),
            other => Self::new(argument, other.to_string(), b""),
        }
    }

    /// Returns the name of the argument that is wrong.
    pub fn argument(&self) -> &str {
        &self.argument
    }
}

impl fmt::Display for DialectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.argument, self.expected, self.found)
    }
}

impl std::error::Error for DialectError {}
