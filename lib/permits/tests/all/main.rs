//! Permits in process.
//!
//! | file | what it shows |
//! |---|---|
//! | `memory.rs` | 100,000 requests in one process, many of which are cancelled or panic: never over the limit, no place lost |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod memory;
