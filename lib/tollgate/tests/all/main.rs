//! The facade from outside.
//!
//! | file | what it shows |
//! |---|---|
//! | `allocations.rs` | checking a known key allocates nothing |
//! | `errors.rs` | bad input: an error that says what was expected, and nothing is changed |
//! | `seam.rs` | the seam for homes: one trait, whether the answer is known or on its way |
//! | `stale_time.rs` | a thread that is suspended between reading the clock and its slot |
//! | `wall_clock.rs` | the machine's clock set back and forward an hour during load |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod allocations;
mod errors;
mod seam;
mod stale_time;
mod wall_clock;
