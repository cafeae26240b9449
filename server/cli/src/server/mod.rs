//! Servers as an administrator sees them: one plain connection to each, without a store in between.
//!
//! | file | what it is |
//! |---|---|
//! | `target.rs` | the servers behind a URL, and the certificates to trust there |
//! | `args.rs` | the arguments that name them |
//! | `token.rs` | the token of a Tollgate server, and a test login with it |
//! | `connection.rs`, `tls.rs` | one connection: a command, its reply |
//! | `fleet.rs` | the nodes behind a URL: primaries, replicas, slots |
//! | `value.rs` | parsing of replies and INFO |
//! | `server_error.rs` | errors of connections and servers |

mod args;
mod connection;
mod fleet;
mod server_error;
mod target;
mod tls;
pub(crate) mod token;
pub(crate) mod value;

pub(crate) use args::{AuthorityArgs, StoreArgs};
pub(crate) use connection::{ServerConnection, write_command};
pub(crate) use fleet::{Fleet, FleetNode};
pub(crate) use server_error::ServerError;
pub(crate) use target::ServerTarget;
