//! Deciding several keys together. Their shards are locked in order, every key gets a slot, then all are held, and only
//! then is anything decided.

use tollgate_kernel::{Cost, EXACT, JointDecision, JointRequest, StoreError, Wait, decide_all};

use crate::draw::{PolicyCells, latest, no_room};
use crate::held_key::Moment;
use crate::ident::StoreIdent;
use crate::overflow::{OverflowLocks, bucket_of};
use crate::shard::ShardState;
use crate::shared::{MemoryCore, OperationTime, StoreTimes, TargetPolicy};
use crate::slot::{SlotContents, SlotForm};
use crate::sync::MutexGuard;

/// A key with its policy and its cost.
pub(crate) type JointItem<'a> = (TargetPolicy<'a>, StoreIdent, Cost);

/// The cells of one key that is held, or those of a bucket that several keys of the call share.
struct JointCells<'a> {
    drawn: PolicyCells<'a>,
    target: TargetPolicy<'a>,
    shard: usize,
    units: u64,
    at: Moment<'a>,
}

impl MemoryCore {
    pub(crate) fn decide_all(&self, items: Vec<JointItem<'_>>) -> Result<JointDecision, StoreError> {
        for (index, (_, ident, _)) in items.iter().enumerate() {
            if let Some(first) = items[..index].iter().position(|(_, other, _)| other == ident) {
                return Err(StoreError::Twice(first, index));
            }
        }
        let mut guards = self.lock_shards(&items);
        self.make_slots(&mut guards, &items);
        let mut overflows = OverflowLocks::several(self);
        if let Some(together) = self.decide_held(&mut guards, &mut overflows, &items) {
            return Ok(together);
        }
        // Some keys need a bucket that does not exist yet. None can be created while others are held.
        let mut made = Vec::new();
        items.iter().for_each(|(target, ident, _)| overflows.make(target.space, *ident, &mut made));
        Ok(self.decide_held(&mut guards, &mut overflows, &items).unwrap_or_else(|| {
            let decisions: Vec<_> = items.iter().map(|(target, ..)| no_room(self.now(*target))).collect();
            let retry_after = decisions.iter().map(|decision| decision.retry_after).fold(Wait::NONE, Ord::max);
            JointDecision { allowed: false, retry_after, decisions }
        }))
    }

    /// Gives a slot to every key that has none, if there is one. The slot is in its initial state, and is not forgotten
    /// in favour of another key of the call.
    fn make_slots(&self, guards: &mut ShardGuards<'_>, items: &[JointItem<'_>]) {
        let prints: Vec<u64> = items.iter().map(|(_, ident, _)| ident.print).collect();
        for (target, ident, _) in items {
            let (shard, inner) = (self.shard(*ident), guards.of(self.shard_index(*ident)));
            if shard.find(*ident).is_some() {
                continue;
            }
            let times = StoreTimes::default();
            let expired = |seen: &SlotContents| !prints.contains(&seen.print) && self.expired(seen, &times);
            if let Some(place) = shard.place(inner, *ident, &self.budget, &expired) {
                let shares = self.overflow.is_used(target.space);
                place.fill(ident.print, ident.mark, SlotForm { rank: target.space.rank, boxed: false, shares }, [0, 0]);
            }
        }
    }

    /// Takes all keys, decides, and puts all back. Returns `None` if there is no memory for some of them.
    fn decide_held<'a>(
        &'a self,
        guards: &mut ShardGuards<'a>,
        overflows: &mut OverflowLocks<'a>,
        items: &[JointItem<'a>],
    ) -> Option<JointDecision> {
        let mut places: Vec<JointCells<'a>> = Vec::with_capacity(items.len());
        let mut place_of = Vec::with_capacity(items.len());
        for (target, ident, cost) in items {
            match self.take_key(guards, overflows, &mut places, (*target, *ident, *cost)) {
                Some(place) => place_of.push(place),
                None => {
                    self.put_places(guards, overflows, places, false);
                    return None;
                }
            }
        }
        places.iter().filter(|place| place.drawn.bucket().is_some()).for_each(|_| self.overflow.count_decision());
        let parts = places.iter_mut().map(|place| {
            // Read now that every key is locked: a charge between the reading and the lock would be later than the
            // decision, as if the clock had been set back.
            let (t, cells) = (self.now(place.target), place.drawn.cells());
            let t = self.not_before(latest(cells), t, place.target);
            place.at.expiry_base = place.at.expiry_base.max(t);
            // More units than can be requested never fit.
            let cost = Cost::new(place.units.min(EXACT - 1)).unwrap_or(Cost::ONE);
            JointRequest { policy: place.target.policy, cells, cost, t }
        });
        let JointDecision { allowed, retry_after, decisions } = decide_all(&mut parts.collect::<Vec<_>>());
        self.put_places(guards, overflows, places, allowed);
        Some(JointDecision {
            allowed,
            retry_after,
            decisions: place_of.into_iter().map(|place| decisions[place]).collect(),
        })
    }

    /// Takes a key and returns the index of its place. Keys that share a bucket under one policy are one place, with
    /// the units of all of them.
    fn take_key<'a>(
        &'a self,
        guards: &mut ShardGuards<'a>,
        overflows: &mut OverflowLocks<'a>,
        places: &mut Vec<JointCells<'a>>,
        (target, ident, cost): JointItem<'a>,
    ) -> Option<usize> {
        let (index, at) = (self.shard_index(ident), self.moment(OperationTime::Now, target, self.now(target)));
        let (shard, inner) = (self.shard(ident), guards.of(index));
        let held = self.open_known(shard, ident);
        let is_known = held.is_some();
        if let Some(drawn) = self.draw(inner, overflows, held, target, ident, at) {
            places.push(JointCells { drawn, target, shard: index, units: cost.get(), at });
            return Some(places.len() - 1);
        }
        let bucket = bucket_of(&self.properties.secret, target.space, ident);
        let same = places.iter_mut().enumerate().find(|(_, place)| {
            let shared = place.drawn.bucket().is_some_and(|shared| shared.ident == bucket);
            shared && place.drawn.is_shared() && place.target.policy.limits() == target.policy.limits()
        });
        let (number, place) = same.filter(|_| !is_known)?;
        place.units = place.units.saturating_add(cost.get());
        Some(number)
    }

    fn put_places<'a>(
        &'a self,
        guards: &mut ShardGuards<'a>,
        overflows: &mut OverflowLocks<'a>,
        places: Vec<JointCells<'a>>,
        changed: bool,
    ) {
        for JointCells { drawn, shard, at, .. } in places {
            self.put_back(guards.of(shard), overflows, drawn, changed, at);
        }
        overflows.release();
    }

    fn lock_shards(&self, items: &[JointItem<'_>]) -> ShardGuards<'_> {
        let mut indices: Vec<usize> = items.iter().map(|(_, ident, _)| self.shard_index(*ident)).collect();
        indices.sort_unstable();
        indices.dedup();
        ShardGuards { shards: indices.into_iter().map(|index| (index, self.shards[index].lock())).collect() }
    }
}

/// The locks of the shards involved, taken in order; those of the overflow buckets come last.
struct ShardGuards<'a> {
    shards: Vec<(usize, MutexGuard<'a, ShardState>)>,
}

impl ShardGuards<'_> {
    fn of(&mut self, index: usize) -> &mut ShardState {
        let place = self.shards.iter().position(|(shard, _)| *shard == index).unwrap_or(0);
        &mut self.shards[place].1
    }
}
