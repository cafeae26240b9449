//! A key taken out of its place: its slot is locked and its cells are held, to be changed and put back. For operations
//! under the lock of a shard.
//!
//! All memory that is needed to keep a change is reserved before the change is made, so a key is never decided on a
//! state that cannot be kept: without memory nothing is charged, and the caller uses a shared bucket or refuses.

use std::sync::Arc;

use tollgate_kernel::{Cell, Clock, KeyState, Limit, MAX_OTHER_LIMITS, Timestamp};

use crate::budget::Budget;
use crate::clock::MemoryClock;
use crate::record::{self, Mirror, Record};
use crate::shard::{Shard, ShardState};
use crate::shared::MemoryCore;
use crate::slot::{LockedSlot, SlotForm};
use crate::space::{Space, is_aligned};

/// The time by both clocks. Limits that are aligned to the machine's clock are decided by that clock and others by the
/// steady one, and a key may have both kinds.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    /// The time from which the expiry of the key is computed.
    pub(crate) expiry_base: Timestamp,
    pub(crate) now: Timestamp,
    pub(crate) wall: WallTime<'a>,
}

/// The time by the machine's clock. It is read only where an aligned limit is judged by it: most keys have none, and
/// reading that clock is a tenth of the work for a new key.
#[derive(Clone, Copy)]
pub(crate) enum WallTime<'a> {
    At(Timestamp),
    Unread(&'a MemoryClock),
}

impl WallTime<'_> {
    fn read(self) -> Timestamp {
        match self {
            Self::At(t) => t,
            Self::Unread(clock) => clock.wall(),
        }
    }
}

impl Moment<'_> {
    /// Creates a moment in the past at which both clocks show `t`.
    pub(crate) const fn at(t: Timestamp) -> Self {
        Self { expiry_base: t, now: t, wall: WallTime::At(t) }
    }

    /// Creates a moment in the past by one of the clocks. The time by the other clock is not known, so nothing counts
    /// as expired by that clock.
    pub(crate) fn by_one_clock(t: Timestamp, is_wall: bool) -> Self {
        let other = Timestamp::default();
        let (now, wall) = if is_wall { (other, t) } else { (t, other) };
        Self { expiry_base: t, now, wall: WallTime::At(wall) }
    }

    /// Returns whether a cell still matters. A limit that is aligned to the machine's clock may have been charged by
    /// either clock.
    pub(crate) fn remembers(&self, limit: &Limit, cell: &Cell) -> bool {
        limit.remembers(cell, self.now) || is_aligned(limit) && limit.remembers(cell, self.wall.read())
    }
}

/// A key that is held. It must be put back, or its record is lost.
pub(crate) struct HeldKey<'a> {
    shard: &'a Shard,
    budget: &'a Budget,
    locked: LockedSlot<'a>,
    /// The identity of the key if the slot is yet to be filled; `None` if the key already has the slot.
    new: Option<(u64, u32)>,
    /// The space whose policy the key's own cells belong to.
    space: &'a Space,
    record: Record,
    /// The number of the key's record, if it has one or one is reserved for it.
    index: Option<usize>,
    had_record: bool,
    /// The number of bytes reserved for what the key will keep, beyond those that are counted.
    reserved: usize,
    shares: bool,
    /// Whether a limit finds only cells charged under the same numbers: see [`HeldKey::of_many`].
    is_exact: bool,
}

impl<'a> HeldKey<'a> {
    /// Takes out the key of a slot.
    #[inline]
    pub(crate) fn known(
        shared: &'a MemoryCore,
        shard: &'a Shard,
        budget: &'a Budget,
        locked: LockedSlot<'a>,
    ) -> Option<Self> {
        let seen = locked.seen;
        let space = shared.names.space_of(&seen)?;
        let (record, index) = if seen.boxed() {
            let index = Mirror::unpack(seen.words).record;
            (std::mem::take(&mut *shard.record(index)?), Some(index))
        } else if seen.is_fresh() {
            (Record::default(), None)
        } else {
            (Record::of([space.own.limits().first()?.unpack(seen.words)]), None)
        };
        let had_record = index.is_some();
        Some(Self {
            shard,
            budget,
            locked,
            new: None,
            space,
            record,
            index,
            had_record,
            reserved: 0,
            shares: seen.shares(),
            is_exact: false,
        })
    }

