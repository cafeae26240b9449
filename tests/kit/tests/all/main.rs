//! The servers that other tests start.
//!
//! | file | what it shows |
//! |---|---|
//! | `cluster.rs` | a cluster forms, survives the death of a primary, and moves slots without losing a key |
//! | `proxy.rs` | the proxy does the harm it was asked for, to the byte, and no other |
//! | `server.rs` | one server: it is the one that was started, and it is gone when it should be |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cluster;
mod proxy;
mod server;
