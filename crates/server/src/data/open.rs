//! A start on what was kept: the snapshot read, the journal done again, a new file begun.

use std::sync::{Arc, Mutex, PoisonError};

use tollgate_core::{Clock, Policy, Timestamp};
use tollgate_journal::disk::Disk;
use tollgate_journal::{Failed, OpenError, Options, Report, Sync};
use tollgate_memory::{MOST_CAP, Memory, SnapshotError};

use super::binding::Binding;
use super::note::{Note, Notes};
use super::replay::Replay;
use super::sections::{self, Store, Tell, Unread};
use super::settings::{Fsync, Keeping, OnFullDisk, Persist};
use crate::keys::Keys;
use crate::start_error::StartError;

/// What a store and keys are made with.
pub(crate) struct Caps<'a> {
    /// Bytes of the store.
    pub(crate) memory: usize,
    /// Bytes of keys.
    pub(crate) keys: usize,
    pub(crate) policies: &'a [Policy],
    /// The clock; the usual one if none.
    pub(crate) clock: &'a dyn Fn() -> Option<Box<dyn Clock>>,
    pub(crate) now: Timestamp,
}

/// A store and keys as they were kept.
pub(crate) struct Opened {
    pub(crate) memory: Memory,
    pub(crate) keys: Keys,
    pub(crate) binding: Binding,
    pub(crate) recovered: Recovered,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Bans that hold, or count for how long the next one is.
    pub(crate) bans: Vec<Note>,
    /// The latest generation of policies; 0 if there was none.
    pub(crate) generation: u64,
    /// In words, a line a fact.
    pub(crate) report: Vec<String>,
    /// Frames that were done again.
    pub(crate) frames: u64,
    /// Keys that are remembered.
    pub(crate) keys: usize,
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

/// Opens what was kept, and begins to keep on.
pub(crate) fn open(keeping: &Keeping, disk: Arc<dyn Disk>, caps: &Caps<'_>) -> Result<Opened, StartError> {
    let sync = match keeping.persist {
        Persist::Snapshot => Sync::Never,
        Persist::Journal(Fsync::EverySecond) => Sync::EverySecond,
        Persist::Journal(Fsync::Always) => Sync::Always,
    };
    let options = Options { dir: keeping.dir.clone(), sync, repair: keeping.repair };
    let failed = |error: OpenError| StartError::Data(error.to_string());
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
    /// The first snapshot, of nothing: with it the store and the keys keep the secrets by which keys that find no
    /// room are put together.
    fn first_snapshot(&mut self, now: Timestamp) -> Result<(), StartError> {
        let keys = Mutex::new(std::mem::replace(&mut self.keys, Keys::new(0)));
        let bans = |tell: &mut Tell<'_>| told(&self.recovered.bans, tell);
        let written = self.binding.snapshot(&self.memory, &keys, &bans, now, &|| false);
        self.keys = keys.into_inner().unwrap_or_else(PoisonError::into_inner);
        if written == Err(Failed::Full) && self.binding.keeping.on_full_disk == OnFullDisk::Keep {
            // Without it what is framed could not be read as it was meant.
            self.binding.journal.give_up();
            return Ok(());
        }
        let dir = self.binding.keeping.dir.display();
        written.map(|_| ()).map_err(|failed| StartError::Data(format!("{dir}: cannot write a snapshot: {failed}")))
    }
}

/// Tells the bans among facts.
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

/// Why a snapshot cannot be used, and what to do.
fn not_read(keeping: &Keeping, caps: &Caps<'_>, unread: Unread) -> StartError {
    let text = match unread {
        Unread::Memory(SnapshotError::Cap(cap, needed)) => {
            let needed = needed.min(MOST_CAP).div_ceil(1 << 20);
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
    StartError::Data(format!("{}: {text}", keeping.dir.display()))
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
        // As frames after a kill, then from a snapshot, then a snapshot and frames.
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
