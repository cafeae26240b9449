//! A state as integers: what files hold, and what a log gives up when memory is short.
//!
//! Everything is written as words of eight bytes, least significant first. Reading checks what the
//! functions of the algorithms rely on: bytes that no algorithm wrote are refused, never believed.

use std::fmt::Debug;

use crate::log::LogState;
use crate::ring::{Entry, Ring, SHORT};
use crate::units::{EXACT, Micros, Timestamp};
use crate::window::Window;

/// Entries halved at once, so that a long log costs no long call.
const THINNED_AT_ONCE: usize = 1_024;

/// Where words are written.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Writes behind `bytes`.
    pub fn behind(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Writes a word.
    pub fn put(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    /// How many bytes are written.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets what was written; its memory is used again.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The bytes written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Where words are read.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next word, if there is one.
    pub fn take(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    /// The next word, if it is a moment of the kernel's.
    pub fn moment(&mut self) -> Option<Timestamp> {
        Timestamp::new(self.take()?)
    }

    /// The next word, if it is at most `most`.
    pub fn at_most(&mut self, most: u64) -> Option<u64> {
        self.take().filter(|word| *word <= most)
    }

    /// Whether nothing is left.
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}

/// A state that can be written and read back.
pub trait Words: Copy + Debug + Default + PartialEq {
    /// Writes all of it.
    fn write(&self, to: &mut Writer);
    /// Reads what [`Words::write`] wrote.
    fn read(from: &mut Reader<'_>) -> Option<Self>;
    /// A time of the home's clock not after the latest charge, and close to it where the state tells
    /// when that was. A clock that never goes back does not read less.
    fn latest(&self) -> Timestamp;
    /// The time of the newest entry of its log, where it has one.
    fn newest(&self) -> u64 {
        0
    }
    /// The units its log has counted, where it has one.
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
        // A caller that brings its own time and sets it back can push the log's clock beyond any moment.
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

/// The entries of a log, or none.
pub trait Log: Clone + Debug + Default + PartialEq {
    /// Bytes of heap memory.
    fn bytes(&self) -> usize {
        0
    }
    /// Whether there are entries at all.
    fn is_log(&self) -> bool {
        false
    }
    /// The bytes that the next entry may take.
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
    fn bytes(&self) -> usize {
        Ring::bytes(self)
    }

    fn is_log(&self) -> bool {
        true
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
            // Times rise and what is left falls, and an entry too far off to be told from others is none
            // of ours.
            if latest.is_some_and(|latest| latest >= at) || held > left || entry.at(state.newest()) != at {
                return None;
            }
            (latest, left) = (Some(at), held);
            ring.push(entry, len);
        }
        // The newest entry holds something, and an empty log has begun anew.
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
