//! Servers as an administrator sees them: one plain connection to each, without a store in between.
//!
//! | file | what it is |
//! |---|---|
//! | `target.rs` | the addresses of the servers, parsed from a URL |
//! | `args.rs` | the arguments that name them |
//! | `token.rs` | the token of a Tollgate server, and a test login with it |
//! | `wire.rs`, `tls.rs` | one connection: a command, its reply |
//! | `fleet.rs` | the nodes behind a URL: primaries, replicas, slots |
//! | `value.rs` | parsing of replies and INFO |
//! | `trouble.rs` | errors of connections and servers |

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
