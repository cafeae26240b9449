//! The contents of emulated files after a loss of power. For tests.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The unit in which a disk writes, in bytes.
const SECTOR: usize = 512;
/// The unit in which a system writes files to the disk, in bytes.
const PAGE: usize = 4096;

/// How much of the unsynced data survives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Survival {
    /// Nothing: all unsynced data is lost.
    Nothing,
    /// Everything, as when only the process is killed.
    Everything,
    /// Some of it: arbitrary pages, sizes without their bytes, half a page, some of the names.
    Some,
}

/// A pseudorandom number generator (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Returns the generator for a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `end`; zero if `end` is zero.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.word().checked_rem(end).unwrap_or(0)
    }

    /// Returns an index below `end`; zero if `end` is zero.
    pub(crate) fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap_or(0)
    }

    /// Returns `true` once in `times` calls, on average.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// The bytes of a file: the current ones, and the synced ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileContent {
    pub(crate) current: Vec<u8>,
    pub(crate) lasting: Vec<u8>,
    /// Whether synced bytes were truncated since the last sync.
    pub(crate) cut: bool,
    /// Ranges lost by a failed sync: no later sync writes them.
    pub(crate) given_up: Vec<std::ops::Range<usize>>,
}

impl FileContent {
    pub(crate) fn sync(&mut self) {
        if self.cut {
            self.lasting.clone_from(&self.current);
        } else {
            let known = self.lasting.len();
            self.lasting.extend_from_slice(self.current.get(known..).unwrap_or_default());
        }
        self.cut = false;
        for range in &self.given_up {
            let end = range.end.min(self.lasting.len());
            self.lasting.get_mut(range.start..end).unwrap_or_default().fill(0);
        }
    }

    pub(crate) fn give_up(&mut self) {
        self.given_up.push(self.lasting.len().min(self.current.len())..self.current.len());
    }

    /// Returns the bytes after a loss of power.
    pub(crate) fn survivors(&self, survival: Survival, rng: &mut Rng) -> Vec<u8> {
        match survival {
            Survival::Nothing => self.lasting.clone(),
            Survival::Everything => self.current.clone(),
            Survival::Some => self.pages(rng),
        }
    }

    /// Returns a size between the two, each page from one or the other, and possibly a page torn between two sectors.
    fn pages(&self, rng: &mut Rng) -> Vec<u8> {
        let (old, new) = (&self.lasting, &self.current);
        let (least, most) = (old.len().min(new.len()), old.len().max(new.len()));
        let size = match rng.below(3) {
            0 => old.len(),
            1 => new.len(),
            _ => least + rng.index(most - least + 1),
        };
        let mut left = vec![0; size];
        let rate = 1 + rng.below(6);
        for start in (0..size).step_by(PAGE) {
            let kept = if rng.one_in(rate) { old } else { new };
            overlay(&mut left, kept, start, PAGE);
            if rng.one_in(4) {
                let other = if rng.one_in(2) { old } else { new };
                let sectors = 1 + rng.index(PAGE / SECTOR - 1);
                overlay(&mut left, other, start, sectors * SECTOR);
            }
        }
        left
    }
}

/// Copies `len` bytes of `from` over `to`, from `start` on; bytes that `from` does not have are zero.
fn overlay(to: &mut [u8], from: &[u8], start: usize, len: usize) {
    let end = to.len().min(start + len);
    for (index, byte) in to.iter_mut().enumerate().take(end).skip(start) {
        *byte = from.get(index).copied().unwrap_or(0);
    }
}

/// A change of names that was not synced.
#[derive(Clone, Debug)]
pub(crate) enum NameChange {
    Added(PathBuf, u64),
    Moved(PathBuf, PathBuf, u64),
    Gone(PathBuf),
}

/// Returns the names after a loss of power: the first changes, or some of them.
pub(crate) fn names(
    lasting: &BTreeMap<PathBuf, u64>,
    current: &BTreeMap<PathBuf, u64>,
    changes: &[NameChange],
    survival: Survival,
    rng: &mut Rng,
) -> BTreeMap<PathBuf, u64> {
    match survival {
        Survival::Nothing => return lasting.clone(),
        Survival::Everything => return current.clone(),
        Survival::Some => {}
    }
    let mut left = lasting.clone();
    let (in_order, first) = (rng.one_in(2), rng.index(changes.len() + 1));
    for (index, change) in changes.iter().enumerate() {
        let kept = if in_order { index < first } else { rng.one_in(2) };
        if !kept {
            continue;
        }
        match change {
            NameChange::Added(path, id) => _ = left.insert(path.clone(), *id),
            NameChange::Moved(from, to, id) => {
                left.remove(from);
                left.insert(to.clone(), *id);
            }
            NameChange::Gone(path) => _ = left.remove(path),
        }
    }
    left
}
