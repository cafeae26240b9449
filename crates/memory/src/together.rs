//! Several keys decided together. Their shards are locked in order, every key gets a slot, then all
//! slots are locked, and only then is anything decided.

use tollgate_core::{Cost, EXACT, Part, StoreError, Together, decide_all};

use crate::budget::Budget;
use crate::held::Held;
use crate::ident::Ident;
use crate::record::Record;
use crate::shard::{AtCap, Inner, Shard, lock_slot};
use crate::shared::{Shared, Target, Times, latest, packed};
use crate::slot::Seen;
use crate::sync::{MutexGuard, Ordering};

/// One key to decide, by itself or with others that share its bucket.
struct Place<'a> {
    target: Target<'a>,
    ident: Ident,
    units: u64,
    overflow: bool,
}

impl Shared {
    pub(crate) fn decide_all(&self, items: Vec<(Target<'_>, Ident, Cost)>) -> Result<Together, StoreError> {
        for (index, (_, ident, _)) in items.iter().enumerate() {
            if let Some(first) = items[..index].iter().position(|(_, other, _)| other == ident) {
                return Err(StoreError::Twice(first, index));
            }
        }
        let mut guards = self.lock_shards(&items);
        let mut places: Vec<Place<'_>> = Vec::with_capacity(items.len());
        let mut place_of = Vec::with_capacity(items.len());
        // A key that was just given a slot is as new as one to forget.
        let prints: Vec<u64> = items.iter().map(|(_, ident, _)| ident.print).collect();
        for (target, own_ident, cost) in items {
            let (shard, inner) = (self.shard(own_ident), guards.of(self.shard_index(own_ident)));
            let found = self.ensure(shard, inner, &self.budget, target, own_ident, &prints);
            let (ident, overflow) = if found {
                (own_ident, false)
            } else {
                self.overflowed.fetch_add(1, Ordering::Relaxed);
                (target.space.overflow(&self.secret, own_ident), true)
            };
            let same = places.iter().position(|place| place.ident == ident && place.overflow == overflow);
            place_of.push(same.unwrap_or(places.len()));
            match same {
                Some(same) => places[same].units = places[same].units.saturating_add(cost.get()),
                None => places.push(Place { target, ident, units: cost.get(), overflow }),
            }
        }
        self.settle_places(&mut guards, &places, &place_of)
    }

    /// Locks every place, decides, and puts all back.
    fn settle_places<'a>(
        &'a self,
        guards: &mut Guards<'a>,
        places: &[Place<'_>],
        place_of: &[usize],
    ) -> Result<Together, StoreError> {
        let prints: Vec<u64> = places.iter().map(|place| place.ident.print).collect();
        for place in places.iter().filter(|place| place.overflow) {
            let inner = guards.overflow.get_or_insert_with(|| self.overflow().lock());
            while !self.ensure(self.overflow(), inner, &self.overflow_budget, place.target, place.ident, &prints) {}
        }
        let shard_of = |place: &Place<'_>| if place.overflow { self.overflow() } else { self.shard(place.ident) };
        let mut held = Vec::with_capacity(places.len());
        for place in places {
            // It was ensured above, and the shard has been locked since.
            let Some((slot, _)) = shard_of(place).find(place.ident) else { continue };
            let locked = lock_slot(slot);
            let target = self.target_at(place.target, &locked.seen);
            let mut taken = Held::take(shard_of(place), locked, target);
            let t = self.now(target.space);
            if self.budget.lacks(2 * taken.record.counted) {
                taken.record.thin();
            }
            let t = self.not_before(latest(taken.cells(target, t)), t, target.space);
            held.push((taken, target, t));
        }
        let mut parts: Vec<Part<'_>> = places
            .iter()
            .zip(&mut held)
            .map(|(place, (held, target, t))| Part {
                policy: target.policy,
                cells: held.cells(*target, *t),
                // More units than can be asked for never fit.
                cost: Cost::new(place.units.min(EXACT - 1)).unwrap_or(Cost::ONE),
                t: *t,
            })
            .collect();
        let Together { allowed, retry_after, decisions } = decide_all(&mut parts);
        for (place, (held, target, t)) in places.iter().zip(held) {
            let (budget, inner) = if place.overflow {
                (&self.overflow_budget, guards.overflow.as_deref_mut())
            } else {
                (&self.budget, Some(guards.of(self.shard_index(place.ident))))
            };
            if let Some(inner) = inner {
                // Whatever needs a record under its policy was given one above.
                held.put_back(self, shard_of(place), inner, budget, target, t);
            }
        }
        let decisions = place_of.iter().map(|place| decisions[*place]).collect();
        Ok(Together { allowed, retry_after, decisions })
    }

    /// Makes sure that a key has a slot, and a record if it needs one; answers whether there was room for one.
    fn ensure(
        &self,
        shard: &Shard,
        inner: &mut Inner,
        budget: &Budget,
        target: Target<'_>,
        ident: Ident,
        protected: &[u64],
    ) -> bool {
        if let Some((slot, seen)) = shard.find(ident) {
            let target = self.target_at(target, &seen);
            if seen.boxed() || target.is_own {
                return true;
            }
            let (mut held, t) = (Held::take(shard, lock_slot(slot), target), self.now(target.space));
            held.cells(target, t);
            held.put_back(self, shard, inner, budget, target, t);
            return true;
        }
        let times = Times::default();
        let expired = |seen: &Seen| !protected.contains(&seen.print) && self.expired(seen, &times);
        let Some(place) = shard.place(inner, ident, budget, &expired) else { return false };
        let t = self.now(target.space);
        let cells = self.first_cells(shard, target, ident, t);
        if let Some(words) = packed(target, &cells) {
            place.fill(ident.print, ident.mark, target.space.rank, words, false);
            return true;
        }
        let record = Record::new(target, cells);
        let kept = self.keep(shard, inner, budget, target, record, t, AtCap::Stop);
        match kept {
            Some(words) => place.fill(ident.print, ident.mark, target.space.rank, words, true),
            None => shard.unplace(place),
        }
        kept.is_some()
    }

    fn lock_shards(&self, items: &[(Target<'_>, Ident, Cost)]) -> Guards<'_> {
        let mut indices: Vec<usize> = items.iter().map(|(_, ident, _)| self.shard_index(*ident)).collect();
        indices.sort_unstable();
        indices.dedup();
        let shards = indices.into_iter().map(|index| (index, self.shards[index].lock())).collect();
        Guards { shards, overflow: None }
    }
}

/// The locks of the shards involved, taken in order; that of the overflow comes last.
struct Guards<'a> {
    shards: Vec<(usize, MutexGuard<'a, Inner>)>,
    overflow: Option<MutexGuard<'a, Inner>>,
}

impl Guards<'_> {
    fn of(&mut self, index: usize) -> &mut Inner {
        let place = self.shards.iter().position(|(shard, _)| *shard == index).unwrap_or(0);
        &mut self.shards[place].1
    }
}
