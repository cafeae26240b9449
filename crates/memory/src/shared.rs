//! What all clones of a store share: shards, names, and what is done under the lock of a shard.

use std::cell::OnceCell;
use std::sync::{Arc, OnceLock};

use tollgate_core::{Cell, Clock, Micros, Policy, StoreError, Timestamp};

use crate::budget::Budget;
use crate::clock::Source;
use crate::held::Held;
use crate::ident::{Ident, Secret};
use crate::memory::{LEAST_CAP, MOST_CAP};
use crate::names::Names;
use crate::record::{Mirror, Record};
use crate::shard::{AtCap, Inner, Shard, lock_slot};
use crate::slot::Seen;
use crate::space::{ALL_BUCKETS, Space};
use crate::sync::{AtomicU64, Ordering};

const SHARDS: usize = if crate::sync::MODELLED { 1 } else { 16 };

/// The parts of a store.
pub(crate) struct Shared {
    pub(crate) secret: Secret,
    pub(crate) clock: Source,
    pub(crate) budget: Budget,
    pub(crate) shards: Box<[Shard]>,
    /// The shared buckets of keys that found no room: few, beside the cap, and mostly none.
    pub(crate) overflow: OnceLock<Shard>,
    pub(crate) overflow_budget: Budget,
    pub(crate) overflowed: AtomicU64,
    pub(crate) names: Names,
}

/// What is asked of a key: a policy under its name.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// That of the policy, or of the key once it was found: see [`Shared::target_at`].
    pub(crate) space: &'a Space,
    pub(crate) policy: &'a Policy,
    /// Whether the policy has the limits of the space's own.
    pub(crate) is_own: bool,
}

/// The time, read once for all keys that are looked at.
#[derive(Debug, Default)]
pub(crate) struct Times {
    now: OnceCell<Timestamp>,
    wall: OnceCell<Timestamp>,
}

impl Times {
    /// A time that was, by one of the clocks. What it was by the other is not known, so nothing has expired
    /// by that.
    pub(crate) fn at(t: Timestamp, wall: bool) -> Self {
        let other = OnceCell::from(Timestamp::default());
        if wall { Self { now: other, wall: t.into() } } else { Self { now: t.into(), wall: other } }
    }
}

/// When something is done to a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// As the clock reads.
    Now,
    /// At a time that was.
    At(Timestamp),
}

impl Shared {
    pub(crate) fn new(cap: usize, clock: Source, secret: Secret) -> Self {
        let budget = Budget::new(cap.clamp(LEAST_CAP, MOST_CAP));
        let overflow_budget = Budget::new(usize::MAX);
        // Shards fill alike, so twice an even share is more than any of them needs.
        let shards = (0..SHARDS).map(|_| Shard::new(budget.cap() / SHARDS * 2, &budget)).collect();
        Self {
            secret,
            clock,
            budget,
            shards,
            overflow: OnceLock::new(),
            overflow_budget,
            overflowed: AtomicU64::new(0),
            names: Names::new(),
        }
    }

    /// The space of a policy, and whether it is the policy's own.
    pub(crate) fn space(&self, policy: &Policy) -> Result<(Arc<Space>, bool), StoreError> {
        self.names.space(policy, &self.secret, self.clock.is_monotonic())
    }

    /// The target where its key was found: with the space that packed the key, by whose clock it lives.
    #[inline]
    pub(crate) fn target_at<'a>(&'a self, target: Target<'a>, seen: &Seen) -> Target<'a> {
        if seen.rank() == target.space.rank { target } else { self.target_elsewhere(target, seen) }
    }

    #[cold]
    fn target_elsewhere<'a>(&'a self, target: Target<'a>, seen: &Seen) -> Target<'a> {
        // A slot tells of a space only once it is there.
        self.names.space_of(seen).map_or(target, |space| Target { space, is_own: false, ..target })
    }

    pub(crate) fn overflow(&self) -> &Shard {
        let bytes = 2 * ALL_BUCKETS as usize * size_of::<Record>();
        self.overflow.get_or_init(|| Shard::new(bytes, &self.overflow_budget))
    }

    #[inline]
    pub(crate) fn shard(&self, ident: Ident) -> &Shard {
        &self.shards[self.shard_index(ident)]
    }

    #[inline]
    pub(crate) fn shard_index(&self, ident: Ident) -> usize {
        ident.shard as usize % SHARDS
    }

    #[inline]
    pub(crate) fn now(&self, space: &Space) -> Timestamp {
        if space.wall { self.clock.wall() } else { self.clock.now() }
    }

    /// Does `act` to the cells of a key, whether it is known or not, under the lock of its shard.
    /// It may be done twice, the first time for nothing.
    pub(crate) fn with_cells<R>(
        &self,
        target: Target<'_>,
        ident: Ident,
        act: impl FnMut(&mut [Cell], Timestamp) -> R,
    ) -> R {
        self.with_cells_when(When::Now, target, ident, act)
    }

