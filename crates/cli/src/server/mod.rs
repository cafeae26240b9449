//! Servers as an administrator sees them: one plain connection to each, no store between.
//!
//! | file | what it is |
//! |---|---|
//! | `target.rs` | where the servers are, read from a URL |
//! | `args.rs` | how a command is told that |
//! | `token.rs` | the token of a Tollgate server, and knocking with it |
//! | `wire.rs`, `tls.rs` | one connection: a command, its reply |
//! | `fleet.rs` | the nodes behind a URL: primaries, replicas, slots |
//! | `value.rs` | replies and INFO, taken apart |
//! | `trouble.rs` | what goes wrong on the way |

mod args;
mod fleet;
mod target;
mod tls;
pub(crate) mod token;
mod trouble;
pub(crate) mod value;
mod wire;

pub(crate) use args::{Authority, StoreArgs};
pub(crate) use fleet::{Fleet, Node, slot};
pub(crate) use target::Target;
pub(crate) use trouble::Trouble;
pub(crate) use wire::{Wire, write_command};
