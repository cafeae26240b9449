//! What is kept over a restart.
//!
//! | file | what it is |
//! |---|---|
//! | `settings.rs` | what is kept, how and where |
//! | `embedded.rs`, `filed.rs` | the embedded home, and its policies as the journal knows them |
//! | `binding.rs`, `hand.rs` | the journal as home and keys use it; framing while its order lock is held |
//! | `frame.rs`, `touched.rs` | what frames say; which keys they told whole since a snapshot was begun |
//! | `sections.rs` | a snapshot as bytes |
//! | `open.rs`, `replay.rs` | a start: the snapshot read, the journal done again |
//! | `upkeep.rs` | the thread that writes snapshots and gets out of failures |
//! | `note.rs` | facts beside keys and charges |
//! | `standin.rs` | what is answered while nothing can be kept |
//! | `wire.rs` | numbers and texts as bytes |

mod binding;
mod embedded;
mod filed;
mod frame;
mod hand;
mod note;
mod open;
mod replay;
mod sections;
mod settings;
mod standin;
mod touched;
mod upkeep;
mod wire;

pub(crate) use binding::{Binding, Unkept};
pub(crate) use embedded::Embedded;
pub(crate) use filed::Filed;
pub(crate) use note::Note;
pub(crate) use open::{Caps, Opened, Recovered, open};
pub use settings::{Fsync, Keeping, OnFullDisk, Persist};
pub(crate) use upkeep::Upkeep;
pub(crate) use wire::{Put, Take};
