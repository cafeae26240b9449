//! The decision kernel of Tollgate: exact rate limiting.
//!
//! A [`Policy`] is parsed from text or built from [`Limit`]s. [`decide`] answers a [`Request`] with a [`Decision`],
//! given the time and the [`Cell`]s that a key has under the policy. This crate has no clock, no I/O and no
//! dependencies: homes supply the time and keep the cells.
//!
//! ```
//! use tollgate_kernel::{KeyState, Policy, Request, Timestamp};
//!
//! let policy: Policy = "100/min, 10/s gcra burst=20".parse().unwrap();
//! let mut key = KeyState::default();
//! let now = Timestamp::new(1_790_000_000_000_000).unwrap();
//! let decision = key.decide(&policy, now, &Request::ONE);
//! assert!(decision.allowed);
//! assert_eq!(decision.remaining, 19);
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `units.rs` | time, waits, `muldiv` |
//! | `options.rs`, `limit.rs`, `policy.rs` | what an operator writes, valid once built |
//! | `text/` | policy text, parsed and printed |
//! | `request.rs`, `decision.rs` | requests and their answers |
//! | `algorithms/` | the algorithms, one file of pure functions each, and their registry |
//! | `log.rs`, `ring.rs`, `window.rs` | the event log and its storage; a counted window |
//! | `spacing.rs` | a minimum time between charges |
//! | `combine.rs` | several limits, all charged or none; the exact wait |
//! | `state.rs` | a key's cells under changing policies |
//! | `windows.rs` | windows that count the same events, on one log |
//! | `words.rs`, `written.rs` | states as integers; limits, policies and keys as integers |
//! | `lua.rs` | the Lua twins of what the algorithms share, as text |
//! | `glob.rs` | matching names against a pattern |
//! | `together.rs` | several keys, all charged or none |
//! | `clock.rs`, `store.rs` | the interfaces through which time is read and state is kept |
//! | `explain.rs` | promises and decisions in words |

pub mod algorithms;
mod clock;
mod combine;
mod decision;
mod explain;
mod glob;
mod limit;
mod log;
pub mod lua;
mod options;
mod policy;
mod request;
mod ring;
mod spacing;
mod state;
mod store;
mod text;
mod together;
mod units;
mod window;
mod windows;
mod words;
mod written;

pub use clock::Clock;
pub use combine::{decide, decide_packed, decide_with, expires_after, refund};
pub use decision::{Decision, Detail, Source};
pub use explain::{Explanation, LimitExplanation, LimitStatus, explain, promises};
pub use glob::matches;
pub use limit::{Cell, Limit, LimitId, MAX_NAME, is_word};
pub use log::LogState;
pub use options::{AlgorithmOptions, Alignment, LimitError, LimitField, MAX_TIME, Options};
pub use policy::{MAX_LIMITS, OnError, Policy, PolicyError};
pub use request::{Cost, Mode, Request};
pub use ring::{Entry, NarrowEntry, Ring, WideEntry};
pub use state::{KeyState, MAX_OTHER_LIMITS};
pub use store::{KeyCheck, MAX_KEY, Reply, Store, StoreError};
pub use text::TextError;
pub use text::parse::unit;
pub use together::{JointDecision, JointRequest, decide_all};
pub use units::{EXACT, Micros, Timestamp, Wait, muldiv};
pub use window::Window;
pub use windows::{SharedWindows, merge_windows};
pub use words::{Reader, Writer};
