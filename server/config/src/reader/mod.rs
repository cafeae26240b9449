//! From nodes to the model. Both formats are read by the same code, so that their messages are the same.
//!
//! | file | what it is |
//! |---|---|
//! | `findings.rs` | mistakes and warnings as they are found, with path and position |
//! | `fields.rs` | the known fields; a map's fields by name; the most similar name |
//! | `values.rs` | texts, words, numbers, moments, policy texts |
//! | `config.rs` | a file: policies, lists for all of them, the webhook |
//! | `policy.rs` | a policy and everything that belongs to it |
//! | `lists.rs`, `overrides.rs` | keys and patterns; other limits for some keys |
//! | `parts.rs`, `ban.rs` | the parts of keys; `10min after 20/min refusals` |

mod ban;
mod config;
mod fields;
mod findings;
mod lists;
mod overrides;
mod parts;
mod policy;
mod values;

#[cfg(test)]
pub(crate) use fields::{FILE, OVERRIDE, POLICY};

use tollgate_kernel::Timestamp;

use crate::file::MAX_FILE;
use crate::format::ConfigFormat;
use crate::message::{ConfigError, ConfigMessage};
use crate::model::Config;
use crate::tree;
use findings::ConfigReader;

/// The result of reading a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedConfig {
    /// The contents of the file.
    pub config: Config,
    /// Warnings, which are not mistakes; at most [`crate::MAX_MESSAGES`].
    pub warnings: Vec<ConfigMessage>,
}

/// The longest policy name: the server appends to it, and names have at most 64 characters.
pub(crate) const MAX_NAME: usize = 48;
/// The most policies of a file.
pub(crate) const MAX_POLICIES: usize = 10_000;
/// The most entries of a list.
pub(crate) const MAX_ENTRIES: usize = 10_000;
/// The most glob patterns of a policy, counting its lists, its overrides and the lists of the whole file.
pub(crate) const MAX_GLOBS: usize = 1_000;
/// The most bytes of all these patterns: each decision of a policy tries them one by one.
pub(crate) const MAX_GLOB_BYTES: usize = 16 << 10;
/// The most entries of all policies; those of the whole file count once for each policy.
pub(crate) const MAX_IN_ALL: usize = 1_000_000;
/// The longest note, in characters.
pub(crate) const MAX_NOTE: usize = 200;
/// The most parts of a key.
pub(crate) const MAX_PARTS: usize = 8;

/// Reads the text of a policy file.
pub fn read(text: &str, format: ConfigFormat) -> Result<ParsedConfig, ConfigError> {
    let us = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default();
    read_at(text, format, Timestamp::saturating(us))
}

/// Reads the text of a policy file at a given time, which determines the overrides that have ended.
pub fn read_at(text: &str, format: ConfigFormat, now: Timestamp) -> Result<ParsedConfig, ConfigError> {
    if text.len() > MAX_FILE {
        let found = format!("{} bytes", text.len());
        return Err(ConfigError::of_file(format!("a file of at most {MAX_FILE} bytes"), found, ""));
    }
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = ConfigReader::new(text, now);
    let config = match tree::parse(text, format) {
        Ok(root) => reader.config(&root),
        Err(all) => {
            all.into_iter().for_each(|error| reader.syntax_error(error));
            Config::default()
        }
    };
    reader.finish(config)
}
