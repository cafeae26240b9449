//! The buckets that keys share when there is no memory for their state.
//!
//! They are records in separate shards with separate budgets: one for bare texts and names chosen by callers, one for
//! named policies, so that callers' texts cannot take the buckets of a server's policies.

use std::sync::OnceLock;

use crate::budget::Budget;
use crate::held_key::HeldKey;
use crate::ident::{StoreIdent, StoreSecret};
use crate::shard::{Shard, ShardState, lock_slot};
use crate::shared::{MemoryCore, OperationTime, StoreTimes};
use crate::slot::{SlotContents, SlotForm};
use crate::space::Space;
use crate::sync::{AtomicU64, MutexGuard, Ordering};

/// The maximum number of buckets that the keys of one name share.
const MAX_BUCKETS: usize = 1_024;
/// The number of bytes of the budget per bucket.
const BYTES_A_BUCKET: usize = 448;
/// The reciprocal of the share of the budget for named policies that only the table may take. Otherwise the records and
/// logs of some policies could take the buckets of policies that need neither.
const TABLE_SHARE: usize = 4;

/// Returns the number of buckets that the keys of a name share: fewer for later names, so that very many names do not
/// take more than there is.
pub(crate) fn buckets(bytes: usize, is_callers: bool, name: u16) -> u64 {
    let names = if is_callers { 1 } else { usize::from(name) + 1 };
    let buckets = (bytes / BYTES_A_BUCKET / names).clamp(1, MAX_BUCKETS);
    1 << buckets.ilog2()
}

/// The overflow buckets of a store.
pub(crate) struct MemoryOverflow {
    halves: [OverflowHalf; 2],
    decisions: AtomicU64,
}

struct OverflowHalf {
    /// Usually never created.
    shard: OnceLock<Shard>,
    budget: Budget,
}

impl MemoryOverflow {
    /// Creates buckets of at most `bytes` in total.
    pub(crate) fn new(bytes: usize) -> Self {
        let half = |budget| OverflowHalf { shard: OnceLock::new(), budget };
        let named = Budget::with_table_reserve(bytes / 2, bytes / 2 / TABLE_SHARE);
        Self { halves: [half(Budget::new(bytes / 2)), half(named)], decisions: AtomicU64::new(0) }
    }

    fn half(&self, space: &Space) -> &OverflowHalf {
        &self.halves[usize::from(!space.is_callers)]
    }

    /// Returns the number of bytes for the buckets of each kind.
    pub(crate) fn bytes(&self) -> usize {
        self.halves[0].budget.cap()
    }

    /// Returns whether there are buckets for names of this kind.
    pub(crate) fn is_used(&self, space: &Space) -> bool {
        self.half(space).shard.get().is_some()
    }

    /// Returns the shards that exist.
    pub(crate) fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.halves.iter().filter_map(|half| half.shard.get())
    }

    /// Returns the shard for names of this kind, and its budget.
    pub(crate) fn shard(&self, space: &Space) -> (&Shard, &Budget) {
        let half = self.half(space);
        // A shard takes its first buckets immediately, even from a small budget.
        (half.shard.get_or_init(|| Shard::new(2 * half.budget.cap(), &half.budget)), &half.budget)
    }

    pub(crate) fn count_decision(&self) {
        self.decisions.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of decisions made in buckets.
    pub(crate) fn decisions(&self) -> u64 {
        self.decisions.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes used.
    pub(crate) fn used(&self) -> usize {
        self.halves.iter().map(|half| half.budget.used()).sum()
    }

    /// Returns the sizes of the tables in buckets; 0 for a shard that does not exist yet.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        [0, 1].map(|half| self.halves[half].shard.get().map_or(0, Shard::buckets))
    }

    /// Grows the tables to their earlier sizes.
    pub(crate) fn grow_to(&self, sizes: impl Iterator<Item = usize>) {
        for (half, buckets) in self.halves.iter().zip(sizes).filter(|(_, buckets)| *buckets > 0) {
            let shard = half.shard.get_or_init(|| Shard::new(2 * half.budget.cap(), &half.budget));
            shard.grow_to(&mut shard.lock(), buckets, &half.budget);
        }
    }

    /// Allows the caps to be exceeded by `slack` bytes, see [`Budget::allow`].
    pub(crate) fn allow(&self, slack: usize, in_table: bool) {
        self.halves.iter().for_each(|half| half.budget.allow(slack, in_table));
    }
}

/// Returns the identity of the bucket that a key shares.
pub(crate) fn bucket_of(secret: &StoreSecret, space: &Space, ident: StoreIdent) -> StoreIdent {
    // Not by the number of the name: keys of bare text that share a bucket also share one in a store that replays them.
    let bucket = secret.keyed(ident.print) % space.buckets;
    let print = secret.keyed((space.name, bucket));
    StoreIdent::new(print, secret.keyed((print, bucket)), space.name)
}

