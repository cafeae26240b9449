//! States as integers: how files store them, and how a log is thinned when memory is short.
//!
//! Everything is written as words of eight bytes, least significant byte first. Reading checks what the functions of
//! the algorithms rely on: bytes that no algorithm wrote are refused.

use std::fmt::Debug;

use crate::log::LogState;
use crate::ring::{Entry, Ring, SHORT};
use crate::units::{EXACT, Micros, Timestamp};
use crate::window::Window;

/// The most entries that one call thins, so that a long log does not make a call slow.
const THINNED_AT_ONCE: usize = 1_024;

/// A buffer that words are written to.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Creates a writer that appends to `bytes`.
    pub fn behind(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Writes a word.
    pub fn put(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    /// Returns the number of bytes written.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Clears what was written, keeping the memory for reuse.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the bytes written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// A sequence of words to be read.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the next word, if there is one.
    pub fn take(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    /// Returns the next word as a timestamp, if it is a valid one.
    pub fn moment(&mut self) -> Option<Timestamp> {
        Timestamp::new(self.take()?)
    }

    /// Returns the next word, if it is at most `most`.
    pub fn at_most(&mut self, most: u64) -> Option<u64> {
        self.take().filter(|word| *word <= most)
    }

    /// Returns whether nothing is left.
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}

/// A state that can be written and read back.
pub trait Words: Copy + Debug + Default + PartialEq {
    /// Writes the whole state.
    fn write(&self, to: &mut Writer);
    /// Reads what [`Words::write`] wrote.
    fn read(from: &mut Reader<'_>) -> Option<Self>;
    /// Returns a time of the home's clock not after the latest charge, and close to it where the state holds that time.
    /// A clock that never goes back reads at least this time.
    fn latest(&self) -> Timestamp;
    /// Returns the time of the newest entry of its log; zero if it has no log.
    fn newest(&self) -> u64 {
        0
    }
    /// Returns the units that its log has counted; zero if it has no log.
    fn total(&self) -> u64 {
        0
    }
}

impl Words for Window {
    fn write(&self, to: &mut Writer) {
        to.put(self.start.get());
        to.put(self.used);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { start: from.moment()?, used: from.at_most(EXACT)? })
    }

    fn latest(&self) -> Timestamp {
        self.start
    }
}

impl Words for LogState {
    fn write(&self, to: &mut Writer) {
        self.parts().into_iter().for_each(|word| to.put(word));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        // A caller that supplies its own time and sets it back can push the log's clock beyond any valid time.
        let (total, newest) = (from.take()?, Timestamp::from_word(from.take()?));
        Some(Self::from_parts(total, newest, Micros::new(from.take()?)))
    }

    fn latest(&self) -> Timestamp {
        let [_, newest, skew] = self.parts();
        Timestamp::saturating(newest.saturating_sub(skew))
    }

    fn newest(&self) -> u64 {
        self.parts()[1]
    }

    fn total(&self) -> u64 {
        self.parts()[0]
    }
}

/// The entries of a log; `()` for a state without one.
pub trait Log: Clone + Debug + Default + PartialEq {
    /// Whether this is a log, which can have entries.
    const IS_LOG: bool = false;

    /// Returns the bytes of heap memory.
    fn bytes(&self) -> usize {
        0
    }
    /// Returns the bytes that the next entry may take.
    fn growth(&self) -> usize {
        0
    }
    /// Writes the entries.
    fn write(&self, state: &impl Words, to: &mut Writer) {
        let _ = (state, to);
    }
    /// Reads what [`Log::write`] wrote.
    fn read(from: &mut Reader<'_>, state: &impl Words) -> Option<Self> {
        let _ = (from, state);
        Some(Self::default())
    }
    /// See [`crate::Cell::thin`].
    fn thin(&mut self, state: &impl Words) {
        let _ = state;
    }
}

impl Log for () {}

impl<E: Entry> Log for Ring<E> {
    const IS_LOG: bool = true;

    fn bytes(&self) -> usize {
        Ring::bytes(self)
    }

    fn growth(&self) -> usize {
        Ring::growth(self)
    }

    fn write(&self, state: &impl Words, to: &mut Writer) {
        to.put(self.len() as u64);
        for index in 0..self.len() {
            let entry = self.get(index);
            to.put(entry.at(state.newest()));
            to.put(entry.before());
        }
    }

    fn read(from: &mut Reader<'_>, state: &impl Words) -> Option<Self> {
        let len = usize::try_from(from.take()?).ok()?;
        let mut ring = Self::default();
        let (mut latest, mut left) = (None, EXACT);
        for _ in 0..len {
            let (at, before) = (from.take()?, from.at_most(E::MASK)?);
            let (entry, held) = (E::pack(at, before), state.total().wrapping_sub(before) & E::MASK);
            // Times increase, what is left does not, and an entry must not be too far from the newest to be
            // reconstructed. Other entries were not written by this code.
            if latest.is_some_and(|latest| latest >= at) || held > left || entry.at(state.newest()) != at {
                return None;
            }
            (latest, left) = (Some(at), held);
            ring.push(entry, len);
        }
        // The newest entry holds units, and an empty log has a total of zero.
        let ends = if ring.is_empty() { state.total() == 0 } else { left > 0 };
        ends.then_some(ring)
    }

    fn thin(&mut self, state: &impl Words) {
        if !self.is_full() || self.len() < SHORT {
            return;
        }
        let pairs = self.len().min(THINNED_AT_ONCE) / 2;
        let start = self.len() - 2 * pairs;
        for pair in 0..pairs {
            let (early, late) = (self.get(start + 2 * pair), self.get(start + 2 * pair + 1));
            self.set(start + pair, E::pack(late.at(state.newest()), early.before()));
        }
        for _ in 0..pairs {
            self.drop_back();
        }
    }
}
