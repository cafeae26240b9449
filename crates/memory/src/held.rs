//! A key in hand: its slot locked and its cells taken out, to be changed and put back. For what is
//! done under the lock of a shard.

use tollgate_core::{Cell, Timestamp};

use crate::budget::Budget;
use crate::record::{Mirror, Record};
use crate::shard::{AtCap, Inner, Shard};
use crate::shared::{Shared, Target, packed};
use crate::slot::Locked;

/// A key in hand. To be put back, or its record is lost.
pub(crate) struct Held<'a> {
    locked: Locked<'a>,
    pub(crate) record: Record,
    /// The number of its record, if it had one.
    index: Option<usize>,
}

impl<'a> Held<'a> {
    pub(crate) fn take(shard: &Shard, locked: Locked<'a>, target: Target<'_>) -> Self {
        if !locked.seen.boxed() {
            let cell = target.space.own.limits()[0].unpack(locked.seen.words);
            return Self { locked, record: Record::of(vec![cell]), index: None };
        }
        let index = Mirror::unpack(locked.seen.words).record;
        let record = shard.record(index).map(|mut record| std::mem::take(&mut *record));
        Self { locked, record: record.unwrap_or_default(), index: Some(index) }
    }

    pub(crate) fn cells(&mut self, target: Target<'_>, t: Timestamp) -> &mut [Cell] {
        self.record.cells_of(target.policy, &target.space.own, target.is_own, t)
    }

    /// Puts the key back. One that has outgrown its slot gets a record, beyond the cap if need be:
    /// sending it to a shared bucket would forget what it consumed.
    pub(crate) fn put_back(
        mut self,
        shared: &Shared,
        shard: &Shard,
        inner: &mut Inner,
        budget: &Budget,
        target: Target<'_>,
        t: Timestamp,
    ) {
        let own = &target.space.own;
        if let Some(index) = self.index {
            let expires = t.plus(self.record.expires_after(own, t));
            self.record.count(budget, target.space.least);
            if let Some(mut place) = shard.record(index) {
                *place = self.record;
            }
            self.locked.put(Mirror::of(index, expires).pack());
            return;
        }
        if self.record.is_own()
            && let Some(words) = packed(target, self.record.cells_of(own, own, true, t))
        {
            self.locked.put(words);
            return;
        }
        if let Some(words) = shared.keep(shard, inner, budget, target, self.record, t, AtCap::Pass) {
            self.locked.put_boxed(words);
        }
    }

    /// A copy of the policy's cells, leaving the key as it is.
    pub(crate) fn copy_of(shard: &Shard, locked: Locked<'a>, target: Target<'_>, t: Timestamp) -> Vec<Cell> {
        let mut held = Self::take(shard, locked, target);
        let cells = held.cells(target, t).to_vec();
        if let Some(index) = held.index
            && let Some(mut place) = shard.record(index)
        {
            *place = held.record;
        }
        cells
    }
}
