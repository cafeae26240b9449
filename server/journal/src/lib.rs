//! Durable storage for a server: snapshots, and a journal of the records since the last snapshot. The crate knows
//! nothing of limits: records and snapshots are bytes.
//!
//! A directory holds `journal-0000000012`, `snapshot-0000000012` and so on. Snapshot K covers everything before journal
//! K; the state is the newest snapshot K, then the records of journals K, K+1, … in order. Everything is checksummed
//! (CRC32C) and numbered, so that any difference between what is read and what was written is detected and reported.
//!
//! Laws:
//! * Records for which [`settled`](Journal::settled) returned `Ok` survive the end of the process. With
//!   [`SyncMode::Always`] they survive a loss of power; with [`SyncMode::EverySecond`] all but those of the last second
//!   and of one sync do.
//! * The state read at a start is one that existed, as of some record. A tail torn by a loss of power is cut off and
//!   reported; any other damage is refused without [`JournalOptions::repair`], and nothing is changed.
//! * A write or a sync that failed is never treated as a success later: nothing is settled until a new snapshot and new
//!   files are on disk.
//!
//! ```
//! use std::sync::Arc;
//! use tollgate_journal::{JournalOptions, SyncMode, disk::EmulatedDisk, open};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let disk = Arc::new(EmulatedDisk::new(7));      // `disk::RealDisk` outside of tests
//! let options = JournalOptions { dir: "data".into(), sync: SyncMode::Always, repair: false };
//!
//! // A start reads what is there, which is nothing yet, and begins a journal.
//! let (opened, report) = open(&options, disk.clone())?;
//! assert!(report.is_clean());
//! let journal = opened.start()?;
//! journal.lock().frame(|record| record.extend_from_slice(b"one"));
//! journal.settle_now()?;                          // `settled().await` in a server
//!
//! // A snapshot covers what was framed before its rotation.
//! let rotation = journal.rotate()?;
//! journal.lock().frame(|record| record.extend_from_slice(b"two"));
//! rotation.write(|to| to.write_all(b"state with one"))?;
//! journal.settle_now()?;
//! drop(journal);                                  // no clean end: as if killed
//!
//! let (mut opened, report) = open(&options, disk)?;
//! assert!(!report.is_clean());
//! let (mut state, mut records) = (String::new(), Vec::new());
//! if let Some(mut snapshot) = opened.snapshot() {
//!     std::io::Read::read_to_string(&mut snapshot, &mut state)?;
//! }
//! opened.frames(|record| Ok(records.push(record.to_vec())))?;
//! assert_eq!((state.as_str(), records), ("state with one", vec![b"two".to_vec()]));
//! opened.start()?.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `options.rs` | where a journal is stored, and when it is synced |
//! | `frame.rs`, `frame_reader.rs` | the format of records in a file, and how they are read |
//! | `snapshot.rs` | the format of snapshots |
//! | `atomic_file.rs` | files that appear atomically |
//! | `names.rs` | the names of the files |
//! | `recover.rs` | opening: read everything, report, start |
//! | `survey.rs`, `scan.rs`, `chain.rs`, `choose.rs` | the files, how far each is intact, which make up the state |
//! | `mend.rs` | what a start changes before it writes; repair |
//! | `journal.rs`, `writer.rs`, `inner.rs` | writing: a server's interface, the order lock, the shared state |
//! | `sync.rs` | the thread that syncs |
//! | `rotate.rs` | snapshots during writes |
//! | `report.rs`, `describe.rs`, `error.rs`, `stats.rs` | reports, errors and statistics |
//! | `disk/` | the interface to the disk: the real one, and an emulated one that fails |

#[cfg(not(unix))]
compile_error!("tollgate-journal needs the owners and modes of files, which it knows on Unix only");

mod atomic_file;
mod chain;
mod choose;
mod describe;
pub mod disk;
mod error;
mod frame;
mod frame_reader;
mod inner;
mod journal;
mod mend;
mod names;
mod options;
mod recover;
mod report;
mod rotate;
mod scan;
mod snapshot;
mod stats;
mod survey;
mod sync;
mod writer;

pub use error::{Damage, Health, JournalError, JournalOpenError};
pub use frame::MAX_RECORD;
pub use journal::Journal;
pub use options::{JournalOptions, SyncMode};
pub use recover::{JournalDir, open};
pub use report::RecoveryReport;
pub use rotate::Rotation;
pub use snapshot::SnapshotReader;
pub use stats::JournalStats;
pub use writer::JournalWriter;
