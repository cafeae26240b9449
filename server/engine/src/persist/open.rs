//! A start from persisted data: the snapshot is read, the journal is replayed, a new file is begun.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_journal::disk::Disk;
use tollgate_journal::{JournalError, JournalOpenError, JournalOptions, RecoveryReport, SyncMode};
use tollgate_kernel::{Clock, Policy, Timestamp};
use tollgate_memory::{MAX_CAP, Memory, SnapshotError};

use super::binding::Binding;
use super::embedded::EmbeddedHome;
use super::note::{Note, NoteSet};
use super::replay::JournalReplay;
use super::sections::{self, BanSink, SnapshotReadError, StoreParameters};
use super::settings::{Fsync, OnFullDisk, PersistMode, PersistSettings};
use tollgate_keyspace::Keyspace;

/// The reason why persisted data cannot be used: what was expected and found, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistError(String);

impl fmt::Display for PersistError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PersistError {}

/// The parameters of a store and of keys.
pub struct RestoreParameters<'a> {
    /// The memory cap of the store, in bytes.
    pub memory: usize,
    /// The memory cap of the keys, in bytes.
    pub keys: usize,
    /// The policies of the server.
    pub policies: &'a [Policy],
    /// Returns the clock; `None` for the default one.
    pub clock: &'a dyn Fn() -> Option<Box<dyn Clock>>,
    /// The time of the start.
    pub now: Timestamp,
}

/// A store and keys restored from persisted data.
pub struct RestoredStore {
    memory: Memory,
    keys: Keyspace,
    /// The binding that persists decisions from now on.
    binding: Binding,
    recovered: RecoverySummary,
}

/// A summary of the recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverySummary {
    /// Bans that are in force, or that determine the duration of the next one.
    pub bans: Vec<Note>,
    /// The latest generation of policies; 0 if there was none.
    pub generation: u64,
    /// The report in words, one line for each fact.
    pub report: Vec<String>,
    /// The number of frames replayed.
    pub frames: u64,
    /// The number of keys recovered.
    pub keys: usize,
}

impl RestoreParameters<'_> {
    fn memory(&self, cap: usize) -> Memory {
        match (self.clock)() {
            None => Memory::new(cap),
            Some(clock) => Memory::with_clock(cap, clock),
        }
    }

    fn store(&self, cap: usize) -> StoreParameters<'_> {
        StoreParameters { cap, clock: (self.clock)(), policies: self.policies }
    }
}

/// Opens persisted data, and continues to persist.
pub fn open(
    settings: &PersistSettings,
    disk: Arc<dyn Disk>,
    parameters: &RestoreParameters<'_>,
) -> Result<RestoredStore, PersistError> {
    let sync = match settings.persist {
        PersistMode::Snapshot => SyncMode::Never,
        PersistMode::Journal(Fsync::EverySecond) => SyncMode::EverySecond,
        PersistMode::Journal(Fsync::Always) => SyncMode::Always,
    };
    let options = JournalOptions { dir: settings.dir.clone(), sync, repair: settings.repair };
    let failed = |error: JournalOpenError| PersistError(error.to_string());
    let (mut opened, report) = tollgate_journal::open(&options, disk).map_err(failed)?;
    let mut notes = NoteSet::at(parameters.now);
    let mut keys = Keyspace::new(parameters.keys);
    let snapshot = opened.snapshot();
    let is_new = snapshot.is_none();
    let (memory, latest) = match snapshot {
        None => (parameters.memory(parameters.memory), Timestamp::default()),
        Some(mut from) => {
            let read =
                sections::read(&mut from, &mut keys, &mut notes, parameters.store(parameters.memory), parameters.now);
            let restored = read.map_err(|unread| read_error(settings, parameters, unread))?;
            (restored.memory, restored.latest)
        }
    };
    let mut replay = JournalReplay::new(&memory, &mut keys, &mut notes, latest);
    let frames = opened.frames(|body| replay.frame(body)).map_err(failed)?;
    let latest = replay.latest;
    let excess = keys.excess(parameters.now);
    if excess > 0 {
        return Err(read_error(settings, parameters, SnapshotReadError::Keys(excess)));
    }
    let recovered = summary(&report, &notes, frames, &memory, &keys);
    let journal = match settings.on_full_disk {
        OnFullDisk::Keep => opened.start_though_full(),
        OnFullDisk::Stop => opened.start(),
    };
    let journal = journal.map_err(failed)?;
    let binding = Binding::new(journal, settings, notes.generation(), latest, (recovered.frames, recovered.keys));
    if binding.frames() {
        keys.watch();
    }
    let mut opened = RestoredStore { memory, keys, binding, recovered };
    if is_new && opened.binding.trouble().is_none() {
        opened.first_snapshot(parameters.now)?;
    }
    Ok(opened)
}

impl RestoredStore {
    /// Returns the store as a home that persists its decisions by this clock, the keys of other conventions, and a
    /// summary of the recovery.
    pub fn into_home(self, clock: Box<dyn Clock>) -> (EmbeddedHome, Keyspace, RecoverySummary) {
        (EmbeddedHome::bound(self.memory, Some(Arc::new(self.binding)), clock), self.keys, self.recovered)
    }

