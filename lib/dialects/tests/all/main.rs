//! The dialects from outside.
//!
//! | file | what it shows |
//! |---|---|
//! | `hostile.rs` | no bytes make a dialect panic, and a call that was parsed can be run |
//! | `models.rs` | dialects against slow models written from the definitions, where the vectors are too few: on grids that are not whole microseconds, and over several limits at once |
//! | `written.rs` | each dialect's policies and the states of its keys as words, one example each; `hostile.rs` tries random ones |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod hostile;
mod models;
mod written;
