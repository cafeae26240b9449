//! Homes in Redis: the same Lua as scripts and as functions, by the clock of the tests.
//!
//! | file | what it is |
//! |---|---|
//! | `wire.rs` | calling a script or function of a real server |
//! | `home.rs` | the vectors through it |
//! | `value.rs` | what a key holds, read back into the kernel's cells |
//! | `trace.rs` | random traces: kernel, script, function and server must agree, in Redis in their states too |
//! | `calls.rs` | random calls of every dialect, right and wrong |
//! | `faults.rs` | the Lua broken on purpose: the traces must find it |
//! | `pool.rs` | the policies of the traces |

mod calls;
mod faults;
mod home;
mod pool;
mod trace;
mod value;
mod wire;

pub use calls::play_dialects;
pub use faults::{FAULTS, Fault, NO_FAULT, is_found};
pub use home::RedisHome;
pub(crate) use home::decision;
pub use trace::{Difference, Trace, TraceFigures, play};
pub use value::{RecordLookup, cells, same_state};
pub(crate) use wire::reply;
pub use wire::{Packaging, Target, Wire};