    /// Writes the first snapshot, which is empty. It preserves the secrets of the store and the keys that determine
    /// which keys share a state for lack of room.
    fn first_snapshot(&mut self, now: Timestamp) -> Result<(), PersistError> {
        let keys = Mutex::new(std::mem::replace(&mut self.keys, Keyspace::new(0)));
        let bans = |sink: &mut BanSink<'_>| list_bans(&self.recovered.bans, sink);
        let written = self.binding.snapshot(&self.memory, &keys, &bans, now, &|| false);
        self.keys = keys.into_inner().unwrap_or_else(PoisonError::into_inner);
        if written == Err(JournalError::Full) && self.binding.settings.on_full_disk == OnFullDisk::Keep {
            // Without the snapshot, the frames could not be interpreted correctly.
            self.binding.journal.give_up();
            return Ok(());
        }
        let dir = self.binding.settings.dir.display();
        written.map(|_| ()).map_err(|failed| PersistError(format!("{dir}: cannot write a snapshot: {failed}")))
    }
}

/// Passes the bans among these facts to `sink`.
fn list_bans(notes: &[Note], sink: &mut BanSink<'_>) {
    for note in notes {
        if let Note::Ban { policy, key, until, level } = note {
            sink(policy, key, *until, *level);
        }
    }
}

fn summary(report: &RecoveryReport, notes: &NoteSet, frames: u64, memory: &Memory, keys: &Keyspace) -> RecoverySummary {
    RecoverySummary {
        bans: notes.bans().collect(),
        generation: notes.generation(),
        report: report.facts().to_vec(),
        frames,
        keys: memory.stats().keys + keys.counts().keys,
    }
}

/// Returns the reason why a snapshot cannot be used, and what to do.
fn read_error(
    settings: &PersistSettings,
    parameters: &RestoreParameters<'_>,
    unread: SnapshotReadError,
) -> PersistError {
    let text = match unread {
        SnapshotReadError::Memory(SnapshotError::Cap(cap, needed)) => {
            let needed = needed.min(MAX_CAP).div_ceil(1 << 20);
            format!("expected keys that fit into {} MiB, found more; start with --memory {needed}M", cap >> 20)
        }
        SnapshotReadError::Memory(error) => error.to_string(),
        SnapshotReadError::Keys(excess) => {
            let needed = (parameters.keys + excess + parameters.keys / 4).div_ceil(1 << 20);
            format!(
                "expected keys of other conventions that fit into {} MiB, found {excess} bytes more; start with \
                 --keys {needed}M",
                parameters.keys >> 20
            )
        }
        SnapshotReadError::Io(error) => error.to_string(),
        SnapshotReadError::Invalid(what) => {
            format!("expected a snapshot of a server of this version, found another: {what}")
        }
    };
    PersistError(format!("{}: {text}", settings.dir.display()))
}

#[cfg(test)]
mod tests {
    use tollgate_journal::disk::EmulatedDisk;
    use tollgate_memory::ManualClock;

    use super::*;

    const NOW: Timestamp = Timestamp::saturating(1_700_000_000_000_000);

    fn opened(disk: &EmulatedDisk) -> RestoredStore {
        let clock = || -> Option<Box<dyn Clock>> { Some(Box::new(ManualClock::at(NOW))) };
        let parameters = RestoreParameters { memory: 1 << 22, keys: 1 << 22, policies: &[], clock: &clock, now: NOW };
        open(&PersistSettings::new("data"), Arc::new(disk.clone()), &parameters).unwrap()
    }

    fn ban(key: &str, level: u32) -> Note {
        Note::Ban { policy: "login".into(), key: key.into(), until: NOW, level }
    }

    #[test]
    fn bans_and_generations_are_handed_on_from_frames_and_from_snapshots() {
        let disk = EmulatedDisk::new(1);
        let first = opened(&disk);
        assert_eq!((first.recovered.bans.len(), first.recovered.generation), (0, 0));
        for note in [ban("a", 1), ban("b", 1), ban("b", 2), Note::Generation { number: 41 }] {
            first.binding.persist_note(&note);
        }
        first.binding.journal.settle_now().unwrap();
        // From frames after a kill, then from a snapshot, then from a snapshot and frames.
        let second = opened(&EmulatedDisk::with(2, disk.files()));
        assert_eq!((second.recovered.frames, second.recovered.generation), (4, 41));
        let RestoredStore { memory, keys, binding, recovered } = first;
        let keys = Mutex::new(keys);
        let bans = [ban("a", 1), ban("b", 2)];
        binding.snapshot(&memory, &keys, &|sink| list_bans(&bans, sink), NOW, &|| false).unwrap();
        let third = opened(&EmulatedDisk::with(3, disk.files()));
        assert_eq!((third.recovered.frames, third.recovered.generation), (0, 41));
        assert_eq!(third.recovered.bans, second.recovered.bans);
        assert_eq!((third.recovered.bans.len(), recovered.bans.len()), (2, 0));
        binding.persist_note(&ban("a", 0));
        binding.persist_note(&Note::Generation { number: 42 });
        binding.journal.settle_now().unwrap();
        let fourth = opened(&EmulatedDisk::with(4, disk.files())).recovered;
        assert_eq!((fourth.bans, fourth.generation), (vec![ban("b", 2)], 42));
    }

    #[test]
    fn what_no_server_wrote_is_refused_with_its_place() {
        let disk = EmulatedDisk::new(1);
        let first = opened(&disk);
        first.binding.journal.lock().frame(|to| to.extend_from_slice(b"\xfesomething else"));
        first.binding.journal.settle_now().unwrap();
        let clock = || -> Option<Box<dyn Clock>> { Some(Box::new(ManualClock::at(NOW))) };
        let parameters = RestoreParameters { memory: 1 << 22, keys: 1 << 22, policies: &[], clock: &clock, now: NOW };
        let again = open(&PersistSettings::new("data"), Arc::new(EmulatedDisk::with(2, disk.files())), &parameters);
        let Err(error) = again else { panic!("it started") };
        let text = error.to_string();
        assert!(
            text.contains("data/journal-") && text.contains("expected what a server of this version writes"),
            "{text}"
        );
    }
}
