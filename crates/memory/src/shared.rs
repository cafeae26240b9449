//! What all clones of a store share: shards, names, and what is done under the lock of a shard.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

use tollgate_core::{Cell, Clock, KeyState, Micros, Policy, StoreError, Timestamp};

use crate::budget::Budget;
use crate::clock::Source;
use crate::held::Held;
use crate::ident::{Ident, Secret};
use crate::memory::{LEAST_CAP, MOST_CAP, MOST_NAMES};
use crate::record::{Mirror, Record};
use crate::segments::Segments;
use crate::shard::{AtCap, Inner, Shard, lock_slot};
use crate::slot::Seen;
use crate::space::{OVERFLOW_BUCKETS, Space};
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
    pub(crate) spaces: Segments<OnceLock<Arc<Space>>>,
    names: RwLock<HashMap<Box<str>, u16>>,
    bare: OnceLock<Arc<Space>>,
}

/// What is asked of a key: a policy under its name.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) space: &'a Space,
    pub(crate) policy: &'a Policy,
    /// Whether the policy has the limits of the name's own.
    pub(crate) is_own: bool,
}

/// The time, read once for all keys that are looked at.
#[derive(Debug, Default)]
pub(crate) struct Times {
    now: OnceCell<Timestamp>,
    wall: OnceCell<Timestamp>,
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
            spaces: Segments::new(MOST_NAMES),
            names: RwLock::default(),
            bare: OnceLock::new(),
        }
    }

    /// The space of the policy's name; the first policy of a name becomes its own.
    pub(crate) fn space(&self, policy: &Policy) -> Result<Arc<Space>, StoreError> {
        if policy.name().is_empty()
            && let Some(space) = self.bare.get()
        {
            return Ok(Arc::clone(space));
        }
        let known = self.names.read().unwrap_or_else(|poisoned| poisoned.into_inner()).get(policy.name()).copied();
        if let Some(space) = known.and_then(|index| self.spaces.get(usize::from(index))?.get()) {
            return Ok(Arc::clone(space));
        }
        let mut names = self.names.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if names.len() >= MOST_NAMES && !names.contains_key(policy.name()) {
            return Err(StoreError::Names(MOST_NAMES));
        }
        let next = names.len() as u16;
        let index = *names.entry(policy.name().into()).or_insert(next);
        self.spaces.extend(usize::from(index), OnceLock::new);
        let make = || Arc::new(Space::new(policy.clone(), index, &self.secret, self.clock.is_monotonic()));
        let space = self.spaces.get(usize::from(index)).map(|place| Arc::clone(place.get_or_init(make)));
        let space = space.ok_or(StoreError::Names(MOST_NAMES))?;
        if policy.name().is_empty() {
            self.bare.get_or_init(|| Arc::clone(&space));
        }
        Ok(space)
    }

    pub(crate) fn overflow(&self) -> &Shard {
        let bytes = 2 * OVERFLOW_BUCKETS as usize * MOST_NAMES * size_of::<Record>();
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
        mut act: impl FnMut(&mut [Cell], Timestamp) -> R,
    ) -> R {
        if let Some(done) = self.with_own_cells(self.shard(ident), &self.budget, target, ident, &mut act) {
            return done;
        }
        self.overflowed.fetch_add(1, Ordering::Relaxed);
        let ident = target.space.overflow(&self.secret, ident);
        loop {
            // The overflow has memory for all its buckets.
            if let Some(done) = self.with_own_cells(self.overflow(), &self.overflow_budget, target, ident, &mut act) {
                return done;
            }
        }
    }

    /// The same; nothing if there is no room for the key.
    pub(crate) fn with_own_cells<R>(
        &self,
        shard: &Shard,
        budget: &Budget,
        target: Target<'_>,
        ident: Ident,
        act: &mut impl FnMut(&mut [Cell], Timestamp) -> R,
    ) -> Option<R> {
        let mut inner = shard.lock();
        if let Some((slot, _)) = shard.find(ident) {
            // Keys come and go only under the shard's lock, which is held.
            let mut held = Held::take(shard, lock_slot(slot), target);
            let t = self.now(target.space);
            if self.budget.lacks(2 * held.record.counted) {
                held.record.thin();
            }
            let cells = held.cells(target, t);
            let t = self.not_before(latest(cells), t, target.space);
            let done = act(cells, t);
            held.put_back(self, shard, &mut inner, budget, target, t);
            return Some(done);
        }
        let times = Times::default();
        let expired = |seen: &Seen| self.expired(seen, &times);
        let place = shard.place(&mut inner, ident, budget, &expired)?;
        let t = self.now(target.space);
        let mut cells = self.first_cells(shard, target, ident, t);
        let t = self.not_before(latest(&cells), t, target.space);
        let before = cells.clone();
        let done = act(&mut cells, t);
        if cells == before {
            shard.unplace(place);
            return Some(done);
        }
        if let Some(words) = packed(target, &cells) {
            place.fill(ident.print, ident.mark, words, false);
            return Some(done);
        }
        let record = Record::new(target, cells);
        let Some(words) = self.keep(shard, &mut inner, budget, target, record, t, AtCap::Stop) else {
            shard.unplace(place);
            return None;
        };
        place.fill(ident.print, ident.mark, words, true);
        Some(done)
    }

    /// Puts a key of a snapshot into its place; answers whether there was room. `saved` is the policy
    /// that its name had.
    pub(crate) fn put_back(&self, ident: Ident, saved: &Policy, mut state: KeyState, changed: bool) -> bool {
        let (shard, budget) = match self.shards.get(ident.shard as usize) {
            Some(shard) => (shard, &self.budget),
            None => (self.overflow(), &self.overflow_budget),
        };
        let Some(space) = self.spaces.get(usize::from(Ident::space(ident.mark))).and_then(OnceLock::get) else {
            return false;
        };
        let t = self.now(space);
        let is_own = space.owns(saved) && !changed;
        let target = Target { space, policy: if is_own { &space.own } else { saved }, is_own };
        let mut inner = shard.lock();
        Shard::unstick(&mut inner);
        let place = shard.place(&mut inner, ident, budget, &|_| false);
        let Some(place) = place else { return false };
        let cells = if is_own { state.cells_of(&space.own, t).to_vec() } else { Vec::new() };
        if let Some(words) = packed(target, &cells) {
            place.fill(ident.print, ident.mark, words, false);
            return true;
        }
        let record = if is_own { Record::new(target, cells) } else { Record::changed(state) };
        match self.keep(shard, &mut inner, budget, target, record, t, AtCap::Stop) {
            Some(words) => place.fill(ident.print, ident.mark, words, true),
            None => {
                shard.unplace(place);
                return false;
            }
        }
        true
    }

    /// What a key that is new to its shard begins with: nothing used, unless it shared a bucket before,
    /// whose charges may be its own.
    pub(crate) fn first_cells(&self, shard: &Shard, target: Target<'_>, ident: Ident, t: Timestamp) -> Vec<Cell> {
        let Some(overflow) = self.overflow.get().filter(|overflow| !std::ptr::eq(*overflow, shard)) else {
            return fresh(target.policy);
        };
        // The overflow's lock comes after those of all shards.
        let _inner = overflow.lock();
        let shared = overflow.find(target.space.overflow(&self.secret, ident));
        shared.map_or_else(|| fresh(target.policy), |(slot, _)| Held::copy_of(overflow, lock_slot(slot), target, t))
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
        let Some(space) = self.spaces.get(usize::from(Ident::space(seen.mark()))).and_then(OnceLock::get) else {
            return false;
        };
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

/// The cells in two words, if they are those of the name's own policy and fit.
pub(crate) fn packed(target: Target<'_>, cells: &[Cell]) -> Option<[u64; 2]> {
    if !target.is_own || !target.space.packs {
        return None;
    }
    target.policy.limits()[0].pack(cells.first()?)
}
