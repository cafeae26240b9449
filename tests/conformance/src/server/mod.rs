//! The home `server`: the Tollgate server over its own protocols, by the clock of the tests.
//!
//! | file | what it is |
//! |---|---|
//! | `wire.rs` | a server in this process, asked over sockets |
//! | `resp.rs`, `http.rs` | one question over each protocol |
//! | `home.rs` | the vectors through it |

mod home;
mod http;
mod resp;
mod wire;

pub use home::ServerHome;
pub use wire::{FrontEnd, ServerConnections};
