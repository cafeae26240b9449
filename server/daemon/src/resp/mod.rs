//! The front-end for Redis clients: commands in, replies out, over RESP2 or RESP3.
//!
//! | file | what it is |
//! |---|---|
//! | `decode.rs` | bytes as commands, within bounds |
//! | `writer.rs` | replies as bytes |
//! | `session.rs` | the state of a connection |
//! | `clients.rs` | all connections, as CLIENT LIST shows them |
//! | `connection.rs` | one connection: read, answer, write |
//! | `exec_store.rs` | EXEC where the keys are in a store |
//! | `batch.rs` | consecutive checks, decided by one call |
//! | `commands/` | the commands, one line each in the table |

mod batch;
pub(crate) mod clients;
pub(crate) mod commands;
mod connection;
pub(crate) mod decode;
mod exec_store;
#[cfg(test)]
mod fuzz;
pub(crate) mod session;
#[cfg(test)]
mod timeouts;
pub(crate) mod writer;

pub(crate) use connection::serve;
