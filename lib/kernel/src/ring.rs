//! The storage of an event log: entries in order, pushed at the end, dropped from the front.
//!
//! Memory use follows the number of entries. A short ring is one allocation that grows by doubling up to what its limit
//! needs; a long one is a queue of blocks, so that no push copies more than a few kilobytes and no call takes long.
//! This module does not depend on what an entry means: see `log.rs`.

use std::collections::VecDeque;
use std::fmt::Debug;

/// One entry of an event log: when its units were charged, and how many were charged before it.
pub trait Entry: Copy + Default + Debug + PartialEq {
    /// The units are counted modulo this mask plus one.
    const MASK: u64;

    /// Packs an entry.
    fn pack(at: u64, before: u64) -> Self;

    /// Returns the time of the entry, given a time within 2^47 of it.
    fn at(self, near: u64) -> u64;

    /// Returns the units charged before this entry since the log began, modulo the mask.
    fn before(self) -> u64;
}

/// An entry of twelve bytes: 48 bits of time, 48 bits of units. For windows below 2^47 microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NarrowEntry([u32; 3]);

const LOW_48: u64 = (1 << 48) - 1;

impl Entry for NarrowEntry {
    const MASK: u64 = LOW_48;

    fn pack(at: u64, before: u64) -> Self {
        Self([at as u32, ((at >> 32) & 0xffff) as u32 | ((before & 0xffff) << 16) as u32, (before >> 16) as u32])
    }

    fn at(self, near: u64) -> u64 {
        let low = u64::from(self.0[0]) | u64::from(self.0[1] & 0xffff) << 32;
        // Sign-extend the distance from `near`, which may lie on either side.
        let distance = (low.wrapping_sub(near) << 16).cast_signed() >> 16;
        near.wrapping_add_signed(distance)
    }

    fn before(self) -> u64 {
        u64::from(self.0[1] >> 16) | u64::from(self.0[2]) << 16
    }
}

/// An entry of sixteen bytes, for counts up to 2^53, which the dialects of o1.rate-limiter and `rolling` need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WideEntry {
    at: u64,
    before: u64,
}

impl Entry for WideEntry {
    const MASK: u64 = u64::MAX;

    fn pack(at: u64, before: u64) -> Self {
        Self { at, before }
    }

    fn at(self, _near: u64) -> u64 {
        self.at
    }

    fn before(self) -> u64 {
        self.before
    }
}

/// The number of entries for which a ring has room at first.
const FIRST: usize = 4;
/// The number of entries that every ring may have: a store accounts for them in advance for each log, and a shorter log
/// is never thinned.
pub(crate) const SHORT: usize = 8;
/// The number of entries per block of a long ring.
const BLOCK: usize = 1_024;
/// A ring of more entries than this is stored in blocks; the two partly used blocks at its ends then cost at most a
/// quarter.
const MAX_FLAT: usize = 8 * BLOCK;
/// The most blocks freed by one call, so that the first call after a long pause does not take long.
const FREED_AT_ONCE: usize = 64;

/// A queue of entries whose memory use follows their number.
#[derive(Clone)]
pub struct Ring<E> {
    store: RingStorage<E>,
}

#[derive(Clone)]
enum RingStorage<E> {
    Flat(VecDeque<E>),
    // `skip` entries at the front are already dropped; the blocks they fill are freed gradually.
    Blocks { blocks: VecDeque<Box<[E; BLOCK]>>, skip: usize, len: usize },
}

