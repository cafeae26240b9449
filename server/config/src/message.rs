//! A mistake in a policy file: where, what was expected, what was found, a hint.

use std::fmt;

/// The most mistakes of a file that are reported.
pub const MAX_MESSAGES: usize = 20;
/// The most characters of a long line that are shown around a position.
const SHOWN: usize = 100;

/// A mistake or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMessage {
    /// The position in the text; `None` if the file itself is at fault.
    pub position: Option<ConfigPosition>,
    /// The field, such as `policies.login.overrides[1].until`, where the first entry of a list is 0; empty for the
    /// whole file.
    pub path: String,
    /// What was expected there.
    pub expected: String,
    /// What was found there.
    pub found: String,
    /// A suggestion.
    pub hint: String,
}

/// Formats `path: expected …, found …; hint`, without file, line and column.
impl fmt::Display for ConfigMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "expected {}, found {}", self.expected, self.found)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

/// A position in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPosition {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The line, or the part of a long one around the position. Empty if it may contain a secret.
    pub excerpt: String,
    /// The column within the excerpt, in characters, counted from 1.
    pub caret: usize,
}

impl ConfigPosition {
    /// Returns the position of a byte of `text`.
    pub(crate) fn of(text: &str, at: usize) -> Self {
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = text[start..at].chars().count() + 1;
        let line_text = text[start..].split('\n').next().unwrap_or_default().trim_end_matches('\r');
        // A URL may contain a password, and messages are logged.
        if line_text.contains("://") {
            return Self { line, column, excerpt: String::new(), caret: 0 };
        }
        let skipped = if column > SHOWN * 3 / 4 { column - SHOWN / 2 } else { 0 };
        let mut excerpt: String = line_text
            .chars()
            .skip(skipped)
            .take(SHOWN)
            .map(|char| if char.is_control() { ' ' } else { char })
            .collect();
        let mut caret = column - skipped;
        if skipped > 0 {
            excerpt.insert(0, '…');
            caret += 1;
        }
        if line_text.chars().nth(skipped + SHOWN).is_some() {
            excerpt.push('…');
        }
        Self { line, column, excerpt, caret }
    }
}

/// The reason why a policy file is not accepted: every mistake, up to [`MAX_MESSAGES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, if the text came from one.
    pub file: Option<String>,
    /// The mistakes in the order of the file, at least one.
    pub messages: Vec<ConfigMessage>,
    /// The number of further mistakes.
    pub more: usize,
}

impl ConfigError {
    /// Returns the error for a fault of the file itself.
    pub(crate) fn of_file(expected: impl Into<String>, found: impl Into<String>, hint: impl Into<String>) -> Self {
        let (expected, found, hint) = (expected.into(), found.into(), hint.into());
        let message = ConfigMessage { position: None, path: String::new(), expected, found, hint };
        Self { file: None, messages: vec![message], more: 0 }
    }
}

/// Formats one line for each mistake: `tollgate.yaml:4:12: policies.login.limit: expected …, found …; hint`.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, message) in self.messages.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            if let Some(file) = &self.file {
                write!(f, "{file}:")?;
            }
            if let Some(position) = &message.position {
                write!(f, "{}:{}:", position.line, position.column)?;
            }
            if self.file.is_some() || message.position.is_some() {
                f.write_str(" ")?;
            }
            message.fmt(f)?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_and_characters() {
        let text = "one\r\ntwö three\n\nlast";
        let place = |at| {
            let place = ConfigPosition::of(text, at);
            (place.line, place.column, place.excerpt)
        };
        assert_eq!(place(0), (1, 1, "one".to_owned()));
        assert_eq!(place(text.find("three").unwrap()), (2, 5, "twö three".to_owned()));
        assert_eq!(place(16), (3, 1, String::new()));
        assert_eq!(place(1_000), (4, 5, "last".to_owned()));
        let secret = ConfigPosition::of("webhook: http://user:word@host", 10);
        assert_eq!((secret.column, secret.excerpt.as_str()), (11, ""));
    }

    #[test]
    fn a_long_line_is_shown_around_its_place() {
        let text = format!("{}here{}", "x".repeat(5_000), "y".repeat(5_000));
        let place = ConfigPosition::of(&text, 5_000);
        assert_eq!(place.column, 5_001);
        assert!(place.excerpt.chars().count() <= SHOWN + 2);
        let shown: String = place.excerpt.chars().skip(place.caret - 1).take(4).collect();
        assert_eq!(shown, "here");
    }
}
