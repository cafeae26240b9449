//! A key taken out of its place: its slot locked and its cells in hand, to be changed and put back. For what is done
//! under the lock of a shard.
//!
//! Everything that keeping a change takes is reserved before the change is made. So a key is never decided on a
//! state that cannot be kept: where there is no memory, nothing is charged, and the caller goes to a shared bucket
//! or refuses.

use std::sync::Arc;

use tollgate_core::{Cell, KeyState, Limit, MAX_OTHER_LIMITS, Timestamp};

use crate::budget::Budget;
use crate::record::{self, Mirror, Record};
use crate::shard::{Inner, Shard};
use crate::shared::Shared;
use crate::slot::{Form, Locked};
use crate::space::{Space, is_aligned};

/// The time as it matters to what is kept. Limits that begin by the machine's clock are decided by that one and others by
/// the steady one, and a key may remember both kinds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// From when on the key is kept for as long as it matters.
    pub(crate) filed: Timestamp,
    pub(crate) now: Timestamp,
    pub(crate) wall: Timestamp,
}

impl Moment {
    /// A time that was, by whichever clock.
    pub(crate) const fn at(t: Timestamp) -> Self {
        Self { filed: t, now: t, wall: t }
    }

    /// A time that was by one of the clocks. What it was by the other is not known, so nothing has expired by that.
    pub(crate) fn by_one_clock(t: Timestamp, is_wall: bool) -> Self {
        let other = Timestamp::default();
        if is_wall { Self { filed: t, now: other, wall: t } } else { Self { filed: t, now: t, wall: other } }
    }

    /// Whether a cell still matters. A limit that begins by the machine's clock may have been charged by either.
    pub(crate) fn remembers(&self, limit: &Limit, cell: &Cell) -> bool {
        limit.remembers(cell, self.now) || is_aligned(limit) && limit.remembers(cell, self.wall)
    }
}

/// A key in hand. To be put back, or its record is lost.
pub(crate) struct Held<'a> {
    shard: &'a Shard,
    budget: &'a Budget,
    locked: Locked<'a>,
    /// Who the key is, for a slot that is to be filled; nothing if it has the slot already.
    new: Option<(u64, u32)>,
    /// The space whose policy its own cells are of.
    space: &'a Space,
    record: Record,
    /// The number of its record, if it has one or one is reserved for it.
    index: Option<usize>,
    had_record: bool,
    /// Bytes taken for what it will keep, beyond those that are counted.
    reserved: usize,
    shares: bool,
    /// Whether a limit finds only what was charged under the same numbers: see [`Held::of_many`].
    is_exact: bool,
}

