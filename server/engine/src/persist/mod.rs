//! Persistence across restarts.
//!
//! | file | what it is |
//! |---|---|
//! | `settings.rs` | what is persisted, how and where |
//! | `embedded.rs`, `embedded_policy.rs` | the embedded home, and its policies as the journal knows them |
//! | `binding.rs`, `frame_writer.rs` | the journal as home and keys use it; framing while its order lock is held |
//! | `frame.rs`, `touched.rs` | the contents of frames; which keys were written whole since a snapshot began |
//! | `sections.rs`, `snapshot.rs` | a snapshot as bytes; written while others decide |
//! | `open.rs`, `replay.rs` | a start: the snapshot is read, the journal is replayed |
//! | `note.rs` | facts besides keys and charges |

mod binding;
mod embedded;
mod embedded_policy;
mod frame;
mod frame_writer;
mod note;
mod open;
mod replay;
mod sections;
mod settings;
mod snapshot;
mod touched;

pub use binding::{Binding, JournalStatus, PersistFailure};
pub use embedded::EmbeddedHome;
pub use embedded_policy::EmbeddedPolicy;
pub use note::Note;
pub use open::{PersistError, RecoverySummary, RestoreParameters, RestoredStore, open};
pub(crate) use sections::BanSink;
pub use settings::{Fsync, OnFullDisk, PersistMode, PersistSettings};
