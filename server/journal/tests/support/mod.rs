//! A history of records with known contents: each record contains its position, each snapshot contains how far it
//! reaches, and the reader panics on anything that is not a prefix of the history.

#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_journal::disk::{Disk, EmulatedDisk};
use tollgate_journal::{
    Journal, JournalDir, JournalError, JournalOpenError, JournalOptions, RecoveryReport, SyncMode, open,
};
use tollgate_random::Rng;

pub type Files = BTreeMap<PathBuf, Vec<u8>>;

pub fn options(sync: SyncMode) -> JournalOptions {
    JournalOptions { dir: "data".into(), sync, repair: false }
}

pub fn repairing(sync: SyncMode) -> JournalOptions {
    JournalOptions { repair: true, ..options(sync) }
}

pub fn path(name: &str) -> PathBuf {
    Path::new("data").join(name)
}

/// The record at a place of the history, of a length that depends on it.
pub fn record(place: u64, into: &mut Vec<u8>) {
    let mut rng = Rng::new(place ^ 0x5eed);
    into.extend_from_slice(&place.to_le_bytes());
    let more = match rng.below(40) {
        0 => rng.below(6_000),
        1..4 => rng.below(600),
        _ => rng.below(60),
    };
    for _ in 0..more {
        into.push(rng.next_u64().to_le_bytes()[0]);
    }
}

pub fn frame(journal: &Journal, place: u64) {
    journal.lock().frame(|into| record(place, into));
}

/// A snapshot of the first `least` records, which may hold something of those up to `most`.
pub fn write_state(to: &mut dyn Write, least: u64, most: u64) -> std::io::Result<()> {
    to.write_all(&least.to_le_bytes())?;
    to.write_all(&most.to_le_bytes())?;
    let mut rng = Rng::new(least);
    let filler = if rng.one_in(24) { 300_000 } else { rng.index(3_000) };
    to.write_all(&vec![0xab; filler])
}

/// What was read: the first `least` records by the snapshot, then one by one up to `upto`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Prefix {
    pub upto: u64,
    /// How far the snapshot may reach: less than that is not a state that was.
    pub leans_on: u64,
}

/// Reads an opened directory. Anything but the beginning of the history panics.
pub fn read(opened: &mut JournalDir) -> Result<Prefix, JournalOpenError> {
    let (mut upto, mut leans_on) = (0, 0);
    if let Some(mut snapshot) = opened.snapshot() {
        let mut state = Vec::new();
        snapshot.read_to_end(&mut state).expect("a snapshot that was checked");
        upto = u64::from_le_bytes(state[..8].try_into().unwrap());
        leans_on = u64::from_le_bytes(state[8..16].try_into().unwrap());
        let mut same = Vec::new();
        write_state(&mut same, upto, leans_on).unwrap();
        assert!(state == same, "the snapshot is not one that was written");
    }
    let mut expected = Vec::new();
    let count = opened.frames(|found| {
        expected.clear();
        record(upto, &mut expected);
        assert!(found == expected, "expected record {upto}, found another");
        upto += 1;
        Ok(())
    })?;
    assert!(count <= upto);
    Ok(Prefix { upto, leans_on })
}

/// Opens and reads, without a start.
pub fn look(options: &JournalOptions, disk: &EmulatedDisk) -> Result<(Prefix, RecoveryReport), JournalOpenError> {
    let (mut opened, report) = open(options, Arc::new(disk.clone()))?;
    Ok((read(&mut opened)?, report))
}

/// A run of a server with what it promised.
pub struct JournalRun {
    pub disk: EmulatedDisk,
    pub sync: SyncMode,
    pub journal: Option<Journal>,
    /// How many records were framed, were said to outlast the process, and were said to outlast a loss of power.
    pub framed: u64,
    pub written: u64,
    pub synced: u64,
}