impl<E: Entry> Ring<E> {
    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.store {
            RingStorage::Flat(entries) => entries.len(),
            RingStorage::Blocks { len, .. } => *len,
        }
    }

    /// Returns whether another entry needs more memory.
    pub fn is_full(&self) -> bool {
        match &self.store {
            RingStorage::Flat(entries) => entries.len() == entries.capacity(),
            RingStorage::Blocks { blocks, skip, len } => skip + len == blocks.len() * BLOCK,
        }
    }

    /// Returns whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entry at `index`, the oldest being 0. Past the end it is an empty entry.
    #[inline]
    pub fn get(&self, index: usize) -> E {
        match &self.store {
            RingStorage::Flat(entries) => entries.get(index).copied().unwrap_or_default(),
            RingStorage::Blocks { blocks, skip, .. } => {
                let place = skip + index;
                blocks.get(place / BLOCK).map_or_else(E::default, |block| block[place % BLOCK])
            }
        }
    }

    /// Replaces the entry at `index`, if there is one.
    pub fn set(&mut self, index: usize, entry: E) {
        match &mut self.store {
            RingStorage::Flat(entries) => {
                if let Some(slot) = entries.get_mut(index) {
                    *slot = entry;
                }
            }
            RingStorage::Blocks { blocks, skip, len } => {
                let place = *skip + index;
                if index < *len
                    && let Some(block) = blocks.get_mut(place / BLOCK)
                {
                    block[place % BLOCK] = entry;
                }
            }
        }
    }

    /// Adds an entry at the end. `need` is the most entries that the limit keeps: growth stops there unless the ring
    /// already has that many (a count that was lowered, refused attempts that count).
    pub fn push(&mut self, entry: E, need: usize) {
        if let RingStorage::Flat(entries) = &mut self.store {
            let (len, room) = (entries.len(), entries.capacity());
            if len < room {
                entries.push_back(entry);
                return;
            }
            if len < MAX_FLAT {
                let doubled = if len == 0 { FIRST } else { 2 * len };
                let most = if len < need { need } else { (2 * need).max(len + 1) };
                let most = if len < SHORT { most.min(SHORT) } else { most };
                let grown = doubled.min(most);
                entries.reserve_exact(grown.clamp(len + 1, MAX_FLAT) - len);
                entries.push_back(entry);
                return;
            }
            self.store = in_blocks(entries);
        }
        if let RingStorage::Blocks { blocks, skip, len } = &mut self.store {
            let place = *skip + *len;
            if place == blocks.len() * BLOCK {
                // A dropped block at the front is reused at the end.
                let block = if *skip >= BLOCK {
                    *skip -= BLOCK;
                    blocks.pop_front()
                } else {
                    None
                };
                blocks.push_back(block.unwrap_or_else(|| Box::new([E::default(); BLOCK])));
            }
            let place = *skip + *len;
            if let Some(block) = blocks.get_mut(place / BLOCK) {
                block[place % BLOCK] = entry;
                *len += 1;
            }
        }
    }

    /// Drops the `count` oldest entries and frees memory that is no longer needed.
    pub fn drop_front(&mut self, count: usize) {
        let count = count.min(self.len());
        match &mut self.store {
            RingStorage::Flat(entries) => {
                if count == 1 {
                    entries.pop_front();
                } else {
                    entries.drain(..count);
                }
                if entries.len() < entries.capacity() / 4 && entries.capacity() > 4 * FIRST {
                    entries.shrink_to((2 * entries.len()).max(FIRST));
                }
            }
            RingStorage::Blocks { blocks, skip, len } => {
                *skip += count;
                *len -= count;
                for _ in 0..FREED_AT_ONCE {
                    if *skip < 2 * BLOCK {
                        break;
                    }
                    blocks.pop_front();
                    *skip -= BLOCK;
                }
                if *len <= MAX_FLAT / 4 && blocks.len() <= FREED_AT_ONCE {
                    let entries = (0..*len).map(|index| self.get(index)).collect();
                    self.store = RingStorage::Flat(entries);
                }
            }
        }
    }

    /// Drops the newest entry.
    pub fn drop_back(&mut self) {
        match &mut self.store {
            RingStorage::Flat(entries) => {
                entries.pop_back();
            }
            RingStorage::Blocks { len, .. } => *len = len.saturating_sub(1),
        }
    }

    /// Returns the bytes that the next entry may take: zero while there is room for it.
    #[inline]
    pub fn growth(&self) -> usize {
        match &self.store {
            RingStorage::Flat(entries) if entries.len() < entries.capacity() => 0,
            RingStorage::Flat(entries) if entries.is_empty() => FIRST * size_of::<E>(),
            RingStorage::Flat(entries) if entries.len() < SHORT => (SHORT - entries.len()) * size_of::<E>(),
            RingStorage::Flat(entries) if entries.len() < MAX_FLAT => entries.len() * size_of::<E>(),
            RingStorage::Flat(_) => size_of::<[E; BLOCK]>() + 2 * (MAX_FLAT / BLOCK) * size_of::<usize>(),
            RingStorage::Blocks { blocks, skip, len } if skip + len < blocks.len() * BLOCK || *skip >= BLOCK => 0,
            RingStorage::Blocks { blocks, .. } => size_of::<[E; BLOCK]>() + blocks.len() * size_of::<usize>(),
        }
    }

    /// Returns the bytes of heap memory.
    pub fn bytes(&self) -> usize {
        match &self.store {
            RingStorage::Flat(entries) => entries.capacity() * size_of::<E>(),
            RingStorage::Blocks { blocks, .. } => {
                blocks.len() * size_of::<[E; BLOCK]>() + blocks.capacity() * size_of::<usize>()
            }
        }
    }
}