    /// Creates a new key in a free slot.
    pub(crate) fn new(
        shard: &'a Shard,
        budget: &'a Budget,
        place: LockedSlot<'a>,
        (print, mark): (u64, u32),
        space: &'a Space,
    ) -> Self {
        Self {
            shard,
            budget,
            locked: place,
            new: Some((print, mark)),
            space,
            record: Record::default(),
            index: None,
            had_record: false,
            reserved: 0,
            shares: false,
            is_exact: false,
        }
    }

    /// Marks the key as a bucket of many keys. If callers choose its limits, each set of numbers has its own cell:
    /// otherwise one caller, with other numbers of the same period, could pay back what another used.
    pub(crate) fn of_many(self) -> Self {
        Self { is_exact: self.space.is_callers, ..self }
    }

    /// Returns whether part of the key's consumption may be in the bucket that it shares.
    pub(crate) fn may_share(&self) -> bool {
        self.shares || self.new.is_some()
    }

    /// Returns whether the key is new.
    pub(crate) fn is_new(&self) -> bool {
        self.new.is_some()
    }

    /// Returns whether the key has exactly the cells of a space's own policy, and there is memory for charging them if
    /// `may_charge` is set. They are then in its record, see [`HeldKey::own_cells`]. A key without cells gets them in
    /// their initial state if `may_begin` is set.
    pub(crate) fn hold_own(
        &mut self,
        inner: &mut ShardState,
        space: &Space,
        (may_begin, may_charge): (bool, bool),
    ) -> bool {
        let begins = self.record.is_free();
        if begins {
            if !may_begin || self.had_record {
                return false;
            }
            self.record.put_own(space.own.limits().iter().map(|limit| limit.fresh()));
        } else if !self.record.is_own() || self.space.rank != space.rank {
            return false;
        }
        // A record does not grow when nothing is charged.
        let needs_nothing = if self.had_record { !may_charge } else { space.packs };
        if needs_nothing {
            return true;
        }
        let bytes = self.record.bytes(space.is_callers) + self.record.growth();
        let bytes = bytes.saturating_sub(self.record.counted);
        let is_taken = if begins { self.budget.take(bytes) } else { self.budget.take_usual(bytes) };
        let is_kept = is_taken && self.take_record(inner, bytes);
        if begins && !is_kept {
            self.record = Record::default();
        }
        is_kept
    }

    /// Returns the cells of the own policy of its space, see [`HeldKey::hold_own`].
    pub(crate) fn own_cells(&mut self) -> &mut [Cell] {
        self.record.own_cells()
    }

    /// Returns the position of each limit's cell; `None` for limits without a cell.
    pub(crate) fn places(&self, limits: &[Arc<Limit>]) -> Vec<Option<usize>> {
        let find =
            |limit: &Arc<Limit>| self.record.each(&self.space.own).position(|found| finds(limit, found, self.is_exact));
        limits.iter().map(find).collect()
    }

    /// Returns a copy of the cell that a limit finds; if only under other numbers, what was consumed under them.
    pub(crate) fn copy(&self, limit: &Limit) -> Option<Cell> {
        let find = |is_exact| self.record.each(&self.space.own).find(|found| finds(limit, *found, is_exact));
        find(true).or_else(|| find(false)).map(|(_, cell)| cell.clone())
    }

    /// Returns the number of cells that a limit finds under any numbers and that still matter.
    pub(crate) fn cells_of(&self, limit: &Limit, at: Moment<'_>) -> usize {
        let found = self.record.each(&self.space.own).filter(|found| finds(limit, *found, false));
        found.filter(|(held, cell)| at.remembers(held, cell)).count()
    }

    /// Returns a copy of the whole state.
    pub(crate) fn state(&self) -> KeyState {
        self.record.state(&self.space.own)
    }

    /// Removes the expired cells of a key with a state of many limits.
    fn forget_expired(&mut self, at: Moment<'_>) {
        if self.had_record && !self.record.is_own() {
            let mut state = self.record.take_state(&self.space.own);
            state.retain(|limit, cell| at.remembers(limit, cell));
            self.record.put_mixed(state);
        }
    }

    /// Returns whether the key can keep these limits in addition to its other cells. Callers choose texts, so a key
    /// keeps at most [`MAX_OTHER_LIMITS`] others.
    pub(crate) fn has_place_for(&mut self, limits: &[Arc<Limit>], at: Moment<'_>) -> bool {
        self.forget_expired(at);
        self.others(limits, at) <= MAX_OTHER_LIMITS
    }

