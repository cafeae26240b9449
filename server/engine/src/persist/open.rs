//! A start from persisted data: the snapshot is read, the journal is replayed, a new file is begun.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_journal::disk::Disk;
use tollgate_journal::{Failed, OpenError, Options, Report, Sync};
use tollgate_kernel::{Clock, Policy, Timestamp};
use tollgate_memory::{MAX_CAP, Memory, SnapshotError};

use super::binding::Binding;
use super::note::{Note, Notes};
use super::replay::Replay;
use super::sections::{self, Store, Tell, Unread};
use super::settings::{Fsync, Keeping, OnFullDisk, Persist};
use tollgate_keyspace::Keys;

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
pub struct Caps<'a> {
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
pub struct Opened {
    /// The embedded store.
    pub memory: Memory,
    /// The keys of other conventions.
    pub keys: Keys,
    /// The binding that persists decisions from now on.
    pub binding: Binding,
    /// A summary of the recovery.
    pub recovered: Recovered,
}

/// A summary of the recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
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

impl Caps<'_> {
    fn memory(&self, cap: usize) -> Memory {
        match (self.clock)() {
            None => Memory::new(cap),
            Some(clock) => Memory::with_clock(cap, clock),
        }
    }

    fn store(&self, cap: usize) -> Store<'_> {
        Store { cap, clock: (self.clock)(), policies: self.policies }
    }
}

/// Opens persisted data, and continues to persist.
pub fn open(keeping: &Keeping, disk: Arc<dyn Disk>, caps: &Caps<'_>) -> Result<Opened, PersistError> {
    let sync = match keeping.persist {
        Persist::Snapshot => Sync::Never,
        Persist::Journal(Fsync::EverySecond) => Sync::EverySecond,
        Persist::Journal(Fsync::Always) => Sync::Always,
    };
    let options = Options { dir: keeping.dir.clone(), sync, repair: keeping.repair };
    let failed = |error: OpenError| PersistError(error.to_string());
    let (mut opened, report) = tollgate_journal::open(&options, disk).map_err(failed)?;
    let mut notes = Notes::at(caps.now);
    let mut keys = Keys::new(caps.keys);
    let snapshot = opened.snapshot();
    let is_new = snapshot.is_none();
    let (memory, latest) = match snapshot {
        None => (caps.memory(caps.memory), Timestamp::default()),
        Some(mut from) => {
            let read = sections::read(&mut from, &mut keys, &mut notes, caps.store(caps.memory), caps.now);
            let restored = read.map_err(|unread| not_read(keeping, caps, unread))?;
            (restored.memory, restored.latest)
        }
    };
    let mut replay = Replay::new(&memory, &mut keys, &mut notes, latest);
    let frames = opened.frames(|body| replay.frame(body)).map_err(failed)?;
    let latest = replay.latest;
    let excess = keys.excess(caps.now);
    if excess > 0 {
        return Err(not_read(keeping, caps, Unread::Keys(excess)));
    }
    keys.watch();
    let recovered = recovered(&report, &notes, frames, &memory, &keys);
    let journal = match keeping.on_full_disk {
        OnFullDisk::Keep => opened.start_though_full(),
        OnFullDisk::Stop => opened.start(),
    };
    let journal = journal.map_err(failed)?;
    let binding = Binding::new(journal, keeping, notes.generation(), latest, (recovered.frames, recovered.keys));
    let mut opened = Opened { memory, keys, binding, recovered };
    if is_new && opened.binding.trouble().is_none() {
        opened.first_snapshot(caps.now)?;
    }
    Ok(opened)
}

impl Opened {
    /// Writes the first snapshot, which is empty. It preserves the secrets of the store and the keys that determine
    /// which keys share a state for lack of room.
    fn first_snapshot(&mut self, now: Timestamp) -> Result<(), PersistError> {
        let keys = Mutex::new(std::mem::replace(&mut self.keys, Keys::new(0)));
        let bans = |tell: &mut Tell<'_>| told(&self.recovered.bans, tell);
        let written = self.binding.snapshot(&self.memory, &keys, &bans, now, &|| false);
        self.keys = keys.into_inner().unwrap_or_else(PoisonError::into_inner);
        if written == Err(Failed::Full) && self.binding.keeping.on_full_disk == OnFullDisk::Keep {
            // Without the snapshot, the frames could not be interpreted correctly.
            self.binding.journal.give_up();
            return Ok(());
        }
        let dir = self.binding.keeping.dir.display();
        written.map(|_| ()).map_err(|failed| PersistError(format!("{dir}: cannot write a snapshot: {failed}")))
    }
}

