//! Puts the keys of a snapshot into their places in a new store.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use tollgate_kernel::{Cell, KeyState, Limit, LimitId, Policy, Reader, Writer};

use super::{KIND_SHIFT, RANK_SHIFT, SHARES, SnapshotError, kind};
use crate::ident::StoreIdent;
use crate::record::{Mirror, Record};
use crate::shard::{RECORD, ShardState};
use crate::shared::{MemoryAllowance, MemoryCore, TargetPolicy};
use crate::slot::SlotForm;
use crate::space::{Space, is_wall};
use crate::sync::MutexGuard;

const DAMAGED_KEY: SnapshotError = SnapshotError::Damaged("a key that no store wrote");

/// The policies of a snapshot, by number of the name and rank.
pub(super) type SavedPolicies = Vec<Vec<Option<SavedPolicy>>>;

/// A policy that packed keys of a snapshot, and its space in the new store once it has keys there.
pub(super) struct SavedPolicy {
    policy: Policy,
    space: OnceCell<Option<(Arc<Space>, bool)>>,
}

impl SavedPolicy {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, space: OnceCell::new() }
    }

    /// Returns the policy and the space under which its keys are stored.
    fn target<'a>(&'a self, shared: &MemoryCore) -> Option<TargetPolicy<'a>> {
        let (space, is_own) = self.space.get_or_init(|| shared.space(&self.policy).ok()).as_ref()?;
        let policy = if *is_own { &space.own } else { &self.policy };
        Some(TargetPolicy { space, policy, is_own: *is_own, wall: is_wall(policy) })
    }
}

/// The state of putting keys back.
pub(super) struct KeyLoader<'a> {
    shared: &'a MemoryCore,
    saved: &'a SavedPolicies,
    /// Whether each block is one entry in the older format.
    old: bool,
    /// The shard of the last key, which stays locked: the next key is usually in the same one.
    locked: Option<(u32, MutexGuard<'a, ShardState>)>,
    words: Writer,
    limits: LimitPool,
    missing: usize,
}

/// Limits that are shared between keys.
#[derive(Default)]
struct LimitPool(HashMap<LimitId, Vec<Arc<Limit>>>);

impl LimitPool {
    fn share(&mut self, limit: Limit) -> Arc<Limit> {
        let known = self.0.entry(limit.id().clone()).or_default();
        if let Some(same) = known.iter().find(|same| ***same == limit) {
            return Arc::clone(same);
        }
        let limit = Arc::new(limit);
        known.push(Arc::clone(&limit));
        limit
    }

    fn add(&mut self, policy: &Policy) {
        for limit in policy.limits() {
            self.0.entry(limit.id().clone()).or_default().push(Arc::clone(limit));
        }
    }
}

impl<'a> KeyLoader<'a> {
    pub(super) fn new(shared: &'a MemoryCore, saved: &'a SavedPolicies, old: bool) -> Self {
        let mut limits = LimitPool::default();
        shared.names.spaces().for_each(|space| limits.add(&space.own));
        Self { shared, saved, old, locked: None, words: Writer::default(), limits, missing: 0 }
    }

    pub(super) fn put_block(&mut self, block: &[u8]) -> Result<(), SnapshotError> {
        let from = &mut Reader::new(block);
        while !from.is_done() {
            self.put_next(from)?;
            if self.old && !from.is_done() {
                return Err(DAMAGED_KEY);
            }
        }
        Ok(())
    }

    fn put_next(&mut self, from: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let (print, place) = from.take().zip(from.take()).ok_or(DAMAGED_KEY)?;
        let (mark, shard) = ((place >> 32) as u32, u32::from(place as u16));
        let (mark, form, rank) = if self.old {
            (StoreIdent::mark_of_12_bits(mark), from.take().ok_or(DAMAGED_KEY)?, place as u32 >> RANK_SHIFT)
        } else {
            (mark, place >> KIND_SHIFT & 0xff, place as u32 >> RANK_SHIFT & 0xff)
        };
        let (rank, shares) = if self.old { (rank, false) } else { (rank & !SHARES, rank & SHARES != 0) };
        let ranks = self.saved.get(usize::from(StoreIdent::name(mark)));
        let saved = ranks.and_then(|ranks| ranks.get(rank as usize)?.as_ref()).ok_or(DAMAGED_KEY)?;
        let (ident, target) = (StoreIdent { print, mark, shard }, saved.target(self.shared).ok_or(DAMAGED_KEY)?);
        if print == 0 || shard as usize > self.shared.shards.len() {
            return Err(DAMAGED_KEY);
        }
        let holds = self.read(form, &saved.policy, target, from).ok_or(DAMAGED_KEY)?;
        let bytes = holds.bytes(target.space);
        let mut holds = Some(holds);
        if self.missing == 0 {
            // Keys arrive in another order than originally, so a table that is nearly full may not have room for all of
            // them.
            let put = self.put(ident, target, &mut holds, shares) || {
                self.shared.allow(MemoryAllowance::Excess);
                let put = self.put(ident, target, &mut holds, shares);
                self.shared.allow(MemoryAllowance::Start);
                put
            };
            self.missing += if put { 0 } else { bytes };
        } else {
            // The remaining keys are still read, to determine how much memory they need.
            self.missing += bytes;
        }
        Ok(())
    }