    /// Returns the number of cells that belong to none of these limits and still matter.
    fn others(&self, limits: &[Arc<Limit>], at: Moment<'_>) -> usize {
        others(self.record.each(&self.space.own), limits, self.is_exact, at).count()
    }

    /// Returns the limit under which a cell in two words is charged, if its numbers differ from those it is packed by.
    /// To stay in two words, the cell needs a policy of its name that packs it.
    pub(crate) fn repacked<'l>(&self, limits: &'l [Arc<Limit>], places: &[Option<usize>]) -> Option<&'l Arc<Limit>> {
        let (limit, _) = limits.iter().zip(places).find(|(_, place)| place.is_some())?;
        (!self.had_record && self.space.own.limits().first() != Some(limit)).then_some(limit)
    }

    /// Reserves the memory to keep the cells of `limits` after a charge: those at `places`, and the others as in `new`.
    /// `own` is the space of a policy with exactly these limits. Returns whether there is enough memory; if not,
    /// nothing is reserved.
    pub(crate) fn reserve_all(
        &mut self,
        inner: &mut ShardState,
        (limits, own): (&[Arc<Limit>], Option<&Space>),
        places: &[Option<usize>],
        new: &[Option<Cell>],
        at: Moment<'_>,
    ) -> bool {
        let others = self.others(limits, at);
        let becomes_own = own.filter(|_| others == 0);
        if becomes_own.is_some_and(|space| space.packs) && !self.had_record {
            return true;
        }
        let filed = &self.space.own;
        let kept = places.iter().flatten().filter_map(|place| self.record.each(filed).nth(*place));
        let kept: Vec<&Cell> = kept.map(|(_, cell)| cell).chain(new.iter().flatten()).collect();
        let growth: usize = kept.iter().map(|cell| record::growth(cell)).sum();
        let bytes = if becomes_own.is_some() {
            record::own_record_bytes(kept.into_iter())
        } else {
            let new = limits.iter().zip(new).filter_map(|(limit, cell)| Some((limit, cell.as_ref()?)));
            record::mixed_record_bytes(self.record.each(filed).chain(new), self.space.is_callers)
        };
        let bytes = (bytes + growth).saturating_sub(self.record.counted);
        // A cell that has a place already can stay there as it is.
        let is_needed = new.iter().any(Option::is_some) || self.repacked(limits, places).is_some();
        let is_taken = if is_needed { self.budget.take(bytes) } else { self.budget.take_usual(bytes) };
        is_taken && self.take_record(inner, bytes)
    }

    /// Reserves the memory for charging the cells at `places` where they are, or thins their logs so that none is
    /// needed.
    pub(crate) fn reserve_growth(&mut self, places: &[Option<usize>]) {
        if !self.had_record {
            return;
        }
        let kept = places.iter().flatten().filter_map(|place| self.record.each(&self.space.own).nth(*place));
        let growth = kept.map(|(_, cell)| record::growth(cell)).sum();
        if self.budget.take_usual(growth) {
            self.reserved += growth;
        } else {
            self.record.thin();
        }
    }

    /// Reserves `bytes` more, and a record if the key has none.
    fn take(&mut self, inner: &mut ShardState, bytes: usize) -> bool {
        self.budget.take(bytes) && self.take_record(inner, bytes)
    }

    /// Reserves a record if the key has none, after `bytes` were taken for it; returns the bytes if there is no record.
    fn take_record(&mut self, inner: &mut ShardState, bytes: usize) -> bool {
        if self.index.is_none() {
            self.index = self.shard.reserve_record(inner, self.budget);
        }
        if self.index.is_none() {
            self.budget.give_back(bytes);
            return false;
        }
        self.reserved += bytes;
        true
    }

    /// Takes out the cell at a position.
    pub(crate) fn take_cell(&mut self, place: usize) -> Option<Cell> {
        self.record.take_cell(&self.space.own, place)
    }

    /// Puts a cell back at its position.
    pub(crate) fn put_cell(&mut self, place: usize, cell: Cell) {
        self.record.put_cell(place, None, cell);
    }

    /// Records that part of the key's consumption is in the bucket that it shares from now on.
    pub(crate) fn share(&mut self) {
        self.shares = true;
    }

    /// Puts the key back after it was only read.
    pub(crate) fn leave_untouched(self) {
        if let Some(mut place) = self.index.and_then(|index| self.shard.record(index)) {
            *place = self.record;
        }
    }

    /// Puts the key back after nothing was charged; at most a clock was corrected.
    pub(crate) fn leave(self, inner: &mut ShardState, at: Moment<'_>) {
        self.put_back(inner, at, None);
    }

    /// Puts the key back with all its cells where they were: nothing was charged, or there was no memory for anything
    /// else. `alone` is the space that packs a cell which was charged under other numbers. Returns whether the key
    /// could be kept like this; if not, it is unchanged.
    pub(crate) fn put_back(mut self, inner: &mut ShardState, at: Moment<'_>, alone: Option<&'a Space>) -> bool {
        if self.new.is_some() {
            self.release(inner);
            self.shard.release_place(self.locked);
            return true;
        }
        let form = SlotForm { shares: self.shares, ..self.locked.seen.form() };
        if self.had_record {
            self.store_record(form, at);
            return true;
        }
        self.release(inner);
        let space = alone.unwrap_or(self.space);
        // The initial state of a key is stored when it is charged.
        let is_fresh = self.locked.seen.is_fresh();
        let Some(cell) = self.record.own_cells().first().filter(|_| !is_fresh) else {
            if form != self.locked.seen.form() {
                let words = self.locked.seen.words;
                self.locked.put_as(form, words);
            }
            return true;
        };
        let Some(words) = space.own.limits().first().and_then(|limit| limit.pack(cell)) else { return false };
        let form = SlotForm { rank: space.rank, ..form };
        if words != self.locked.seen.words || form != self.locked.seen.form() {
            self.locked.put_as(form, words);
        }
        true
    }

    /// Puts the key back with all cells of the limits it was charged under, for which memory was reserved. Returns
    /// whether they could be kept; if not, the key is unchanged.
    pub(crate) fn put_all(
        mut self,
        inner: &mut ShardState,
        (limits, own): (&[Arc<Limit>], Option<&'a Space>),
        places: &[Option<usize>],
        cells: Vec<Cell>,
        at: Moment<'_>,
    ) -> bool {
        let mut state = self.record.take_state(&self.space.own);
        for ((limit, place), cell) in limits.iter().zip(places).zip(cells) {
            match place {
                Some(place) => _ = state.replace(*place, Some(limit), cell),
                None => state.keep(Arc::clone(limit), cell),
            }
        }
        let is_alone = others(state.each(), limits, self.is_exact, at).next().is_none();
        if is_alone && self.is_exact {
            state.retain(|limit, _| limits.iter().any(|own| **own == *limit));
        }
        match own.filter(|_| is_alone) {
            Some(space) => {
                self.record.put_own(state.into_cells(limits));
                self.put_own(inner, space, at)
            }
            None => {
                // A state that depends on both clocks expires by the one that cannot be set back or ahead.
                self.space = own.filter(|own| self.space.wall && !own.wall).unwrap_or(self.space);
                self.put_mixed(inner, state, at)
            }
        }
    }

    /// Stores the cells of its record, which are those of a space's own policy, in two words if they fit. Returns
    /// whether they could be kept; if not, the key is unchanged.
    pub(crate) fn put_own(mut self, inner: &mut ShardState, space: &'a Space, at: Moment<'_>) -> bool {
        self.space = space;
        let form = SlotForm { rank: space.rank, boxed: true, shares: self.shares };
        let cell = self.record.own_cells().first().filter(|_| space.packs);
        if let Some(words) = cell.and_then(|cell| space.own.limits().first()?.pack(cell)) {
            self.drop_record(inner);
            self.fill(SlotForm { boxed: false, ..form }, words);
            return true;
        }
        if self.index.is_none() && !self.take(inner, self.record.bytes(space.is_callers)) {
            return self.undo(inner);
        }
        self.store_record(form, at);
        true
    }

    /// Stores cells with their limits.
    fn put_mixed(mut self, inner: &mut ShardState, mut state: KeyState, at: Moment<'_>) -> bool {
        state.shrink();
        let bytes = record::mixed_record_bytes(state.each(), self.space.is_callers);
        if self.index.is_none() && !self.take(inner, bytes) {
            return self.undo(inner);
        }
        self.record.put_mixed(state);
        let form = SlotForm { rank: self.space.rank, boxed: true, shares: self.shares };
        self.store_record(form, at);
        true
    }

    /// Replaces the whole state of the key; returns whether there was enough memory. If not, the key is unchanged.
    /// `own` is the space of a policy with exactly the limits of the state.
    pub(crate) fn put_state(
        mut self,
        inner: &mut ShardState,
        own: Option<&'a Space>,
        state: KeyState,
        at: Moment<'_>,
    ) -> bool {
        let bytes = match own {
            Some(_) => record::own_record_bytes(state.each().map(|(_, cell)| cell).collect::<Vec<_>>().into_iter()),
            None => record::mixed_record_bytes(state.each(), self.space.is_callers),
        };
        if !own.is_some_and(|space| space.packs) && !self.take(inner, bytes.saturating_sub(self.record.counted)) {
            return self.undo(inner);
        }
        drop(self.record.take_state(&self.space.own));
        match own {
            Some(space) => {
                self.record.put_own(state.into_cells(space.own.limits()));
                self.put_own(inner, space, at)
            }
            None => self.put_mixed(inner, state, at),
        }
    }

    /// Forgets the key.
    pub(crate) fn forget(mut self, inner: &mut ShardState) {
        if self.new.is_some() {
            self.release(inner);
            self.shard.release_place(self.locked);
            return;
        }
        self.drop_record(inner);
        self.shard.clear(self.locked);
    }

    /// Leaves the key unchanged.
    fn undo(mut self, inner: &mut ShardState) -> bool {
        self.release(inner);
        if self.new.is_some() {
            self.shard.release_place(self.locked);
        } else if let Some(mut place) = self.index.and_then(|index| self.shard.record(index)) {
            // With a record, only `put_state` gets here, and it has not taken the cells out yet.
            *place = self.record;
        }
        false
    }

    /// Stores the record and makes the slot refer to it.
    #[inline]
    fn store_record(mut self, form: SlotForm, at: Moment<'_>) {
        let Some(index) = self.index else { return };
        let expires = at.expiry_base.plus(self.record.expires_after(&self.space.own, at.expiry_base));
        self.record.count(self.budget, self.reserved, self.space.is_callers);
        if let Some(mut place) = self.shard.record(index) {
            *place = self.record;
        }
        let words = Mirror::of(index, expires).pack();
        match self.new {
            Some((print, mark)) => self.locked.fill(print, mark, form, words),
            None => self.locked.put_as(form, words),
        }
    }

    /// Fills the slot with packed words.
    fn fill(self, form: SlotForm, words: [u64; 2]) {
        match self.new {
            Some((print, mark)) => self.locked.fill(print, mark, form, words),
            None => self.locked.put_as(form, words),
        }
    }

    /// Releases the reserved memory that is not used.
    fn release(&mut self, inner: &mut ShardState) {
        self.budget.give_back(std::mem::take(&mut self.reserved));
        if !self.had_record
            && let Some(index) = self.index.take()
        {
            self.shard.free_record(inner, index, self.budget);
        }
    }

    /// Releases the record too, whose cells are no longer needed.
    fn drop_record(&mut self, inner: &mut ShardState) {
        self.release(inner);
        if let Some(index) = self.index.take() {
            self.budget.give_back(std::mem::take(&mut self.record).counted);
            self.shard.free_record(inner, index, self.budget);
        }
    }
}

/// Returns the cells that belong to none of these limits and still matter.
fn others<'a>(
    cells: impl Iterator<Item = (&'a Arc<Limit>, &'a Cell)>,
    limits: &'a [Arc<Limit>],
    is_exact: bool,
    at: Moment<'_>,
) -> impl Iterator<Item = (&'a Arc<Limit>, &'a Cell)> {
    let is_asked = move |found| limits.iter().any(|own| finds(own, found, is_exact));
    cells.filter(move |(limit, cell)| !is_asked((limit, cell)) && at.remembers(limit, cell))
}

/// Returns whether a limit finds a cell that was charged under another, or under the same numbers if `is_exact` is set.
fn finds(limit: &Limit, (held, cell): (&Arc<Limit>, &Cell), is_exact: bool) -> bool {
    limit.finds(held, cell) && (!is_exact || *limit == **held)
}
