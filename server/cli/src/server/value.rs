//! Parsing of replies: maps as RESP2 writes them, and the lines of INFO.

use redis::Value;

/// Returns the value of a line `name:value` of INFO.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Returns the items of an array.
pub(crate) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

/// Returns the text of a string.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Okay => Some("OK".to_owned()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the value behind `name` in an array of names and values.
pub(crate) fn entry<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let pairs = items(value).chunks_exact(2);
    pairs.into_iter().find(|pair| text(&pair[0]).as_deref() == Some(name)).map(|pair| &pair[1])
}
