//! The embedded store from outside.
//!
//! | file | what it shows |
//! |---|---|
//! | `again.rs` | what is started again is what was stopped: a store that is read back takes no more memory than it did |
//! | `attack.rs` | what callers who choose keys, texts and names can do to a store, and what they cannot: no limit admits more than it promises, whatever else is asked and however little memory there is, and no more memory is taken than the cap says |
//! | `cap.rs` | what happens at the cap |
//! | `policies.rs` | several policies under one name, as bare texts are: each packs the keys that are used under it alone, and a key used under several has one state for each limit id, as the kernel has |
//! | `replay.rs` | a store that is told what another decided remembers the same and decides alike |
//! | `snapshot.rs` | a store that stops and goes on from its file |
//! | `snapshot_policies.rs` | stores whose names have several policies, stopped and going on from their files |
//! | `stream.rs` | a store in a stream, among other things, and with very many names |
//! | `warm.rs` | how long a million keys take to be saved and restored, as a measurement to be run by hand: `cargo test --release -p tollgate-memory --test all warm -- --ignored --nocapture` |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod again;
mod attack;
mod cap;
mod policies;
mod replay;
mod snapshot;
mod snapshot_policies;
mod stream;
#[path = "../support/mod.rs"]
mod support;
mod warm;
