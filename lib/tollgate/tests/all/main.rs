//! The facade from outside.
//!
//! | file | what it shows |
//! |---|---|
//! | `allocations.rs` | checking a known key allocates nothing |
//! | `errors.rs` | bad input: an error that says what was expected, and nothing is changed |
//! | `store_trait.rs` | the trait `Store`: the same interface whether a home answers at once or later |
//! | `stale_time.rs` | a thread that is suspended between reading the clock and its slot |
//! | `wall_clock.rs` | the machine's clock set back and forward an hour during load |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod allocations;
mod errors;
mod stale_time;
mod store_trait;
mod wall_clock;
