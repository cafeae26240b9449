//! The kernel from outside.
//!
//! | file | what it shows |
//! |---|---|
//! | `decisions.rs` | what the design says of decisions, one example each |
//! | `places.rs` | what a key remembers of limits that its latest policy does not have |
//! | `policy_text.rs` | policy text: what it means and how it is printed back |
//! | `written.rs` | policies and states as words: whatever was written reads back equal, and whatever was not is refused without a panic and without taking much memory |
//! | `wrong_policies.rs` | wrong policy texts and what is said of them, to the letter |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod decisions;
mod places;
mod policy_text;
mod written;
mod wrong_policies;
