//! The policy file: named policies with their lists, overrides and bans.
//!
//! ```
//! use tollgate_config::{ConfigFormat, read};
//!
//! let read_ = read("policies:\n  login: 5/min, 20/h\n", ConfigFormat::Yaml).unwrap();
//! assert_eq!(read_.config.policies[0].policy.to_string(), "5/min, 20/h");
//! let error = read("policies:\n  login: 5/parsec\n", ConfigFormat::Yaml).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     r#"2:12: policies.login: expected a unit (us, ms, s, min, h, d, w), found "parsec"; for example "100/min""#,
//! );
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `model.rs` | the contents of a file, read and valid |
//! | `pattern.rs`, `key.rs` | a key, or a glob pattern of keys; keys of several parts |
//! | `file.rs`, `format.rs` | from a path to text: permissions, size, YAML or TOML |
//! | `tree/` | YAML and TOML as one small tree of nodes, each with its position |
//! | `reader/` | from nodes to the model, reporting every mistake |
//! | `message.rs` | a mistake: where, what was expected, what was found, a hint |
//! | `changes/` | the differences between two files, in words |
//! | `schema.rs` | the JSON Schema for editors |

mod changes;
mod file;
mod format;
mod key;
mod message;
mod model;
mod pattern;
mod reader;
mod schema;
mod tree;

pub use changes::changes;
pub use file::{MAX_FILE, read_file};
pub use format::ConfigFormat;
pub use key::join;
pub use message::{ConfigError, ConfigMessage, ConfigPosition, MAX_MESSAGES};
pub use model::{Ban, Config, KeyPart, Override, PolicyEntry, Webhook};
pub use pattern::Pattern;
pub use reader::{ParsedConfig, read, read_at};
pub use schema::schema;
