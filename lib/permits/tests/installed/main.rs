//! Permits in Redis: these tests need redis-server.
//!
//! | file | what it shows |
//! |---|---|
//! | `redis.rs` | permits in a real Redis: what is stored, and what happens when something fails |
//! | `storm.rs` | many requests of several processes on one real Redis |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod redis;
mod storm;
