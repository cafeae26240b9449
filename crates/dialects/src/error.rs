//! Why a call is no call: which argument, what was expected of it, and what stands there.

use std::fmt;

use tollgate_core::{PolicyError, Problem};

/// The longest piece of an argument an error repeats, in characters.
const LONGEST_FOUND: usize = 40;

/// A call that cannot be made. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialectError {
    argument: String,
    expected: String,
    found: String,
}

impl DialectError {
    /// The argument `argument` is not what was expected: its bytes are `found`.
    pub(crate) fn new(argument: impl Into<String>, expected: impl Into<String>, found: &[u8]) -> Self {
        let text = String::from_utf8_lossy(found);
        let mut short: String = text.chars().take(LONGEST_FOUND).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        // Quoted and escaped, so that no argument can break a line of a protocol or a log.
        Self { argument: argument.into(), expected: expected.into(), found: format!("{short:?}") }
    }

    /// There are `found` of them, which is the wrong number.
    pub(crate) fn number(argument: &str, expected: impl Into<String>, found: usize) -> Self {
        Self { argument: argument.to_owned(), expected: expected.into(), found: found.to_string() }
    }

    /// The kernel cannot build a limit of it.
    pub(crate) fn limit(argument: impl Into<String>, problem: Problem, found: &[u8]) -> Self {
        Self::new(argument, problem.expected, found)
    }

    /// The limits do not make a policy.
    pub(crate) fn policy(argument: &str, error: PolicyError) -> Self {
        match error {
            PolicyError::Limits(found) => Self::number(argument, "1 to 32 of them", found),
            other => Self::new(argument, other.to_string(), b""),
        }
    }

    /// The name of the argument that is wrong.
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
