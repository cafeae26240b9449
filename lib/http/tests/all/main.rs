//! Decisions in HTTP from outside.
//!
//! | file | what it shows |
//! |---|---|
//! | `allocations.rs` | what telling a decision takes from the allocator: a value that is new, and nothing else |
//! | `identity/` | who a client is: a corpus of odd header values, headers that rotate, networks that one caller owns (R29) |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod allocations;
mod identity;
