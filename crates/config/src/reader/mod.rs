//! From nodes to the model. What the formats have in common is read here once, so that messages are the same.
//!
//! | file | what it is |
//! |---|---|
//! | `notes.rs` | mistakes and warnings as they are found, with path and place |
//! | `fields.rs` | the fields there are; a map's fields by name; the nearest name |
//! | `values.rs` | texts, words, numbers, moments, policy texts |
//! | `whole.rs` | a file: policies, lists for all of them, the webhook |
//! | `policy.rs` | a policy and all that belongs to it |
//! | `lists.rs`, `overrides.rs` | keys and patterns; other limits for some keys |
//! | `parts.rs`, `ban.rs` | what keys are made of; `10min after 20/min refusals` |

mod ban;
mod fields;
mod lists;
mod notes;
mod overrides;
mod parts;
mod policy;
mod values;
mod whole;

#[cfg(test)]
pub(crate) use fields::{FILE, OVERRIDE, POLICY};

use tollgate_core::Timestamp;

use crate::file::LONGEST_FILE;
use crate::format::Format;
use crate::message::{ConfigError, Message};
use crate::model::Config;
use crate::tree;
use notes::Notes;

/// A file that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What it says.
    pub config: Config,
    /// What to look at, though it is no mistake; at most [`crate::MOST_MESSAGES`].
    pub warnings: Vec<Message>,
}

/// The longest policy name: the server adds to it, and names have 64 characters.
pub(crate) const LONGEST_NAME: usize = 48;
/// The most policies of a file.
pub(crate) const MOST_POLICIES: usize = 10_000;
/// The most entries of a list.
pub(crate) const MOST_ENTRIES: usize = 10_000;
/// The most glob patterns of a policy, over its lists and overrides and the lists of the whole file.
pub(crate) const MOST_GLOBS: usize = 1_000;
/// The most bytes of all of them: each decision of a policy tries them one by one.
pub(crate) const MAX_GLOB_BYTES: usize = 16 << 10;
/// The most entries over all policies; those of the whole file count for each.
pub(crate) const MOST_IN_ALL: usize = 1_000_000;
/// The longest note, in characters.
pub(crate) const LONGEST_NOTE: usize = 200;
/// The most parts of a key.
pub(crate) const MOST_PARTS: usize = 8;

/// Reads a policy file's text.
pub fn read(text: &str, format: Format) -> Result<Read, ConfigError> {
    let us = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default();
    read_at(text, format, Timestamp::saturating(us))
}

/// The same at this moment, which tells what has ended.
pub fn read_at(text: &str, format: Format, now: Timestamp) -> Result<Read, ConfigError> {
    if text.len() > LONGEST_FILE {
        let found = format!("{} bytes", text.len());
        return Err(ConfigError::whole(format!("a file of at most {LONGEST_FILE} bytes"), found, ""));
    }
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut notes = Notes::new(text, now);
    let config = match tree::grow(text, format) {
        Ok(root) => notes.whole(&root),
        Err(all) => {
            all.into_iter().for_each(|broken| notes.broken(broken));
            Config::default()
        }
    };
    notes.end(config)
}
