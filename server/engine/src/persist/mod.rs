//! Persistence across restarts.
//!
//! | file | what it is |
//! |---|---|
//! | `settings.rs` | what is persisted, how and where |
//! | `embedded.rs`, `filed.rs` | the embedded home, and its policies as the journal knows them |
//! | `binding.rs`, `hand.rs` | the journal as home and keys use it; framing while its order lock is held |
//! | `frame.rs`, `touched.rs` | the contents of frames; which keys were written whole since a snapshot began |
//! | `sections.rs`, `snapshot.rs` | a snapshot as bytes; written while others decide |
//! | `open.rs`, `replay.rs` | a start: the snapshot is read, the journal is replayed |
//! | `note.rs` | facts besides keys and charges |

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
mod snapshot;
mod touched;

pub use binding::{Binding, JournalStatus, Unkept};
pub use embedded::Embedded;
pub use filed::Filed;
pub use note::Note;
pub use open::{Caps, Opened, PersistError, Recovered, open};
pub(crate) use sections::Tell;
pub use settings::{Fsync, Keeping, OnFullDisk, Persist};
