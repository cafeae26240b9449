//! The place of one key: a print, a head and two words, all atomic.
//!
//! The head holds a mark (the rest of the identity), a version that every change increments, the rank of the policy
//! that the key was last charged under, whether the words are a packed state or refer to a record, and a lock bit. A
//! reader loads the head before and after the other words: if it is the same and not locked, nothing changed in
//! between. A writer locks by compare-and-swap against the head that it read, so a decision made from those words is
//! charged only if they are unchanged. A thread that holds a slot waits for nothing, so waiting for a slot is short.
//!
//! ```text
//! head   63     32 31      9 8    3   2      1      0
//!        mark      version   rank   shares boxed  locked
//! ```
//!
//! A version recurs after 2^23 changes. To be mistaken for its earlier state, a slot would have to change exactly that
//! often, or a multiple of it, while one thread is between reading and charging. A change of packed words is a charge,
//! so most limits do not allow that many.

use crate::ident::StoreIdent;
use crate::space::RANK_BITS;
use crate::sync::{AtomicU64, Ordering, fence, relax};

const LOCKED: u64 = 1;
const BOXED: u64 = 2;
/// Set if part of the key's consumption may be in the bucket that it shares.
const SHARES: u64 = 4;
const RANK_SHIFT: u32 = 3;
const VERSION: u64 = 1 << (RANK_SHIFT + RANK_BITS);
const MARK_SHIFT: u32 = 32;

/// The place of a key.
#[derive(Debug)]
pub(crate) struct Slot {
    print: AtomicU64,
    head: AtomicU64,
    words: [AtomicU64; 2],
}

/// The contents of a slot at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotContents {
    head: u64,
    /// Zero if the slot was empty.
    pub(crate) print: u64,
    pub(crate) words: [u64; 2],
}

impl SlotContents {
    pub(crate) fn boxed(&self) -> bool {
        self.head & BOXED != 0
    }

    /// Returns whether part of the key's consumption may be in the bucket that it shares with others: that of limits
    /// for which there was no memory.
    pub(crate) fn shares(&self) -> bool {
        self.head & SHARES != 0
    }

    pub(crate) fn mark(&self) -> u32 {
        (self.head >> MARK_SHIFT) as u32
    }

    /// Returns the rank of the policy that the key was last charged under, and that packed it.
    #[inline]
    pub(crate) fn rank(&self) -> u8 {
        (self.head >> RANK_SHIFT & ((1 << RANK_BITS) - 1)) as u8
    }

    /// Returns whether the key was packed under the policy of this rank. This is one comparison, since every check
    /// needs it.
    #[inline]
    pub(crate) fn is_packed_by(&self, rank: u8) -> bool {
        self.head & (VERSION - 1) & !SHARES == u64::from(rank) << RANK_SHIFT
    }

    /// Returns whether the key has just got its slot. Its initial state is determined under the lock of its shard,
    /// because the key may have shared a bucket before.
    pub(crate) fn is_fresh(&self) -> bool {
        !self.boxed() && self.words == [0, 0]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.print == 0
    }

    pub(crate) fn form(&self) -> SlotForm {
        SlotForm { rank: self.rank(), boxed: self.boxed(), shares: self.shares() }
    }

    /// Returns the identity of the key within its shard.
    pub(crate) fn ident(&self) -> StoreIdent {
        StoreIdent { print: self.print, mark: self.mark(), shard: 0 }
    }

    #[inline]
    pub(crate) fn is(&self, ident: StoreIdent) -> bool {
        self.print == ident.print && self.mark() == ident.mark
    }
}

impl Slot {
    pub(crate) fn empty() -> Self {
        let word = || AtomicU64::new(0);
        Self { print: word(), head: word(), words: [word(), word()] }
    }

    /// Returns whether the key may be here. This is cheap, but has to be verified.
    #[inline]
    pub(crate) fn may_be(&self, ident: StoreIdent) -> bool {
        self.print.load(Ordering::Relaxed) == ident.print
    }

    /// Prefetches the slot; the return value has no meaning.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        self.print.load(Ordering::Relaxed)
    }

    /// Returns the contents of the slot, all from the same moment.
    #[inline]
    pub(crate) fn read(&self) -> SlotContents {
        let mut tries = 0;
        loop {
            let head = self.head.load(Ordering::Acquire);
            if head & LOCKED == 0 {
                let print = self.print.load(Ordering::Relaxed);
                let words = [self.words[0].load(Ordering::Relaxed), self.words[1].load(Ordering::Relaxed)];
                // The loads above must happen before the one below.
                fence(Ordering::Acquire);
                if self.head.load(Ordering::Relaxed) == head {
                    return SlotContents { head, print, words };
                }
            }
            relax(&mut tries);
        }
    }

    /// Locks the slot if it is unchanged since it was seen.
    #[inline]
    pub(crate) fn lock(&self, seen: SlotContents) -> Option<LockedSlot<'_>> {
        let locked = self.head.compare_exchange(seen.head, seen.head | LOCKED, Ordering::Acquire, Ordering::Relaxed);
        locked.ok()?;
        // A thread that sees any of the following stores sees the lock too.
        fence(Ordering::Release);
        Some(LockedSlot { slot: self, seen })
    }

    /// Replaces packed words if the slot is unchanged since it was seen.
    #[inline]
    pub(crate) fn replace(&self, seen: SlotContents, words: [u64; 2]) -> bool {
        let locked = self.lock(seen);
        let replaced = locked.is_some();
        if let Some(locked) = locked {
            locked.put(words);
        }
        replaced
    }
}

