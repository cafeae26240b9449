//! The kernel from outside.
//!
//! | file | what it shows |
//! |---|---|
//! | `decisions.rs` | one example of each property of decisions |
//! | `places.rs` | the cells that a key keeps of limits that its latest policy does not have |
//! | `policy_text.rs` | policy text: what it means and how it is printed back |
//! | `twins.rs` | the Lua twins have the functions of their Rust |
//! | `written.rs` | policies and states as words: words that were written read back equal, and other words are refused without a panic and without taking much memory |
//! | `wrong_policies.rs` | wrong policy texts and the exact error for each |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod decisions;
mod places;
mod policy_text;
mod twins;
mod written;
mod wrong_policies;
