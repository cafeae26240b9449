//! The front-end for Redis clients beside a redis-server: the same bytes to both.
//!
//! | file | what it is |
//! |---|---|
//! | `commands.rs` | what stock clients say when they connect |
//! | `frames.rs` | frames at the edge of the protocol, and mistakes in it |
//! | `cluster.rs` | the server in cluster mode |
//! | `wire.rs` | raw connections |

mod cluster;
mod commands;
mod frames;
mod wire;
