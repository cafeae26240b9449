//! Decisions in HTTP from outside.
//!
//! | file | what it shows |
//! |---|---|
//! | `allocations.rs` | writing the fields of a decision allocates one value for each field that is new, and nothing else |
//! | `identity/` | the address of a client: a corpus of odd header values, rotating headers, networks that one caller owns |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod allocations;
mod identity;
