//! A part of the table: buckets of four slots, grown one bucket at a time.
//!
//! A key may be in one of two buckets, chosen by the halves of its print. Bucket numbers follow linear hashing: with n
//! buckets, of which the first few are split already, a half is taken modulo the next power of two, and modulo the one
//! below if that bucket does not exist yet. The table therefore grows by splitting one bucket, moves nothing else, and
//! is never copied.
//!
//! A lookup takes no lock. If it finds nothing, the thread takes the shard's lock and looks again; inserting, moving,
//! splitting and removing happen only under that lock. A thread that holds it may wait for slots, but a thread that
//! holds a slot never waits for a shard's lock.

use std::collections::HashSet;

use crate::budget::Budget;
use crate::ident::StoreIdent;
use crate::record::{MAX_RECORDS, Mirror, Record};
use crate::segments::{SEGMENT, Segments};
use crate::slot::{LockedSlot, Slot, SlotContents};
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, lock, relax};

const SLOTS: usize = 4;
const FIRST_BUCKETS: usize = SEGMENT;
/// The number of keys per hundred slots at which the table grows.
const FULL_PERCENT: usize = 78;
/// The number of keys per hundred slots at which the table is nearly full.
const NEARLY_FULL_PERCENT: usize = 95;
/// The number of buckets swept for expired keys before the table grows, for each new key.
const SWEPT: usize = 2;
/// The maximum number of buckets split for one key: a few if both its buckets are full of keys that cannot move.
const SPLIT_FOR_ONE: usize = 32;

/// The maximum number of buckets searched to make room for one key.
const MAX_SEARCHED: usize = 256;
/// The same once the table cannot grow.
const MAX_SEARCHED_WHEN_STUCK: usize = 8;
/// The same for keys that were in a table of the same size before.
const MAX_SEARCHED_FOR_OLD_KEYS: usize = 4_096;

/// A bucket of two cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct SlotBucket {
    slots: [Slot; SLOTS],
}

impl SlotBucket {
    fn empty() -> Self {
        Self { slots: std::array::from_fn(|_| Slot::empty()) }
    }

    /// Returns the slot that the key may be in, or else `other`.
    #[inline(always)]
    fn may_have<'a>(&'a self, ident: StoreIdent, mut other: Option<&'a Slot>) -> Option<&'a Slot> {
        for slot in &self.slots {
            other = if slot.may_be(ident) { Some(slot) } else { other };
        }
        other
    }

    #[inline(always)]
    fn touch(&self) -> u64 {
        self.slots[0].touch() ^ self.slots[SLOTS / 2].touch()
    }
}

/// The two buckets that a key may be in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketPair<'a> {
    first: &'a SlotBucket,
    second: &'a SlotBucket,
}

impl<'a> BucketPair<'a> {
    /// Prefetches both buckets; the return value has no meaning.
    #[inline(always)]
    pub(crate) fn touch(&self) -> u64 {
        self.first.touch() ^ self.second.touch()
    }

    /// Returns the slot of a key and its contents.
    #[inline(always)]
    pub(crate) fn find(&self, ident: StoreIdent) -> Option<(&'a Slot, SlotContents)> {
        // The position of the slot cannot be predicted, so the code does not branch on it and reads both buckets at
        // once. The processor can then start on the next key while this one is being fetched.
        let found = self.second.may_have(ident, self.first.may_have(ident, None));
        let slot = found?;
        let seen = slot.read();
        if seen.is(ident) { Some((slot, seen)) } else { self.find_with_same_print(ident) }
    }

    /// Returns the same where two keys have the same print, or the key has just moved.
    #[cold]
    fn find_with_same_print(&self, ident: StoreIdent) -> Option<(&'a Slot, SlotContents)> {
        let slots = self.first.slots.iter().chain(&self.second.slots);
        slots.map(|slot| (slot, slot.read())).find(|(_, seen)| seen.is(ident))
    }
}

/// The number of records allocated at once. It is small, because each shard allocates its own, and unused records would
/// soon fill a small cap.
const RECORDS: usize = if crate::sync::MODELLED { 2 } else { 32 };
/// The number of bytes of a record: its place, and an entry in the list of free records.
pub(crate) const RECORD: usize = size_of::<AlignedRecord>() + size_of::<usize>();

/// A record in its place, aligned so that it takes two cache lines, not three.
#[derive(Debug, Default)]
#[repr(align(64))]
struct AlignedRecord(Mutex<Record>);