/// Calls `tell` for the bans among these facts.
fn told(notes: &[Note], tell: &mut Tell<'_>) {
    for note in notes {
        if let Note::Ban { policy, key, until, level } = note {
            tell(policy, key, *until, *level);
        }
    }
}

fn recovered(report: &Report, notes: &Notes, frames: u64, memory: &Memory, keys: &Keys) -> Recovered {
    Recovered {
        bans: notes.bans().collect(),
        generation: notes.generation(),
        report: report.facts().to_vec(),
        frames,
        keys: memory.stats().keys + keys.counts().keys,
    }
}

/// Returns the reason why a snapshot cannot be used, and what to do.
fn not_read(keeping: &Keeping, caps: &Caps<'_>, unread: Unread) -> PersistError {
    let text = match unread {
        Unread::Memory(SnapshotError::Cap(cap, needed)) => {
            let needed = needed.min(MAX_CAP).div_ceil(1 << 20);
            format!("expected keys that fit into {} MiB, found more; start with --memory {needed}M", cap >> 20)
        }
        Unread::Memory(error) => error.to_string(),
        Unread::Keys(excess) => {
            let needed = (caps.keys + excess + caps.keys / 4).div_ceil(1 << 20);
            format!(
                "expected keys of other conventions that fit into {} MiB, found {excess} bytes more; start with \
                 --keys {needed}M",
                caps.keys >> 20
            )
        }
        Unread::Io(error) => error.to_string(),
        Unread::Strange(what) => format!("expected a snapshot of a server of this version, found another: {what}"),
    };
    PersistError(format!("{}: {text}", keeping.dir.display()))
}

#[cfg(test)]
mod tests {
    use tollgate_journal::disk::Emulated;
    use tollgate_memory::Manual;

    use super::*;

    const NOW: Timestamp = Timestamp::saturating(1_700_000_000_000_000);

    fn opened(disk: &Emulated) -> Opened {
        let clock = || -> Option<Box<dyn Clock>> { Some(Box::new(Manual::at(NOW))) };
        let caps = Caps { memory: 1 << 22, keys: 1 << 22, policies: &[], clock: &clock, now: NOW };
        open(&Keeping::new("data"), Arc::new(disk.clone()), &caps).unwrap()
    }

    fn ban(key: &str, level: u32) -> Note {
        Note::Ban { policy: "login".into(), key: key.into(), until: NOW, level }
    }

    #[test]
    fn bans_and_generations_are_handed_on_from_frames_and_from_snapshots() {
        let disk = Emulated::new(1);
        let first = opened(&disk);
        assert_eq!((first.recovered.bans.len(), first.recovered.generation), (0, 0));
        for note in [ban("a", 1), ban("b", 1), ban("b", 2), Note::Generation { number: 41 }] {
            first.binding.note(&note);
        }
        first.binding.journal.settle_now().unwrap();
        // From frames after a kill, then from a snapshot, then from a snapshot and frames.
        let second = opened(&Emulated::with(2, disk.files()));
        assert_eq!((second.recovered.frames, second.recovered.generation), (4, 41));
        let Opened { memory, keys, binding, recovered } = first;
        let keys = Mutex::new(keys);
        let bans = [ban("a", 1), ban("b", 2)];
        binding.snapshot(&memory, &keys, &|tell| told(&bans, tell), NOW, &|| false).unwrap();
        let third = opened(&Emulated::with(3, disk.files()));
        assert_eq!((third.recovered.frames, third.recovered.generation), (0, 41));
        assert_eq!(third.recovered.bans, second.recovered.bans);
        assert_eq!((third.recovered.bans.len(), recovered.bans.len()), (2, 0));
        binding.note(&ban("a", 0));
        binding.note(&Note::Generation { number: 42 });
        binding.journal.settle_now().unwrap();
        let fourth = opened(&Emulated::with(4, disk.files())).recovered;
        assert_eq!((fourth.bans, fourth.generation), (vec![ban("b", 2)], 42));
    }

    #[test]
    fn what_no_server_wrote_is_refused_with_its_place() {
        let disk = Emulated::new(1);
        let first = opened(&disk);
        first.binding.journal.lock().frame(|to| to.extend_from_slice(b"\xfesomething else"));
        first.binding.journal.settle_now().unwrap();
        let clock = || -> Option<Box<dyn Clock>> { Some(Box::new(Manual::at(NOW))) };
        let caps = Caps { memory: 1 << 22, keys: 1 << 22, policies: &[], clock: &clock, now: NOW };
        let again = open(&Keeping::new("data"), Arc::new(Emulated::with(2, disk.files())), &caps);
        let Err(error) = again else { panic!("it started") };
        let text = error.to_string();
        assert!(
            text.contains("data/journal-") && text.contains("expected what a server of this version writes"),
            "{text}"
        );
    }
}
