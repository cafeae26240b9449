//! Policy text: one grammar for code, the command line, files and wire protocols.
//!
//! `policy = limit *("," limit)`, `limit = count "/" period *(SP option)`. Text is parsed once into values that cannot
//! be invalid, and printed back in canonical form. A value out of range is refused, never clamped.
//!
//! | file | what it is |
//! |---|---|
//! | `parse.rs` | from text to limits; errors point at the first part that is wrong |
//! | `print.rs` | the canonical text of a limit |

pub(crate) mod parse;
pub(crate) mod print;

use std::fmt;

/// An error in policy text: where it is, what was expected there, and a valid example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What was expected there.
    pub expected: String,
    /// What was found there; empty at the end of the text.
    pub found: String,
    /// A valid text.
    pub example: &'static str,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: expected {}, found ", self.column, self.expected)?;
        if self.found.is_empty() {
            f.write_str("the end")?;
        } else {
            write!(f, "{:?}", self.found)?;
        }
        write!(f, "; for example {:?}", self.example)
    }
}

impl std::error::Error for TextError {}