/// A part of the table with its records.
#[derive(Debug)]
pub(crate) struct Shard {
    /// The number of buckets in use.
    buckets: AtomicUsize,
    table: Segments<SlotBucket>,
    records: Segments<AlignedRecord, RECORDS>,
    keys: AtomicUsize,
    inner: Mutex<ShardState>,
}

/// The state that is protected by the shard's lock.
#[derive(Debug, Default)]
pub(crate) struct ShardState {
    /// Records that were allocated and are not in use.
    free: Vec<usize>,
    made: usize,
    /// The position where the next sweep continues.
    sweep_position: usize,
    /// How far to search for room.
    search: SearchDepth,
}

/// How far to search for room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SearchDepth {
    /// There was no memory for another bucket when one was last needed.
    Short,
    #[default]
    Long,
    /// For keys of a snapshot, which fitted before.
    Longest,
}

/// A predicate that returns whether a key may be forgotten.
pub(crate) type ExpiryTest<'a> = &'a dyn Fn(&SlotContents) -> bool;

impl Shard {
    /// Creates a shard that can use up to about `bytes`.
    pub(crate) fn new(bytes: usize, budget: &Budget) -> Self {
        let buckets = (bytes / size_of::<SlotBucket>()).clamp(FIRST_BUCKETS, 1 << 31);
        let records = (bytes / size_of::<AlignedRecord>()).clamp(1, MAX_RECORDS);
        let table = Segments::new(buckets);
        budget.count_empty(FIRST_BUCKETS * size_of::<SlotBucket>() + size_of::<Self>());
        table.extend(0, SlotBucket::empty);
        Self {
            buckets: AtomicUsize::new(FIRST_BUCKETS),
            table,
            records: Segments::new(records),
            keys: AtomicUsize::new(0),
            inner: Mutex::new(ShardState::default()),
        }
    }

    /// Returns the number of buckets in use.
    pub(crate) fn buckets(&self) -> usize {
        self.buckets.load(Ordering::Relaxed)
    }

    /// Grows a table without keys to the size that it had before, as far as there is memory for it.
    pub(crate) fn grow_to(&self, inner: &mut ShardState, buckets: usize, budget: &Budget) {
        while self.buckets() < buckets && self.split(inner, budget, &|_| false) {}
    }

    /// Returns a locked empty slot for a key that was in a table of this size: the table is filled up before it grows.
    /// Returns `None` if there is neither room nor memory.
    pub(crate) fn place_replayed(
        &self,
        inner: &mut ShardState,
        ident: StoreIdent,
        budget: &Budget,
        expired: ExpiryTest<'_>,
    ) -> Option<LockedSlot<'_>> {
        let before = std::mem::replace(&mut inner.search, SearchDepth::Longest);
        let place = self.find_place(inner, ident, budget, expired);
        inner.search = before;
        place
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ShardState> {
        lock(&self.inner)
    }

    /// Returns the number of keys in the table, including those that may be forgotten.
    pub(crate) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// Returns the slot of a key and its contents. `None` is reliable only under the shard's lock.
    #[inline(always)]
    pub(crate) fn find(&self, ident: StoreIdent) -> Option<(&Slot, SlotContents)> {
        self.pair(ident)?.find(ident)
    }

