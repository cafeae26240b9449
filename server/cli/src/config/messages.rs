//! Mistakes and warnings, each with its line and a caret.

use serde::Serialize;
use tollgate_config::{ConfigError, ConfigMessage};

/// Formats every mistake of a file.
pub(crate) fn print(error: &ConfigError) -> String {
    let file = error.file.as_deref().unwrap_or_default();
    let mut text: String = error.messages.iter().map(|message| print_one("error", file, message)).collect();
    let count = error.messages.len() + error.more;
    if error.more > 0 {
        text += &format!("and {} more: {file} has {count} mistakes\n", error.more);
    } else if count > 1 {
        text += &format!("{file} has {count} mistakes\n");
    }
    text
}

/// Formats one message.
pub(crate) fn print_one(kind: &str, file: &str, message: &ConfigMessage) -> String {
    let mut text = format!("{kind}: {file}");
    if let Some(position) = &message.position {
        text += &format!(":{}:{}", position.line, position.column);
    }
    let without_hint = ConfigMessage { hint: String::new(), ..message.clone() };
    text += &format!(": {without_hint}\n");
    if let Some(position) = message.position.as_ref().filter(|position| !position.excerpt.is_empty()) {
        let number = position.line.to_string();
        let margin = " ".repeat(number.len());
        text += &format!("  {number} | {}\n", position.excerpt);
        text += &format!("  {margin} | {}^\n", " ".repeat(position.caret.saturating_sub(1)));
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

impl From<&ConfigMessage> for MessagePart {
    fn from(message: &ConfigMessage) -> Self {
        Self {
            line: message.position.as_ref().map(|position| position.line),
            column: message.position.as_ref().map(|position| position.column),
            path: message.path.clone(),
            expected: message.expected.clone(),
            found: message.found.clone(),
            hint: message.hint.clone(),
            message: message.to_string(),
        }
    }
}
