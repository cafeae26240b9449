//! What is kept over a restart, over real sockets and in real directories.
//!
//! | file | what it shows |
//! |---|---|
//! | `support.rs` | servers on a directory and by a clock of the test, and a client |
//! | `gate.rs` | a disk on which snapshots are written as slowly as a test wants |
//! | `traffic.rs` | random commands: every algorithm, every dialect, plain keys |
//! | `twins.rs` | a server that restarts and one that never does answer alike, whatever is asked |
//! | `crash.rs` | what was answered is there after a kill, whenever it comes; loss of power |
//! | `restart.rs` | time spent down, clocks set back, policies that changed, modes, caps, locks, repair |
//! | `failing.rs` | full disks and failing ones |
//! | `full.rs` | a memory that is full, with what keys share |

mod crash;
mod failing;
mod full;
mod gate;
mod restart;
mod support;
mod traffic;
mod twins;