/// The meaning of the words of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotForm {
    /// The rank of the policy that packed the key, or that its record belongs to.
    pub(crate) rank: u8,
    /// Whether the words refer to a record.
    pub(crate) boxed: bool,
    /// See [`SlotContents::shares`].
    pub(crate) shares: bool,
}

impl SlotForm {
    fn bits(self) -> u64 {
        let flag = |is: bool, bit| if is { bit } else { 0 };
        u64::from(self.rank) << RANK_SHIFT | flag(self.boxed, BOXED) | flag(self.shares, SHARES)
    }
}

/// A slot that no other thread can change. Dropping it leaves the slot unchanged.
#[derive(Debug)]
pub(crate) struct LockedSlot<'a> {
    slot: &'a Slot,
    pub(crate) seen: SlotContents,
}

impl LockedSlot<'_> {
    /// Changes the words and unlocks the slot.
    #[inline]
    pub(crate) fn put(self, words: [u64; 2]) {
        let seen = self.seen;
        self.finish(seen.print, seen.head, words);
    }

    /// Puts a key into the slot and unlocks it.
    pub(crate) fn fill(self, print: u64, mark: u32, form: SlotForm, words: [u64; 2]) {
        let version = self.seen.head & u64::from(u32::MAX) & !(VERSION - 1);
        let head = u64::from(mark) << MARK_SHIFT | version | form.bits();
        self.finish(print, head, words);
    }

    /// Changes the form and the words of the slot's key and unlocks the slot.
    pub(crate) fn put_as(self, form: SlotForm, words: [u64; 2]) {
        let (print, mark) = (self.seen.print, self.seen.mark());
        self.fill(print, mark, form, words);
    }

    /// Empties the slot and unlocks it.
    pub(crate) fn clear(self) {
        let head = self.seen.head & !(VERSION - 1);
        self.finish(0, head, [0, 0]);
    }

    #[inline]
    fn finish(self, print: u64, head: u64, words: [u64; 2]) {
        let slot = self.slot;
        // Dropping would unlock with the old version.
        std::mem::forget(self);
        slot.print.store(print, Ordering::Relaxed);
        slot.words[0].store(words[0], Ordering::Relaxed);
        slot.words[1].store(words[1], Ordering::Relaxed);
        // The version wraps within its own bits.
        let low = (head as u32 & !(LOCKED as u32)).wrapping_add(VERSION as u32);
        slot.head.store(head >> MARK_SHIFT << MARK_SHIFT | u64::from(low), Ordering::Release);
    }
}

impl Drop for LockedSlot<'_> {
    fn drop(&mut self) {
        self.slot.head.store(self.seen.head, Ordering::Release);
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_version_wraps_without_touching_what_is_beside_it() {
        let slot = Slot::empty();
        slot.head.store(u64::from(u32::MAX) & !LOCKED, Ordering::Relaxed);
        let locked = slot.lock(slot.read()).unwrap();
        locked.fill(5, 0xabcd_ef01, SlotForm { rank: 41, boxed: true, shares: true }, [1, 2]);
        let seen = slot.read();
        assert_eq!((seen.mark(), seen.boxed(), seen.words, seen.print), (0xabcd_ef01, true, [1, 2], 5));
        assert_eq!((seen.rank(), seen.shares(), seen.head as u32 / VERSION as u32), (41, true, 0));
        assert!(slot.replace(seen, [3, 4]));
        assert_eq!((slot.read().rank(), slot.read().head as u32 / VERSION as u32), (41, 1));
        slot.lock(slot.read()).unwrap().clear();
        let seen = slot.read();
        assert_eq!((seen.rank(), seen.boxed(), seen.is_empty()), (0, false, true));
        assert_eq!(seen.head as u32 / VERSION as u32, 2, "an emptied slot has another version");
    }

    #[test]
    fn what_changed_since_it_was_seen_is_not_replaced() {
        let slot = Slot::empty();
        let seen = slot.read();
        assert!(slot.replace(seen, [1, 1]));
        assert!(!slot.replace(seen, [2, 2]), "the version differs");
        assert_eq!(slot.read().words, [1, 1]);
        drop(slot.lock(slot.read()));
        assert!(slot.replace(slot.read(), [3, 3]), "a slot whose lock was dropped is usable");
    }
}
