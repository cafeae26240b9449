//! The journal as the embedded home and the keys use it: what was decided is framed in the order of decisions.
//!
//! Order of locks: the keys' mutex, then the journal's order lock, then the book. Whoever holds the order lock
//! asks for no keys; EXEC, which holds the keys for several commands, takes the order lock for each of them.
//!
//! What the store decides is decided and framed under one hold of the order lock. Keys are changed under their own
//! mutex, which is held until the change is framed, so their frames are in the order of their changes too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::Timestamp;
use tollgate_journal::{Health, Journal, Stats};

use super::frame::{put_entry, put_flush, put_shared, put_spoken};
use super::hand::{Hand, OF_DATABASE, put_note};
use super::note::Note;
use super::settings::{Keeping, OnFullDisk, Persist};
use super::touched::Touched;
use crate::keys::{Change, Keys, Spoken, Wrote};

/// The journal, and what is known about what it has been told.
pub(crate) struct Binding {
    pub(super) journal: Journal,
    pub(super) keeping: Keeping,
    book: Mutex<Book>,
    /// Nothing was decided later, before the start or since.
    pub(super) latest: Arc<AtomicU64>,
    /// How long the latest snapshot took, in microseconds.
    pub(super) took: AtomicU64,
    pub(super) failed_snapshots: AtomicU64,
    /// What a start found: frames that were done again, and keys.
    found: (u64, usize),
}

/// What is told of the journal in metrics.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// 0 good, 1 full, 2 failed.
    pub(crate) health: u8,
    pub(crate) stats: Stats,
    /// How long the latest snapshot took, in seconds.
    pub(crate) snapshot_seconds: f64,
    /// Snapshots that could not be written.
    pub(crate) failed_snapshots: u64,
    pub(crate) replayed_frames: u64,
    pub(crate) recovered_keys: usize,
}

/// What is guarded by the order lock.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// While a snapshot is written.
    pub(super) touched: Option<Touched>,
    /// Keys that were told whole since the clock was set back, each under a policy.
    pub(super) told: Option<Touched>,
    /// The policies in use are those of this generation.
    pub(super) generation: u64,
}

/// What was said is not kept, and so it is not to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unkept;

impl Binding {
    pub(super) fn new(
        journal: Journal,
        keeping: &Keeping,
        generation: u64,
        latest: Timestamp,
        found: (u64, usize),
    ) -> Self {
        let book = Mutex::new(Book { touched: None, told: None, generation });
        Self {
            journal,
            keeping: keeping.clone(),
            book,
            latest: Arc::new(AtomicU64::new(latest.get())),
            took: AtomicU64::new(0),
            failed_snapshots: AtomicU64::new(0),
            found,
        }
    }

    /// What is told in metrics.
    pub(crate) fn told(&self) -> Told {
        let health = match self.journal.health() {
            Health::Good => 0,
            Health::Full => 1,
            Health::Failed(_) => 2,
        };
        Told {
            health,
            stats: self.journal.stats(),
            snapshot_seconds: self.took.load(Ordering::Relaxed) as f64 / 1e6,
            failed_snapshots: self.failed_snapshots.load(Ordering::Relaxed),
            replayed_frames: self.found.0,
            recovered_keys: self.found.1,
        }
    }

    /// Why nothing is kept, in words; nothing if all is well.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self.journal.health() {
            Health::Good => None,
            Health::Full => Some("the disk is full".to_owned()),
            Health::Failed(why) => Some(why),
        }
    }

    /// Whether decisions are framed.
    pub(super) fn frames(&self) -> bool {
        self.keeping.persist != Persist::Snapshot
    }

    /// Whether policies say who decides, since nothing can be kept.
    #[inline]
    pub(crate) fn is_away(&self) -> bool {
        match self.journal.health() {
            Health::Good => false,
            Health::Full => self.keeping.on_full_disk == OnFullDisk::Stop,
            Health::Failed(_) => true,
        }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody else decides for as long as it is held.
    #[inline]
    pub(super) fn lock(&self) -> Hand<'_> {
        let writing = self.journal.lock();
        Hand::new(writing, self.book())
    }

    /// Waits until everything framed so far may be told.
    #[inline]
    pub(crate) async fn settled(&self) -> Result<(), Unkept> {
        if !self.frames() || self.journal.settled().await.is_ok() {
            return Ok(());
        }
        // Who decides on while the disk is full has said so.
        if self.is_away() { Err(Unkept) } else { Ok(()) }
    }

    /// Keeps a fact.
    pub(super) fn note(&self, note: &Note) {
        let mut hand = self.lock();
        hand.note(note);
        if self.frames() {
            hand.put(|to| put_note(note, to));
        }
    }

    /// Frames what plain commands changed of the keys, which are held.
    #[inline]
    pub(super) fn changed(&self, keys: &mut Keys) {
        let changes = keys.take_changes();
        if changes.is_empty() || !self.frames() {
            return;
        }
        let mut hand = self.lock();
        for change in &changes {
            if let Change::Key(db, key) = change {
                hand.is_touched((OF_DATABASE, u64::from(*db)), key);
            }
        }
        hand.put(|to| {
            for (place, change) in changes.iter().enumerate() {
                match change {
                    Change::Flush(db) => put_flush(*db, to),
                    // What it holds in the end is told once.
                    Change::Key(..) if changes[place + 1..].contains(change) => {}
                    Change::Key(db, key) => put_entry(*db, key, |to| keys.write_entry(*db, key, to), to),
                }
            }
        });
    }

    /// Frames a call of a dialect that was just decided on the keys, which are held.
    pub(super) fn spoken(&self, keys: &mut Keys, spoken: &Spoken, now: Timestamp) {
        if !self.frames() {
            return;
        }
        match keys.wrote() {
            Wrote::Nothing => {}
            Wrote::Entries => return self.changed(keys),
            Wrote::Shared(bucket) => {
                self.lock().put(|to| put_shared(|to| _ = keys.write_shared(bucket, to), to));
                return self.changed(keys);
            }
            Wrote::States => {
                let mut hand = self.lock();
                let scope = (OF_DATABASE, u64::from(spoken.db));
                // All of its keys are touched, whichever of them is the first.
                let known = spoken.keys.iter().filter(|key| !hand.is_touched(scope, key)).count() == 0;
                hand.put(|to| {
                    if known {
                        return put_spoken(spoken, now, to);
                    }
                    for key in &spoken.keys {
                        put_entry(spoken.db, key, |to| keys.write_entry(spoken.db, key, to), to);
                    }
                });
            }
        }
        keys.take_changes();
    }
}
