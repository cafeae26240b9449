//! The homes `server` and `server-store`: the Tollgate server over its own protocols, by the clock of the tests.
//!
//! | file | what it is |
//! |---|---|
//! | `wire.rs` | a server in this process, asked over sockets |
//! | `resp.rs`, `http.rs` | one question over each protocol |
//! | `stored.rs` | the same with `--store`, on a redis-server |
//! | `home.rs` | the vectors through both |

mod home;
mod http;
mod resp;
mod stored;
mod wire;

pub use home::ServerHome;
pub use stored::StoredServer;
pub use wire::{FrontEnd, ServerConnections};