impl<'a> Held<'a> {
    /// The key of a slot.
    pub(crate) fn known(shared: &'a Shared, shard: &'a Shard, budget: &'a Budget, locked: Locked<'a>) -> Option<Self> {
        let seen = locked.seen;
        let space = shared.names.space_of(&seen)?;
        let (record, index) = if seen.boxed() {
            let index = Mirror::unpack(seen.words).record;
            (std::mem::take(&mut *shard.record(index)?), Some(index))
        } else if seen.is_fresh() {
            (Record::default(), None)
        } else {
            (Record::of(vec![space.own.limits().first()?.unpack(seen.words)]), None)
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

    /// A key that is new, in a free slot.
    pub(crate) fn new(
        shard: &'a Shard,
        budget: &'a Budget,
        place: Locked<'a>,
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

    /// The same as a bucket of many keys. If callers choose their limits, each has its own cell for its numbers: under
    /// others of the same period one caller could pay back what another used.
    pub(crate) fn of_many(self) -> Self {
        Self { is_exact: self.space.is_callers, ..self }
    }

    /// Whether part of what the key used may be in the bucket it shares.
    pub(crate) fn may_share(&self) -> bool {
        self.shares || self.new.is_some()
    }

    /// Whether the key is new.
    pub(crate) fn is_new(&self) -> bool {
        self.new.is_some()
    }

    /// Where the cell of each limit is; nothing for those that the key does not remember.
    pub(crate) fn places(&self, limits: &[Arc<Limit>]) -> Vec<Option<usize>> {
        let find =
            |limit: &Arc<Limit>| self.record.each(&self.space.own).position(|found| finds(limit, found, self.is_exact));
        limits.iter().map(find).collect()
    }

    /// A copy of the cell that a limit finds; if only under other numbers, what was consumed under them.
    pub(crate) fn copy(&self, limit: &Limit) -> Option<Cell> {
        let find = |is_exact| self.record.each(&self.space.own).find(|found| finds(limit, *found, is_exact));
        find(true).or_else(|| find(false)).map(|(_, cell)| cell.clone())
    }

    /// How many cells a limit finds that still matter, under whatever numbers.
    pub(crate) fn cells_of(&self, limit: &Limit, at: Moment) -> usize {
        let found = self.record.each(&self.space.own).filter(|found| finds(limit, *found, false));
        found.filter(|(held, cell)| at.remembers(held, cell)).count()
    }

    /// All that is remembered, copied.
    pub(crate) fn state(&self) -> KeyState {
        self.record.state(&self.space.own)
    }

    /// Forgets what has expired of a key that remembers many limits.
    fn forget_expired(&mut self, at: Moment) {
        if self.had_record && !self.record.is_own() {
            let mut state = self.record.take_state(&self.space.own);
            state.retain(|limit, cell| at.remembers(limit, cell));
            self.record.put_mixed(state);
        }
    }

    /// Whether the key can remember these limits beside what it has: callers choose texts, and a key does not
    /// remember more of them than [`MAX_OTHER_LIMITS`].
    pub(crate) fn has_place_for(&mut self, limits: &[Arc<Limit>], at: Moment) -> bool {
        self.forget_expired(at);
        self.others(limits, at) <= MAX_OTHER_LIMITS
    }

    /// How many cells it has that are of none of these limits and still matter.
    fn others(&self, limits: &[Arc<Limit>], at: Moment) -> usize {
        others(self.record.each(&self.space.own), limits, self.is_exact, at).count()
    }

    /// The limit that a cell in two words is charged under, if it is charged and the numbers are others than it is packed
    /// by: to stay there it needs a policy of its name that packs it.
    pub(crate) fn repacked<'l>(&self, limits: &'l [Arc<Limit>], places: &[Option<usize>]) -> Option<&'l Arc<Limit>> {
        let (limit, _) = limits.iter().zip(places).find(|(_, place)| place.is_some())?;
        (!self.had_record && self.space.own.limits().first() != Some(limit)).then_some(limit)
    }

    /// Reserves what keeping the cells of `limits` takes after a charge: those of `places`, and the others as they are
    /// in `new`. `own` is the space of a policy that has just these limits. Returns whether there is room; if not,
    /// nothing is reserved.
    pub(crate) fn reserve_all(
        &mut self,
        inner: &mut Inner,
        (limits, own): (&[Arc<Limit>], Option<&Space>),
        places: &[Option<usize>],
        new: &[Option<Cell>],
        at: Moment,
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
        // What has a place already can stay there as it is.
        let is_needed = new.iter().any(Option::is_some) || self.repacked(limits, places).is_some();
        let is_taken = if is_needed { self.budget.take(bytes) } else { self.budget.take_usual(bytes) };
        is_taken && self.take_record(inner, bytes)
    }

    /// Reserves what charging the cells of `places` takes where they are, or thins their logs so that it takes nothing.
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

    /// Takes memory for `bytes` more, and a record if it has none.
    fn take(&mut self, inner: &mut Inner, bytes: usize) -> bool {
        self.budget.take(bytes) && self.take_record(inner, bytes)
    }

    /// Takes a record if it has none, for which `bytes` were taken: they are given back if there is none.
    fn take_record(&mut self, inner: &mut Inner, bytes: usize) -> bool {
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

    /// Takes out the cell at a place.
    pub(crate) fn lend(&mut self, place: usize) -> Option<Cell> {
        self.record.lend(&self.space.own, place)
    }

    /// Puts a cell back into its place.
    pub(crate) fn give(&mut self, place: usize, cell: Cell) {
        self.record.give(place, None, cell);
    }

    /// From now on part of what the key uses is in the bucket it shares.
    pub(crate) fn share(&mut self) {
        self.shares = true;
    }

    /// Puts the key back after it was looked at and nothing else.
    pub(crate) fn leave_untouched(self) {
        if let Some(mut place) = self.index.and_then(|index| self.shard.record(index)) {
            *place = self.record;
        }
    }

    /// Puts the key back after nothing was charged: at most a clock was corrected.
    pub(crate) fn leave(self, inner: &mut Inner, at: Moment) {
        self.put_back(inner, at, None);
    }

    /// Puts the key back, all its cells being where they were: nothing was charged, or there was memory for nothing
    /// else. `alone` is the space that packs a cell which was charged under other numbers. Returns whether the key could be
    /// kept so; if not, it is as it was.
    pub(crate) fn put_back(mut self, inner: &mut Inner, at: Moment, alone: Option<&'a Space>) -> bool {
        if self.new.is_some() {
            self.release(inner);
            self.shard.unplace(self.locked);
            return true;
        }
        let form = Form { shares: self.shares, ..self.locked.seen.form() };
        if self.had_record {
            self.file(form, at);
            return true;
        }
        self.release(inner);
        let space = alone.unwrap_or(self.space);
        let Some(cell) = self.record.own_cells().first() else {
            if form != self.locked.seen.form() {
                let words = self.locked.seen.words;
                self.locked.put_as(form, words);
            }
            return true;
        };
        let Some(words) = space.own.limits().first().and_then(|limit| limit.pack(cell)) else { return false };
        let form = Form { rank: space.rank, ..form };
        if words != self.locked.seen.words || form != self.locked.seen.form() {
            self.locked.put_as(form, words);
        }
        true
    }

    /// Puts the key back with all cells of the limits it was charged under, for which room was reserved. Returns whether
    /// that could be kept; if not, the key is as it was.
    pub(crate) fn put_all(
        mut self,
        inner: &mut Inner,
        (limits, own): (&[Arc<Limit>], Option<&'a Space>),
        places: &[Option<usize>],
        cells: Vec<Cell>,
        at: Moment,
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
            Some(space) => self.put_own(inner, space, state.into_cells(limits), at),
            None => {
                // What lives by several clocks is forgotten by the one that is not set back or ahead.
                self.space = own.filter(|own| self.space.wall && !own.wall).unwrap_or(self.space);
                self.put_mixed(inner, state, at)
            }
        }
    }

    /// Keeps the cells of a space's own policy, in two words if they fit.
    fn put_own(mut self, inner: &mut Inner, space: &'a Space, cells: Vec<Cell>, at: Moment) -> bool {
        self.space = space;
        let form = Form { rank: space.rank, boxed: true, shares: self.shares };
        let cell = cells.first().filter(|_| space.packs);
        if let Some(words) = cell.and_then(|cell| space.own.limits().first()?.pack(cell)) {
            self.drop_record(inner);
            self.fill(Form { boxed: false, ..form }, words);
            return true;
        }
        if self.index.is_none() && !self.take(inner, record::own_record_bytes(cells.iter())) {
            return self.undo(inner);
        }
        self.record.put_own(cells);
        self.file(form, at);
        true
    }

    /// Keeps cells with their limits.
    fn put_mixed(mut self, inner: &mut Inner, mut state: KeyState, at: Moment) -> bool {
        state.shrink();
        let bytes = record::mixed_record_bytes(state.each(), self.space.is_callers);
        if self.index.is_none() && !self.take(inner, bytes) {
            return self.undo(inner);
        }
        self.record.put_mixed(state);
        let form = Form { rank: self.space.rank, boxed: true, shares: self.shares };
        self.file(form, at);
        true
    }

    /// Puts a state in the place of all that the key remembered; returns whether there was room for it. If not, the key
    /// is as it was. `own` is the space of a policy that has just the limits of the state.
    pub(crate) fn put_state(mut self, inner: &mut Inner, own: Option<&'a Space>, state: KeyState, at: Moment) -> bool {
        let bytes = match own {
            Some(_) => record::own_record_bytes(state.each().map(|(_, cell)| cell).collect::<Vec<_>>().into_iter()),
            None => record::mixed_record_bytes(state.each(), self.space.is_callers),
        };
        if !own.is_some_and(|space| space.packs) && !self.take(inner, bytes.saturating_sub(self.record.counted)) {
            return self.undo(inner);
        }
        drop(self.record.take_state(&self.space.own));
        match own {
            Some(space) => self.put_own(inner, space, state.into_cells(space.own.limits()), at),
            None => self.put_mixed(inner, state, at),
        }
    }

    /// Forgets the key.
    pub(crate) fn forget(mut self, inner: &mut Inner) {
        if self.new.is_some() {
            self.release(inner);
            self.shard.unplace(self.locked);
            return;
        }
        self.drop_record(inner);
        self.shard.clear(self.locked);
    }

    /// Leaves the key as it was.
    fn undo(mut self, inner: &mut Inner) -> bool {
        self.release(inner);
        if self.new.is_some() {
            self.shard.unplace(self.locked);
        } else if let Some(mut place) = self.index.and_then(|index| self.shard.record(index)) {
            // Only states that are replaced as a whole come here with a record, and theirs is still to be had.
            *place = self.record;
        }
        false
    }

    /// Keeps the record and lets the slot tell of it.
    fn file(mut self, form: Form, at: Moment) {
        let Some(index) = self.index else { return };
        let expires = at.filed.plus(self.record.expires_after(&self.space.own, at.filed));
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
    fn fill(self, form: Form, words: [u64; 2]) {
        match self.new {
            Some((print, mark)) => self.locked.fill(print, mark, form, words),
            None => self.locked.put_as(form, words),
        }
    }

    /// Gives back what was reserved and is not used.
    fn release(&mut self, inner: &mut Inner) {
        self.budget.give_back(std::mem::take(&mut self.reserved));
        if !self.had_record
            && let Some(index) = self.index.take()
        {
            self.shard.unkeep(inner, index, self.budget);
        }
    }

    /// Gives back its record too, whose cells are nowhere any more.
    fn drop_record(&mut self, inner: &mut Inner) {
        self.release(inner);
        if let Some(index) = self.index.take() {
            self.budget.give_back(std::mem::take(&mut self.record).counted);
            self.shard.unkeep(inner, index, self.budget);
        }
    }
}

/// The cells that are of none of these limits and still matter.
fn others<'a>(
    cells: impl Iterator<Item = (&'a Arc<Limit>, &'a Cell)>,
    limits: &'a [Arc<Limit>],
    is_exact: bool,
    at: Moment,
) -> impl Iterator<Item = (&'a Arc<Limit>, &'a Cell)> {
    let is_asked = move |found| limits.iter().any(|own| finds(own, found, is_exact));
    cells.filter(move |(limit, cell)| !is_asked((limit, cell)) && at.remembers(limit, cell))
}

/// Whether a limit finds a cell that was charged under another, or under the same numbers if `is_exact`.
fn finds(limit: &Limit, (held, cell): (&Arc<Limit>, &Cell), is_exact: bool) -> bool {
    limit.finds(held, cell) && (!is_exact || *limit == **held)
}
