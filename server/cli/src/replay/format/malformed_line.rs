//! What is wrong with a line.

use std::fmt;

use super::MAX_KEY;

/// Why a line is not a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum MalformedLine {
    /// It does not fit into the read buffer.
    TooLong,
    /// It is not UTF-8, as JSON must be.
    NotUtf8,
    /// It is not JSON, or not an object.
    Json {
        /// Counted in bytes from 1.
        column: usize,
        /// The parser's message.
        problem: String,
    },
    /// A required field is missing.
    Missing(Box<str>),
    /// A field occurs twice.
    Twice(Box<str>),
    /// A field holds a value that is not valid.
    Value {
        /// The field.
        field: Box<str>,
        /// What was expected.
        expected: &'static str,
    },
    /// The time is after the year 2255.
    Late,
    /// The key is empty.
    EmptyKey,
    /// The key is too long; its length in bytes.
    LongKey(usize),
    /// It is not an access log line; what was expected.
    Clf(&'static str),
}

impl fmt::Display for MalformedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "longer than {} bytes", crate::replay::MAX_LINE),
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::Json { column, problem } => write!(f, "not a JSON object: {problem} at column {column}"),
            Self::Missing(field) => write!(f, "no field {field:?}"),
            Self::Twice(field) => write!(f, "field {field:?} twice"),
            Self::Value { field, expected } => write!(f, "field {field:?}: expected {expected}"),
            Self::Late => f.write_str("the time is after the year 2255; is the time unit right?"),
            Self::EmptyKey => f.write_str("the key is empty"),
            Self::LongKey(length) => write!(f, "a key of {length} bytes, at most {MAX_KEY} are allowed"),
            Self::Clf(expected) => write!(f, "not an access log line: expected {expected}"),
        }
    }
}