/// The buckets as used by one call: their locks, which come after those of all shards, and the buckets that the call
/// already holds.
pub(crate) struct OverflowLocks<'a> {
    shared: &'a MemoryCore,
    when: OperationTime,
    guards: [Option<MutexGuard<'a, ShardState>>; 2],
    /// Whether both locks are taken when one is needed, in order, and no bucket is created: creating one moves others,
    /// which may be held.
    both: bool,
    /// Whether the call may charge. If not, no log makes room for a charge.
    may_charge: bool,
    held_buckets: Vec<StoreIdent>,
}

/// The error for a bucket that the same call already holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketHeldError;

impl<'a> OverflowLocks<'a> {
    /// For a call at `when` that needs one kind of buckets.
    pub(crate) fn one(shared: &'a MemoryCore, when: OperationTime) -> Self {
        Self { shared, when, guards: [None, None], both: false, may_charge: true, held_buckets: Vec::new() }
    }

    /// For a call that may need both kinds, and several of each: buckets must be created before any is held.
    pub(crate) fn several(shared: &'a MemoryCore) -> Self {
        Self { both: true, ..Self::one(shared, OperationTime::Now) }
    }

    /// For a call that charges nothing.
    pub(crate) fn without_charge(self) -> Self {
        Self { may_charge: false, ..self }
    }

    /// Returns whether the call may charge.
    pub(crate) fn may_charge(&self) -> bool {
        self.may_charge
    }

    /// Returns the state that is protected by the shard's lock.
    pub(crate) fn inner(&mut self, space: &Space) -> &mut ShardState {
        let wanted = usize::from(!space.is_callers);
        for (index, half) in self.shared.overflow.halves.iter().enumerate() {
            if self.guards[index].is_none() && (self.both || index == wanted) {
                let shard = half.shard.get_or_init(|| Shard::new(2 * half.budget.cap(), &half.budget));
                self.guards[index] = Some(shard.lock());
            }
        }
        self.guards[wanted].get_or_insert_with(|| self.shared.overflow.shard(space).0.lock())
    }

    /// Runs `look` on the bucket of a key, if there is one.
    pub(crate) fn look<R>(
        &mut self,
        space: &Space,
        ident: StoreIdent,
        look: impl FnOnce(&HeldKey<'_>) -> R,
    ) -> Result<Option<R>, BucketHeldError> {
        let bucket = bucket_of(&self.shared.properties.secret, space, ident);
        if self.held_buckets.contains(&bucket) {
            return Err(BucketHeldError);
        }
        let (shard, budget) = self.shared.overflow.shard(space);
        let _ = self.inner(space);
        let Some((slot, _)) = shard.find(bucket) else { return Ok(None) };
        let held = HeldKey::known(self.shared, shard, budget, lock_slot(slot)).map(HeldKey::of_many);
        Ok(held.map(|held| {
            let seen = look(&held);
            held.leave_untouched();
            seen
        }))
    }

    /// Takes the bucket of a key, creating it if necessary. Returns `None` if there is no memory for it, or if this
    /// call already holds it.
    pub(crate) fn open(
        &mut self,
        space: &'a Space,
        ident: StoreIdent,
    ) -> Option<(StoreIdent, HeldKey<'a>, &mut ShardState)> {
        let bucket = bucket_of(&self.shared.properties.secret, space, ident);
        if self.held_buckets.contains(&bucket) {
            return None;
        }
        let (shared, (shard, budget), both) = (self.shared, self.shared.overflow.shard(space), self.both);
        let (when, times) = (self.when, StoreTimes::unread(self.when, space.wall));
        let inner = self.inner(space);
        let held = match shard.find(bucket) {
            Some((slot, _)) => HeldKey::known(shared, shard, budget, lock_slot(slot))?,
            None if both => return None,
            None => {
                let expired = |seen: &SlotContents| shared.expired(seen, &times);
                let place = match shard.place(inner, bucket, budget, &expired) {
                    // In a replay, the bucket had a place before.
                    None if matches!(when, OperationTime::At(_)) => {
                        shard.place_replayed(inner, bucket, budget, &expired)
                    }
                    place => place,
                }?;
                HeldKey::new(shard, budget, place, (bucket.print, bucket.mark), space)
            }
        };
        self.held_buckets.push(bucket);
        Some((bucket, held.of_many(), self.inner(space)))
    }

    /// Creates the bucket of a key, if there is memory for it, for a call that holds several later. `protected` are the
    /// prints of those it created before.
    pub(crate) fn make(&mut self, space: &'a Space, ident: StoreIdent, protected: &mut Vec<u64>) {
        let bucket = bucket_of(&self.shared.properties.secret, space, ident);
        let (shared, (shard, budget)) = (self.shared, self.shared.overflow.shard(space));
        let times = StoreTimes::unread(self.when, space.wall);
        let inner = self.inner(space);
        if shard.find(bucket).is_none() {
            let expired = |seen: &SlotContents| !protected.contains(&seen.print) && shared.expired(seen, &times);
            if let Some(place) = shard.place(inner, bucket, budget, &expired) {
                place.fill(
                    bucket.print,
                    bucket.mark,
                    SlotForm { rank: space.rank, boxed: false, shares: false },
                    [0, 0],
                );
            }
        }
        protected.push(bucket.print);
    }

    /// Releases the buckets that the call holds.
    pub(crate) fn release(&mut self) {
        self.held_buckets.clear();
    }
}