    /// The same at a time that may have been before.
    pub(crate) fn with_cells_when<R>(
        &self,
        when: When,
        target: Target<'_>,
        ident: Ident,
        mut act: impl FnMut(&mut [Cell], Timestamp) -> R,
    ) -> R {
        if let Some(done) = self.with_own_cells(when, self.shard(ident), &self.budget, target, ident, &mut act) {
            return done;
        }
        if matches!(when, When::Now) {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
        let ident = target.space.overflow(&self.secret, ident);
        let (overflow, budget) = (self.overflow(), &self.overflow_budget);
        loop {
            // The overflow has memory for all its buckets.
            if let Some(done) = self.with_own_cells(when, overflow, budget, target, ident, &mut act) {
                return done;
            }
        }
    }

    /// The same; nothing if there is no room for the key.
    pub(crate) fn with_own_cells<R>(
        &self,
        when: When,
        shard: &Shard,
        budget: &Budget,
        target: Target<'_>,
        ident: Ident,
        act: &mut impl FnMut(&mut [Cell], Timestamp) -> R,
    ) -> Option<R> {
        let mut inner = shard.lock();
        if let Some((slot, _)) = shard.find(ident) {
            // Keys come and go only under the shard's lock, which is held.
            let locked = lock_slot(slot);
            let target = self.target_at(target, &locked.seen);
            let mut held = Held::take(shard, locked, target);
            let t = self.time(when, target.space);
            if self.budget.lacks(2 * held.record.counted) {
                held.record.thin();
            }
            let cells = held.cells(target, t);
            let t = self.not_before_when(when, latest(cells), t, target.space);
            let done = act(cells, t);
            held.put_back(self, shard, &mut inner, budget, target, t);
            return Some(done);
        }
        let times = match when {
            When::Now => Times::default(),
            When::At(t) => Times::at(t, target.space.wall),
        };
        let expired = |seen: &Seen| self.expired(seen, &times);
        let place = shard.place(&mut inner, ident, budget, &expired)?;
        let t = self.time(when, target.space);
        let mut cells = self.first_cells(shard, target, ident, t);
        let t = self.not_before_when(when, latest(&cells), t, target.space);
        let before = cells.clone();
        let done = act(&mut cells, t);
        if cells == before {
            shard.unplace(place);
            return Some(done);
        }
        if let Some(words) = packed(target, &cells) {
            place.fill(ident.print, ident.mark, target.space.rank, words, false);
            return Some(done);
        }
        let record = Record::new(target, cells);
        let Some(words) = self.keep(shard, &mut inner, budget, target, record, t, AtCap::Stop) else {
            shard.unplace(place);
            return None;
        };
        place.fill(ident.print, ident.mark, target.space.rank, words, true);
        Some(done)
    }

    fn time(&self, when: When, space: &Space) -> Timestamp {
        match when {
            When::Now => self.now(space),
            When::At(t) => t,
        }
    }

    /// See [`Shared::not_before`]; a time that was is what it was.
    fn not_before_when(&self, when: When, latest: Timestamp, t: Timestamp, space: &Space) -> Timestamp {
        match when {
            When::Now => self.not_before(latest, t, space),
            When::At(t) => t,
        }
    }

    /// What a key that is new to its shard begins with: nothing used, unless it shared a bucket before,
    /// whose charges may be its own.
    pub(crate) fn first_cells(&self, shard: &Shard, target: Target<'_>, ident: Ident, t: Timestamp) -> Vec<Cell> {
        let Some(overflow) = self.overflow.get().filter(|overflow| !std::ptr::eq(*overflow, shard)) else {
            return fresh(target.policy);
        };
        // The overflow's lock comes after those of all shards.
        let _inner = overflow.lock();
        let Some((slot, _)) = overflow.find(target.space.overflow(&self.secret, ident)) else {
            return fresh(target.policy);
        };
        let locked = lock_slot(slot);
        let target = self.target_at(target, &locked.seen);
        Held::copy_of(overflow, locked, target, t)
    }

    /// Keeps a record if there is memory for it and what it holds; answers the words that tell of it.
    #[expect(clippy::too_many_arguments, reason = "a key's place, what it holds, and what to do without memory")]
    pub(crate) fn keep(
        &self,
        shard: &Shard,
        inner: &mut Inner,
        budget: &Budget,
        target: Target<'_>,
        mut record: Record,
        t: Timestamp,
        at_cap: AtCap,
    ) -> Option<[u64; 2]> {
        if at_cap == AtCap::Stop && budget.lacks(target.space.least) {
            return None;
        }
        record.count(budget, target.space.least);
        let (counted, expires) = (record.counted, t.plus(record.expires_after(&target.space.own, t)));
        let Some(index) = shard.keep(inner, record, budget, at_cap) else {
            budget.give_back(counted);
            return None;
        };
        Some(Mirror::of(index, expires).pack())
    }

    /// Whether a key may be forgotten: then one never seen would decide alike.
    pub(crate) fn expired(&self, seen: &Seen, times: &Times) -> bool {
        let Some(space) = self.names.space_of(seen) else { return false };
        let t = *if space.wall { &times.wall } else { &times.now }.get_or_init(|| self.now(space));
        if seen.boxed() {
            return Mirror::unpack(seen.words).expires <= t;
        }
        let cell = space.own.limits()[0].unpack(seen.words);
        tollgate_core::expires_after(&space.own, std::slice::from_ref(&cell), t) == Micros::ZERO
    }
}

/// The latest charge that the cells tell of.
pub(crate) fn latest(cells: &[Cell]) -> Timestamp {
    cells.iter().map(Cell::latest).max().unwrap_or_default()
}

pub(crate) fn fresh(policy: &Policy) -> Vec<Cell> {
    policy.limits().iter().map(|limit| limit.fresh()).collect()
}

/// The cells in two words, if they are those of the space's own policy and fit.
pub(crate) fn packed(target: Target<'_>, cells: &[Cell]) -> Option<[u64; 2]> {
    if !target.is_own || !target.space.packs {
        return None;
    }
    target.policy.limits()[0].pack(cells.first()?)
}