impl JournalRun {
    /// Starts on a disk, with what is there.
    pub fn start(disk: &EmulatedDisk, sync: SyncMode) -> Result<Self, JournalOpenError> {
        let (mut opened, _) = open(&options(sync), Arc::new(disk.clone()))?;
        let framed = read(&mut opened)?.upto;
        // What was read is on disk, and the start makes it last.
        let journal = Some(opened.start_by_hand()?);
        Ok(Self { disk: disk.clone(), sync, journal, framed, written: framed, synced: framed })
    }

    pub fn journal(&self) -> &Journal {
        self.journal.as_ref().expect("a journal that was started")
    }

    pub fn frame(&mut self, count: u64) {
        for _ in 0..count {
            frame(self.journal(), self.framed);
            self.framed += 1;
        }
    }

    pub fn settle(&mut self) -> Result<(), JournalError> {
        self.journal().settle_now()?;
        self.written = self.framed;
        if self.sync == SyncMode::Always {
            self.synced = self.framed;
        }
        Ok(())
    }

    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.journal().sync_now()?;
        (self.written, self.synced) = (self.framed, self.framed);
        Ok(())
    }

    /// A snapshot, with records that come in while it is written.
    pub fn snapshot(&mut self, meanwhile: u64) -> Result<(), JournalError> {
        let rotation = self.journal().rotate()?;
        let least = self.framed;
        self.frame(meanwhile);
        let most = self.framed;
        rotation.write(|to| write_state(to, least, most))?;
        (self.written, self.synced) = (self.framed, self.framed);
        Ok(())
    }

    pub fn close(&mut self) -> Result<(), JournalError> {
        self.journal().close()?;
        self.journal = None;
        (self.written, self.synced) = (self.framed, self.framed);
        Ok(())
    }

    /// Some steps by chance. Whatever fails ends them.
    pub fn steps(&mut self, rng: &mut Rng, count: u64) -> Result<(), JournalError> {
        for _ in 0..count {
            match rng.below(12) {
                0..4 => self.frame(1 + rng.below(12)),
                4..7 => self.settle()?,
                7..9 => self.sync()?,
                9 => {
                    let meanwhile = rng.below(5);
                    self.snapshot(meanwhile)?;
                }
                10 => drop(self.journal().rotate()?),
                _ => {
                    if rng.one_in(2) {
                        self.close()?;
                    } else {
                        self.settle()?;
                        self.journal = None;
                    }
                    let failed = |error: JournalOpenError| JournalError::Fill(error.to_string());
                    let (framed, synced) = (self.written, self.synced);
                    *self = Self::start(&self.disk.clone(), self.sync).map_err(failed)?;
                    assert_eq!(self.framed, framed, "a process that ends loses nothing that was settled");
                    assert!(self.synced >= synced);
                }
            }
        }
        Ok(())
    }
}

/// Continues after a recovery: writes three more records, closes the journal, and reads them back.
pub fn goes_on(options: &JournalOptions, disk: &EmulatedDisk) {
    let (mut opened, _) = open(options, Arc::new(disk.clone())).expect("a start");
    let before = read(&mut opened).expect("a reading").upto;
    let journal = opened.start_by_hand().expect("a start");
    (before..before + 3).for_each(|place| frame(&journal, place));
    journal.close().expect("a clean end");
    drop(journal);
    let (after, report) = look(&JournalOptions { repair: false, ..options.clone() }, disk).expect("a second start");
    assert_eq!(after.upto, before + 3);
    assert!(report.is_clean() && !report.is_cut(), "{report}");
    let damaged = disk.files().keys().filter(|path| path.to_string_lossy().ends_with(".damaged")).count();
    assert!(damaged <= 8);
    let unfinished = disk.files().keys().filter(|path| path.to_string_lossy().ends_with(".new")).count();
    assert_eq!(unfinished, 0);
}

/// A test's number of rounds, which the environment may raise.
pub fn rounds(usual: u64) -> u64 {
    std::env::var("TOLLGATE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

/// Names a disk as the engine wants it.
pub fn shared(disk: &EmulatedDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}
