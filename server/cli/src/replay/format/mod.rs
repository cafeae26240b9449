//! From a line of text to a request: its time, key and cost. One file a format; each reports exactly what is wrong with
//! a line it does not accept. Deciding is not here, nor is the virtual clock.
//!
//! | file | what it is |
//! |---|---|
//! | `clf.rs` | the common and combined log formats of web servers |
//! | `json/` | JSON Lines |
//! | `number.rs` | numbers exactly as written |
//! | `malformed_line.rs` | what is wrong with a line |

mod clf;
mod json;
mod malformed_line;
mod number;

pub(crate) use clf::ClfFormat;
pub(crate) use json::JsonFormat;
pub(crate) use malformed_line::MalformedLine;
pub(crate) use number::{LogNumber, TimeUnit};

use super::args::FormatArg;
use crate::error::CliError;
use crate::text::KEY_SEPARATOR;

/// The longest key, in bytes: the same as everywhere in Tollgate.
pub(crate) const MAX_KEY: usize = 512;

/// One request as written in a line. Its key is written elsewhere: see [`ReplayFormat::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayEntry {
    /// The time.
    pub(crate) stamp: EntryTime,
    /// The number of units.
    pub(crate) cost: u64,
}

/// A time as written in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryTime {
    /// Microseconds since 1970.
    Moment(u64),
    /// A number, whose unit is that of the log or of `--time-unit`.
    Number(LogNumber),
}

/// A format, and the fields of a line that make the key.
#[derive(Debug)]
pub(crate) enum ReplayFormat {
    /// JSON Lines.
    Json(JsonFormat),
    /// Access logs.
    Clf(ClfFormat),
}

impl ReplayFormat {
    /// Returns the requested format, or the one that `first`, the first line that is not blank, looks like.
    pub(crate) fn choose(arg: FormatArg, first: &[u8], key: Option<&str>, time: &str) -> Result<Self, CliError> {
        let json = match arg {
            FormatArg::Json => true,
            FormatArg::Clf => false,
            FormatArg::Auto => first.trim_ascii_start().starts_with(b"{"),
        };
        Ok(if json {
            Self::Json(JsonFormat::new(key.unwrap_or("key"), time)?)
        } else {
            Self::Clf(ClfFormat::new(key.unwrap_or("ip"))?)
        })
    }

    /// Parses a line and appends its key to `key`, whose new content is unspecified after an error.
    pub(crate) fn parse(&mut self, line: &[u8], key: &mut Vec<u8>) -> Result<ReplayEntry, MalformedLine> {
        match self {
            Self::Json(json) => json.parse(line, key),
            Self::Clf(clf) => clf.parse(line, key),
        }
    }

    /// Returns the name of `--format`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Json(_) => "json",
            Self::Clf(_) => "clf",
        }
    }

    /// Returns the fields that make the key, as `--key` names them.
    pub(crate) fn key_name(&self) -> String {
        match self {
            Self::Json(json) => json.key_name(),
            Self::Clf(clf) => clf.key_name(),
        }
    }

    /// Returns a hint for a file of which no line could be used, given its first such line.
    pub(crate) fn hint(&self, line: &[u8]) -> String {
        match self {
            Self::Json(json) => json.hint(line),
            Self::Clf(_) => "expected the common or combined log format, or JSON Lines with --format json".to_owned(),
        }
    }
}

/// Splits the names in `--key`.
fn key_names(text: &str, most: usize) -> Result<Vec<&str>, CliError> {
    let names: Vec<_> = text.split(',').map(str::trim).collect();
    if names.len() > most || names.iter().any(|name| name.is_empty()) {
        return Err(CliError::Key {
            name: text.to_owned(),
            expected: format!("name 1 to {most} fields, such as ip,path"),
        });
    }
    Ok(names)
}

/// Writes the parts of a key one after another and checks its length.
fn write_key<'a>(key: &mut Vec<u8>, parts: impl Iterator<Item = &'a [u8]>) -> Result<(), MalformedLine> {
    let start = key.len();
    for (place, part) in parts.enumerate() {
        if place > 0 {
            key.push(KEY_SEPARATOR);
        }
        key.extend_from_slice(part);
    }
    match key.len() - start {
        0 => Err(MalformedLine::EmptyKey),
        length if length > MAX_KEY => Err(MalformedLine::LongKey(length)),
        _ => Ok(()),
    }
}
