//! Mistakes and warnings, each with its line and a caret.

use serde::Serialize;
use tollgate_config::{ConfigError, Message};

/// Formats every mistake of a file.
pub(crate) fn print(error: &ConfigError) -> String {
    let file = error.file.as_deref().unwrap_or_default();
    let mut text: String = error.messages.iter().map(|message| one("error", file, message)).collect();
    let count = error.messages.len() + error.more;
    if error.more > 0 {
        text += &format!("and {} more: {file} has {count} mistakes\n", error.more);
    } else if count > 1 {
        text += &format!("{file} has {count} mistakes\n");
    }
    text
}

/// Formats one message.
pub(crate) fn one(kind: &str, file: &str, message: &Message) -> String {
    let mut text = format!("{kind}: {file}");
    if let Some(place) = &message.place {
        text += &format!(":{}:{}", place.line, place.column);
    }
    let told = Message { hint: String::new(), ..message.clone() };
    text += &format!(": {told}\n");
    if let Some(place) = message.place.as_ref().filter(|place| !place.excerpt.is_empty()) {
        let number = place.line.to_string();
        let margin = " ".repeat(number.len());
        text += &format!("  {number} | {}\n", place.excerpt);
        text += &format!("  {margin} | {}^\n", " ".repeat(place.caret.saturating_sub(1)));
    }
    if !message.hint.is_empty() {
        text += &format!("hint: {}\n", message.hint);
    }
    text
}

/// A message for programs.
#[derive(Serialize)]
pub(crate) struct MessagePart {
    line: Option<usize>,
    column: Option<usize>,
    path: String,
    expected: String,
    found: String,
    hint: String,
    message: String,
}

impl From<&Message> for MessagePart {
    fn from(message: &Message) -> Self {
        Self {
            line: message.place.as_ref().map(|place| place.line),
            column: message.place.as_ref().map(|place| place.column),
            path: message.path.clone(),
            expected: message.expected.clone(),
            found: message.found.clone(),
            hint: message.hint.clone(),
            message: message.to_string(),
        }
    }
}
