//! Every campaign in short.
//!
//! | file | what it shows |
//! |---|---|
//! | `attack.rs` | every known way of an attacker once |
//! | `clock.rs` | every story of a clock that jumps |
//! | `cluster.rs` | a short life of a cluster |
//! | `connections.rs` | every attack in small, on a server that takes few connections |
//! | `crowd.rs` | a short crowd, also while scripts and functions are flushed |
//! | `cuts.rs` | a few hundred cuts |
//! | `damage.rs` | a few hundred folders harmed |
//! | `down.rs` | every trouble, a second each |
//! | `kills.rs` | a few kills, losses of power and disks that fail |
//! | `reloads.rs` | a few changes of a policy file under load |
//! | `usage.rs` | what the program says when it is not understood |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attack;
mod clock;
mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod crowd;
mod cuts;
mod damage;
mod down;
mod kills;
mod reloads;
mod usage;