    /// Returns the number of bytes of keys for which there was no memory.
    pub(super) fn missing(&self) -> usize {
        self.missing
    }

    /// Reads the state of a key.
    fn read(
        &mut self,
        form: u64,
        saved: &Policy,
        target: TargetPolicy<'_>,
        from: &mut Reader<'_>,
    ) -> Option<PlaceContents> {
        let changed = |cells| PlaceContents::Record(Record::mixed(KeyState::of(saved, cells)));
        match form {
            kind::PACKED => {
                let [limit] = saved.limits() else { return None };
                let words = [from.take()?, from.take()?];
                let cell = limit.packs().then(|| limit.unpack(words))?;
                // Writing the cell and reading it back checks its numbers.
                self.words.clear();
                cell.write(&mut self.words);
                let read = limit.read(&mut Reader::new(self.words.as_bytes()))?;
                Some(if target.is_own { PlaceContents::Words(words) } else { changed(vec![read]) })
            }
            kind::OWN => {
                let cells: Vec<Cell> = saved.limits().iter().map(|limit| limit.read(from)).collect::<Option<_>>()?;
                let cell = cells.first().filter(|_| target.is_own && target.space.packs);
                let words = cell.and_then(|cell| target.policy.limits().first()?.pack(cell));
                Some(match words {
                    Some(words) => PlaceContents::Words(words),
                    None if target.is_own => PlaceContents::Record(Record::of(cells)),
                    None => changed(cells),
                })
            }
            kind::CHANGED => {
                let state = KeyState::read_sharing(from, |limit| self.limits.share(limit))?;
                Some(PlaceContents::Record(Record::mixed(state)))
            }
            _ => None,
        }
    }

    /// Puts a key into its place; returns whether there was enough memory.
    fn put(
        &mut self,
        ident: StoreIdent,
        target: TargetPolicy<'_>,
        holds: &mut Option<PlaceContents>,
        shares: bool,
    ) -> bool {
        let shared = self.shared;
        let is_bucket = ident.shard as usize == shared.shards.len();
        let (shard, budget) = if is_bucket {
            shared.overflow.shard(target.space)
        } else {
            (&shared.shards[ident.shard as usize], &shared.budget)
        };
        // The shards of both kinds of buckets have the same number in the snapshot.
        let number = ident.shard + u32::from(is_bucket && target.space.is_callers);
        let inner = match &mut self.locked {
            Some((locked, inner)) if *locked == number => inner,
            locked => {
                *locked = None;
                &mut locked.insert((number, shard.lock())).1
            }
        };
        let Some(place) = shard.place_replayed(inner, ident, budget, &|_| false) else { return false };
        let form = SlotForm { rank: target.space.rank, boxed: false, shares };
        match holds.take() {
            None => shard.release_place(place),
            Some(PlaceContents::Words(words)) => place.fill(ident.print, ident.mark, form, words),
            Some(PlaceContents::Record(mut record)) => {
                let bytes = record.bytes(target.space.is_callers);
                let index = budget.take(bytes).then(|| shard.reserve_record(inner, budget));
                let Some((index, mut kept)) = index.flatten().and_then(|index| Some((index, shard.record(index)?)))
                else {
                    if index.is_some() {
                        budget.give_back(bytes);
                    }
                    shard.release_place(place);
                    *holds = Some(PlaceContents::Record(record));
                    return false;
                };
                let t = shared.now(target);
                let expires = t.plus(record.expires_after(&target.space.own, t));
                record.counted = bytes;
                *kept = record;
                place.fill(
                    ident.print,
                    ident.mark,
                    SlotForm { boxed: true, ..form },
                    Mirror::of(index, expires).pack(),
                );
            }
        }
        true
    }
}

/// The contents of a key's place.
enum PlaceContents {
    Words([u64; 2]),
    Record(Record),
}

/// The approximate number of bytes of a slot, in a table that is as full as usual.
const SLOT: usize = 41;

impl PlaceContents {
    fn bytes(&self, space: &Space) -> usize {
        match self {
            Self::Words(_) => SLOT,
            Self::Record(record) => SLOT + RECORD + record.bytes(space.is_callers),
        }
    }
}