fn in_blocks<E: Entry>(entries: &VecDeque<E>) -> RingStorage<E> {
    let mut blocks = VecDeque::with_capacity(entries.len().div_ceil(BLOCK) + 1);
    for (index, entry) in entries.iter().enumerate() {
        if index % BLOCK == 0 {
            blocks.push_back(Box::new([E::default(); BLOCK]));
        }
        if let Some(block) = blocks.back_mut() {
            block[index % BLOCK] = *entry;
        }
    }
    RingStorage::Blocks { blocks, skip: 0, len: entries.len() }
}

impl<E> Default for Ring<E> {
    fn default() -> Self {
        Self { store: RingStorage::Flat(VecDeque::new()) }
    }
}

/// Two rings are equal if their entries are equal, however they are stored.
impl<E: Entry> PartialEq for Ring<E> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && (0..self.len()).all(|index| self.get(index) == other.get(index))
    }
}

impl<E: Entry> Debug for Ring<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries((0..self.len()).map(|index| self.get(index))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_entries_keep_48_bits_on_either_side_of_the_reference() {
        let now = 1_790_000_000_123_456;
        for at in [now - (1 << 46), now - 1, now, now + 1, now + (1 << 46)] {
            for before in [0, 1, LOW_48] {
                let entry = NarrowEntry::pack(at, before);
                assert_eq!((entry.at(now), entry.before()), (at, before));
            }
        }
    }

    #[test]
    fn behaves_as_a_plain_queue_at_every_size() {
        let mut model = VecDeque::new();
        let mut ring = Ring::<NarrowEntry>::default();
        let mut next = 0u64;
        // Waves that pass the block size, shrink, empty and refill the ring.
        for (pushes, drops) in [(3, 1), (40, 20), (9_000, 10), (15_000, 22_500), (29_000, 300), (1, 30_000), (700, 700)]
        {
            for _ in 0..pushes {
                model.push_back(next);
                ring.push(NarrowEntry::pack(next, next), 4_000);
                next += 1;
            }
            ring.drop_front(drops);
            model.drain(..drops.min(model.len()));
            assert_eq!(ring.len(), model.len());
            for (index, value) in model.iter().enumerate() {
                assert_eq!(ring.get(index).at(next), *value);
            }
        }
    }

    #[test]
    fn takes_at_most_16_bytes_an_entry_when_full_and_32_while_it_grows() {
        for need in [16usize, 100, 600, 1_000, 8_192, 8_193, 10_000, 100_000] {
            let mut ring = Ring::<NarrowEntry>::default();
            for index in 0..need {
                ring.push(NarrowEntry::pack(index as u64, index as u64), need);
                assert!(index < 8 || ring.bytes() <= 32 * (index + 1), "growing: {index} of {need}");
            }
            // Steady traffic through the whole ring, twice.
            for index in 0..2 * need {
                ring.drop_front(1);
                ring.push(NarrowEntry::pack(index as u64, index as u64), need);
                assert!(ring.bytes() <= 16 * need, "full: {} bytes for {need}", ring.bytes());
            }
        }
    }
}
