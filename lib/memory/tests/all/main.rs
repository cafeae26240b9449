//! The embedded store from outside.
//!
//! | file | what it shows |
//! |---|---|
//! | `attack.rs` | callers that choose keys, texts and names: no limit admits more than it promises, whatever the other requests are and however little memory there is, and no more memory is used than the cap allows |
//! | `cap.rs` | what happens at the cap |
//! | `policies.rs` | several policies under one name, as with bare texts: each packs the keys that are used under it alone, and a key used under several has one state for each limit id, as in the kernel |
//! | `replay.rs` | a store that replays the decisions of another has the same state and decides the same |
//! | `replay_memory.rs` | a store that is restored or replayed takes no more memory than the original |
//! | `snapshot.rs` | a store that is saved to a file and restored |
//! | `snapshot_policies.rs` | the same for stores whose names have several policies |
//! | `stream.rs` | a store in a stream with other data, and with very many names |
//! | `warm.rs` | how long a million keys take to be saved and restored, as a measurement to be run by hand: `cargo test --release -p tollgate-memory --test all warm -- --ignored --nocapture` |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attack;
mod cap;
mod policies;
mod replay;
mod replay_memory;
mod snapshot;
mod snapshot_policies;
mod stream;
mod warm;
