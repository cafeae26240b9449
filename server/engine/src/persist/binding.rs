//! The binding of the embedded home and the keys to the journal: decisions are framed in the order in which they are
//! made.
//!
//! Order of locks: the keys' mutex, then the journal's order lock, then the framing state. A holder of the order lock
//! never locks the keys; EXEC, which holds the keys for several commands, takes the order lock for each of them.
//!
//! A decision of the store is made and framed while the order lock is held once. Keys are changed under their own
//! mutex, which is held until the change is framed, so their frames are in the order of their changes too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_journal::{Health, Journal, JournalStats};
use tollgate_kernel::Timestamp;

use super::frame::{put_call, put_entry, put_flush, put_shared};
use super::frame_writer::{FrameWriter, OF_DATABASE, put_note};
use super::note::Note;
use super::settings::{OnFullDisk, PersistMode, PersistSettings};
use super::touched::TouchedKeys;
use tollgate_keyspace::{CallEffect, DialectCall, KeyChange, Keyspace};

/// The journal, and what is known about its contents.
pub struct Binding {
    pub(crate) journal: Journal,
    pub(crate) settings: PersistSettings,
    framing_state: Mutex<FramingState>,
    /// The time of the latest decision, before the start or since.
    pub(crate) latest: Arc<AtomicU64>,
    /// The duration of the latest snapshot, in microseconds.
    pub(crate) took: AtomicU64,
    pub(crate) failed_snapshots: AtomicU64,
    /// The numbers of frames replayed and keys recovered at the start.
    found: (u64, usize),
}

/// The status of the journal.
#[derive(Clone, Debug)]
pub struct JournalStatus {
    /// The reason why nothing is persisted, in words; `None` if the journal works.
    pub trouble: Option<String>,
    /// The health: 0 good, 1 full, 2 failed.
    pub health: u8,
    /// The statistics of the journal.
    pub stats: JournalStats,
    /// The duration of the latest snapshot, in seconds.
    pub snapshot_seconds: f64,
    /// The number of snapshots that could not be written.
    pub failed_snapshots: u64,
    /// The number of frames that the start read.
    pub replayed_frames: u64,
    /// The number of keys that the start found.
    pub recovered_keys: usize,
}

/// The data guarded by the order lock.
#[derive(Debug, Default)]
pub(crate) struct FramingState {
    /// The keys written whole since a snapshot began, while one is being written.
    pub(super) touched: Option<TouchedKeys>,
    /// The keys, each under a policy, that were written whole since the clock was set back.
    pub(super) written_whole: Option<TouchedKeys>,
    /// The number of the generation in use.
    pub(crate) generation: u64,
}

/// A decision that was not persisted, and so must not be reported to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistFailure;

impl Binding {
    pub(crate) fn new(
        journal: Journal,
        settings: &PersistSettings,
        generation: u64,
        latest: Timestamp,
        found: (u64, usize),
    ) -> Self {
        let framing_state = Mutex::new(FramingState { touched: None, written_whole: None, generation });
        Self {
            journal,
            settings: settings.clone(),
            framing_state,
            latest: Arc::new(AtomicU64::new(latest.get())),
            took: AtomicU64::new(0),
            failed_snapshots: AtomicU64::new(0),
            found,
        }
    }

    /// Returns the status of the journal.
    pub fn status(&self) -> JournalStatus {
        let health = match self.journal.health() {
            Health::Good => 0,
            Health::Full => 1,
            Health::Failed(_) => 2,
        };
        JournalStatus {
            trouble: self.trouble(),
            health,
            stats: self.journal.stats(),
            snapshot_seconds: self.took.load(Ordering::Relaxed) as f64 / 1e6,
            failed_snapshots: self.failed_snapshots.load(Ordering::Relaxed),
            replayed_frames: self.found.0,
            recovered_keys: self.found.1,
        }
    }

    /// Returns the reason why nothing is persisted, in words; `None` if the journal works.
    pub fn trouble(&self) -> Option<String> {
        match self.journal.health() {
            Health::Good => None,
            Health::Full => Some("the disk is full".to_owned()),
            Health::Failed(why) => Some(why),
        }
    }

    /// Returns whether decisions are framed.
    pub(crate) fn frames(&self) -> bool {
        self.settings.persist != PersistMode::Snapshot
    }

    /// Returns whether decisions follow the policies' `on_error`, because nothing can be persisted.
    #[inline]
    pub fn is_away(&self) -> bool {
        match self.journal.health() {
            Health::Good => false,
            Health::Full => self.settings.on_full_disk == OnFullDisk::Stop,
            Health::Failed(_) => true,
        }
    }

    pub(crate) fn framing_state(&self) -> MutexGuard<'_, FramingState> {
        self.framing_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the order lock: no other thread decides while it is held.
    #[inline]
    pub(super) fn lock(&self) -> FrameWriter<'_> {
        let journal = self.journal.lock();
        FrameWriter::new(journal, self.framing_state())
    }

    /// Waits until everything framed so far may be reported to callers.
    #[inline]
    pub async fn settled(&self) -> Result<(), PersistFailure> {
        if !self.frames() || self.journal.settled().await.is_ok() {
            return Ok(());
        }
        // Continuing to decide while the disk is full was configured.
        if self.is_away() { Err(PersistFailure) } else { Ok(()) }
    }

    /// Persists a fact.
    pub(crate) fn persist_note(&self, note: &Note) {
        let mut writer = self.lock();
        writer.note(note);
        if self.frames() {
            writer.frame(|to| put_note(note, to));
        }
    }

    /// Frames what was changed of the keys, which are locked, as the values they have now.
    #[inline]
    pub(crate) fn persist_changes(&self, keys: &mut Keyspace) {
        if let CallEffect::Shared(bucket) = keys.take_call_effect() {
            self.lock().frame(|to| put_shared(|to| _ = keys.write_shared(bucket, to), to));
        }
        let changes = keys.take_changes();
        if changes.is_empty() {
            return;
        }
        let mut writer = self.lock();
        for change in &changes {
            if let KeyChange::Key(db, key) = change {
                writer.touch((OF_DATABASE, u64::from(*db)), key);
            }
        }
        writer.frame(|to| {
            for (place, change) in changes.iter().enumerate() {
                match change {
                    KeyChange::Flush(db) => put_flush(*db, to),
                    // Only the final value is written.
                    KeyChange::Key(..) if changes[place + 1..].contains(change) => {}
                    KeyChange::Key(db, key) => put_entry(*db, key, |to| keys.write_entry(*db, key, to), to),
                }
            }
        });
    }

    /// Frames a call of a dialect that was just decided on the keys, which are locked.
    pub(crate) fn persist_call(&self, keys: &mut Keyspace, call: &DialectCall, now: Timestamp) {
        match keys.call_effect() {
            CallEffect::Nothing => {}
            CallEffect::Entries | CallEffect::Shared(_) => return self.persist_changes(keys),
            CallEffect::States => {
                let mut writer = self.lock();
                let scope = (OF_DATABASE, u64::from(call.db));
                // All of its keys are touched, whichever of them comes first.
                let known = call.places().filter(|key| !writer.touch(scope, key)).count() == 0;
                writer.frame(|to| {
                    if known {
                        return put_call(call, now, to);
                    }
                    for key in call.places() {
                        put_entry(call.db, key, |to| keys.write_entry(call.db, key, to), to);
                    }
                });
            }
        }
        keys.take_changes();
    }
}