    /// Returns the two buckets that a key may be in.
    #[inline(always)]
    pub(crate) fn pair(&self, ident: StoreIdent) -> Option<BucketPair<'_>> {
        let [first, second] = bucket_indices(ident.print, self.buckets.load(Ordering::Acquire));
        Some(BucketPair { first: self.table.get(first)?, second: self.table.get(second)? })
    }

    /// Returns a locked empty slot for a key that is not in the table; `None` if there is neither room nor memory.
    pub(crate) fn place(
        &self,
        inner: &mut ShardState,
        ident: StoreIdent,
        budget: &Budget,
        expired: ExpiryTest<'_>,
    ) -> Option<LockedSlot<'_>> {
        self.tidy(inner, budget, expired);
        if self.is_full() {
            self.split(inner, budget, expired);
        }
        self.find_place(inner, ident, budget, expired)
    }

    /// Forgets a few of the keys that may be forgotten, if the table is full.
    pub(crate) fn tidy(&self, inner: &mut ShardState, budget: &Budget, expired: ExpiryTest<'_>) {
        if self.is_full() {
            self.sweep(inner, budget, expired);
        }
    }

    fn find_place(
        &self,
        inner: &mut ShardState,
        ident: StoreIdent,
        budget: &Budget,
        expired: ExpiryTest<'_>,
    ) -> Option<LockedSlot<'_>> {
        for _ in 0..SPLIT_FOR_ONE {
            let indices = bucket_indices(ident.print, self.buckets.load(Ordering::Relaxed));
            let free = indices.into_iter().find_map(|index| self.free_slot(inner, index, budget, expired));
            let free = free.or_else(|| self.make_room(inner, indices, budget, expired));
            if let Some(slot) = free {
                self.keys.fetch_add(1, Ordering::Relaxed);
                return Some(slot);
            }
            if !self.split(inner, budget, expired) {
                return None;
            }
        }
        None
    }

    fn is_full(&self) -> bool {
        self.keys() * 100 >= self.buckets.load(Ordering::Relaxed) * SLOTS * FULL_PERCENT
    }

    /// Returns a slot of the bucket that is empty, or whose key may be forgotten.
    fn free_slot(
        &self,
        inner: &mut ShardState,
        index: usize,
        budget: &Budget,
        expired: ExpiryTest<'_>,
    ) -> Option<LockedSlot<'_>> {
        let slots = &self.table.get(index)?.slots;
        let empty = slots.iter().find(|slot| slot.read().is_empty());
        let slot = empty.or_else(|| slots.iter().find(|slot| self.purge(inner, slot, budget, expired)))?;
        slot.lock(slot.read())
    }

    /// Empties a slot of the buckets by moving keys: one to its other bucket, a key of that bucket to its own other
    /// bucket, and so on until a slot is free. Tries the shortest paths first, and only a limited number of them.
    fn make_room(
        &self,
        inner: &mut ShardState,
        from: [usize; 2],
        budget: &Budget,
        expired: ExpiryTest<'_>,
    ) -> Option<LockedSlot<'_>> {
        let buckets = self.buckets.load(Ordering::Relaxed);
        // The steps searched so far: the bucket, and the step and slot from which it was reached.
        let mut steps: Vec<(usize, usize, usize)> = from.into_iter().map(|index| (index, usize::MAX, 0)).collect();
        // The buckets visited so far; used only for long searches.
        let mut seen_before: HashSet<usize, foldhash::fast::RandomState> = HashSet::default();
        let mut next = 0;
        // In a table that cannot grow, a long search finds little, and a client that sends new keys could impose its
        // cost on others. In one that is nearly full, a search finds nothing.
        let nearly_full = self.keys() * 100 >= buckets * SLOTS * NEARLY_FULL_PERCENT;
        let most = match inner.search {
            SearchDepth::Short if nearly_full => return None,
            SearchDepth::Short => MAX_SEARCHED_WHEN_STUCK,
            SearchDepth::Long => MAX_SEARCHED,
            SearchDepth::Longest => MAX_SEARCHED_FOR_OLD_KEYS,
        };
        while next < steps.len() && steps.len() < most {
            let (index, ..) = steps[next];
            for (place, slot) in self.table.get(index)?.slots.iter().enumerate() {
                let seen = slot.read();
                let [first, second] = bucket_indices(seen.print, buckets);
                let other = if first == index { second } else { first };
                if let Some(target) = self.free_slot(inner, other, budget, expired) {
                    return self.move_keys_along(&steps, next, place, target);
                }
                let is_new = if most > MAX_SEARCHED {
                    seen_before.insert(other)
                } else {
                    steps.iter().all(|(seen, ..)| *seen != other)
                };
                if is_new {
                    steps.push((other, next, place));
                }
            }
            next += 1;
        }
        None
    }

    /// Moves the key of each step's slot to the place of the next one, starting from the end of the path.
    fn move_keys_along<'a>(
        &'a self,
        steps: &[(usize, usize, usize)],
        mut step: usize,
        mut place: usize,
        mut target: LockedSlot<'a>,
    ) -> Option<LockedSlot<'a>> {
        while let Some((index, before, from)) = steps.get(step).copied() {
            let slot = &self.table.get(index)?.slots[place];
            relocate(lock_slot(slot), target);
            target = slot.lock(slot.read())?;
            (step, place) = (before, from);
        }
        Some(target)
    }

    /// Sweeps the next buckets for keys that may be forgotten.
    fn sweep(&self, inner: &mut ShardState, budget: &Budget, expired: ExpiryTest<'_>) {
        for _ in 0..SWEPT {
            inner.sweep_position = (inner.sweep_position + 1) % self.buckets.load(Ordering::Relaxed);
            let Some(bucket) = self.table.get(inner.sweep_position) else { return };
            for slot in &bucket.slots {
                self.purge(inner, slot, budget, expired);
            }
        }
    }

    /// Forgets the slot's key if that is allowed. Returns whether it did.
    fn purge(&self, inner: &mut ShardState, slot: &Slot, budget: &Budget, expired: ExpiryTest<'_>) -> bool {
        let seen = slot.read();
        if seen.is_empty() || !expired(&seen) {
            return false;
        }
        // Another thread may be charging the key right now: then it stays.
        let Some(locked) = slot.lock(seen) else { return false };
        self.forget(inner, locked, budget);
        true
    }

    /// Empties a slot and frees its record.
    pub(crate) fn forget(&self, inner: &mut ShardState, locked: LockedSlot<'_>, budget: &Budget) {
        if locked.seen.boxed() {
            self.free_record(inner, Mirror::unpack(locked.seen.words).record, budget);
        }
        self.clear(locked);
    }

    /// Empties a slot whose key has no record.
    pub(crate) fn clear(&self, locked: LockedSlot<'_>) {
        locked.clear();
        self.keys.fetch_sub(1, Ordering::Relaxed);
    }

    /// Splits the next bucket in two. Returns whether there was memory for it.
    fn split(&self, inner: &mut ShardState, budget: &Budget, expired: ExpiryTest<'_>) -> bool {
        let new = self.buckets.load(Ordering::Relaxed);
        if new >= self.table.most() || new >= u32::MAX as usize {
            return false;
        }
        let missing = self.table.missing(new);
        if missing > 0 {
            if !budget.take_for_table(missing * size_of::<SlotBucket>()) {
                inner.search = SearchDepth::Short;
                return false;
            }
            inner.search = SearchDepth::Long;
            self.table.extend(new, SlotBucket::empty);
        }
        let old = new - (1 << new.ilog2());
        let (Some(from), Some(to)) = (self.table.get(old), self.table.get(new)) else { return false };
        let mut free = to.slots.iter();
        for slot in &from.slots {
            self.purge(inner, slot, budget, expired);
            let locked = lock_slot(slot);
            let stays = locked.seen.is_empty() || bucket_indices(locked.seen.print, new + 1).contains(&old);
            if !stays && let Some(target) = free.next().map(lock_slot) {
                relocate(locked, target);
            }
        }
        self.buckets.store(new + 1, Ordering::Release);
        true
    }

    /// Releases a place that was not filled.
    pub(crate) fn release_place(&self, place: LockedSlot<'_>) {
        drop(place);
        self.keys.fetch_sub(1, Ordering::Relaxed);
    }

    /// Frees a record that no slot refers to.
    pub(crate) fn free_record(&self, inner: &mut ShardState, index: usize, budget: &Budget) {
        if let Some(mut record) = self.record(index) {
            budget.give_back(std::mem::take(&mut *record).counted);
            inner.free.push(index);
        }
    }

    /// Returns the number of a free record; `None` if there is no memory for another one.
    pub(crate) fn reserve_record(&self, inner: &mut ShardState, budget: &Budget) -> Option<usize> {
        if let Some(index) = inner.free.pop() {
            return Some(index);
        }
        let (index, missing) = (inner.made, self.records.missing(inner.made));
        if index >= self.records.most() || missing > 0 && !budget.take_for_records(missing * RECORD) {
            return None;
        }
        if missing > 0 {
            self.records.extend(index, AlignedRecord::default);
        }
        inner.made += 1;
        Some(index)
    }

    /// Returns the record of that number. Only the holder of its slot may use it.
    #[inline]
    pub(crate) fn record(&self, index: usize) -> Option<MutexGuard<'_, Record>> {
        self.records.get(index).map(|kept| lock(&kept.0))
    }

    /// Returns every slot in use. The caller must hold the shard's lock.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        let buckets = self.buckets.load(Ordering::Relaxed);
        (0..buckets).filter_map(|index| self.table.get(index)).flat_map(|bucket| &bucket.slots)
    }
}

/// Returns the indices of the two buckets of a print in a table of `buckets` buckets.
#[inline]
fn bucket_indices(print: u64, buckets: usize) -> [usize; 2] {
    // There is at least one bucket.
    let below = 1 << buckets.ilog2();
    [print as u32, (print >> 32) as u32].map(|half| {
        let index = half as usize & (2 * below - 1);
        if index < buckets { index } else { index & (below - 1) }
    })
}

/// Locks a slot, whatever its contents.
pub(crate) fn lock_slot(slot: &Slot) -> LockedSlot<'_> {
    let mut tries = 0;
    loop {
        if let Some(locked) = slot.lock(slot.read()) {
            return locked;
        }
        relax(&mut tries);
    }
}

/// Moves a key. It is stored in the new place before it is removed from the old one.
fn relocate(from: LockedSlot<'_>, to: LockedSlot<'_>) {
    let seen = from.seen;
    to.fill(seen.print, seen.mark(), seen.form(), seen.words);
    from.clear();
}
