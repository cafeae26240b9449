//! Keys of a snapshot, put into their places in a new store.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Cell, KeyState, Limit, LimitId, Policy, Reader, Writer};

use super::{KIND_SHIFT, RANK_SHIFT, SnapshotError, kind};
use crate::budget::Budget;
use crate::ident::Ident;
use crate::record::Record;
use crate::shard::{AtCap, Inner, Shard};
use crate::shared::{Shared, Target, packed};
use crate::space::Space;
use crate::sync::MutexGuard;

const DAMAGED_KEY: SnapshotError = SnapshotError::Damaged("a key that no store wrote");

/// The policies of a snapshot, by number of the name and rank.
pub(super) type SavedNames = Vec<Vec<Option<Saved>>>;

/// A policy that packed keys of a snapshot, and its space in the new store once it has keys there.
pub(super) struct Saved {
    policy: Policy,
    space: OnceCell<Option<(Arc<Space>, bool)>>,
}

impl Saved {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, space: OnceCell::new() }
    }

    /// Whose keys are put there, and how.
    fn target<'a>(&'a self, shared: &Shared) -> Option<Target<'a>> {
        let (space, is_own) = self.space.get_or_init(|| shared.space(&self.policy).ok()).as_ref()?;
        let policy = if *is_own { &space.own } else { &self.policy };
        Some(Target { space, policy, is_own: *is_own })
    }
}

/// Puts keys back.
pub(super) struct Entries<'a> {
    shared: &'a Shared,
    saved: &'a SavedNames,
    /// Whether a block is one entry, of the older form.
    old: bool,
    /// The shard of the last key, which stays locked: the next one is mostly of the same.
    locked: Option<(u32, MutexGuard<'a, Inner>)>,
    words: Writer,
    limits: Limits,
}

/// Limits that keys have in common.
#[derive(Default)]
struct Limits(HashMap<LimitId, Vec<Arc<Limit>>>);

impl Limits {
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

impl<'a> Entries<'a> {
    pub(super) fn new(shared: &'a Shared, saved: &'a SavedNames, old: bool) -> Self {
        let mut limits = Limits::default();
        shared.names.spaces().for_each(|space| limits.add(&space.own));
        Self { shared, saved, old, locked: None, words: Writer::default(), limits }
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
            (Ident::mark_of_12_bits(mark), from.take().ok_or(DAMAGED_KEY)?, place as u32 >> RANK_SHIFT)
        } else {
            (mark, place >> KIND_SHIFT & 0xff, place as u32 >> RANK_SHIFT & 0xff)
        };
        let ranks = self.saved.get(usize::from(Ident::name(mark)));
        let saved = ranks.and_then(|ranks| ranks.get(rank as usize)?.as_ref()).ok_or(DAMAGED_KEY)?;
        let (ident, target) = (Ident { print, mark, shard }, saved.target(self.shared).ok_or(DAMAGED_KEY)?);
        if print == 0 || shard as usize > self.shared.shards.len() {
            return Err(DAMAGED_KEY);
        }
        let held = self.read(form, &saved.policy, target, from).ok_or(DAMAGED_KEY)?;
        if self.put(ident, target, held) { Ok(()) } else { Err(SnapshotError::Cap(self.shared.budget.cap())) }
    }

    /// Reads the state of a key.
    fn read(&mut self, form: u64, saved: &Policy, target: Target<'_>, from: &mut Reader<'_>) -> Option<Holds> {
        let changed = |cells| Holds::Record(Record::changed(KeyState::of(saved, cells)));
        match form {
            kind::PACKED => {
                let [limit] = saved.limits() else { return None };
                let words = [from.take()?, from.take()?];
                let cell = limit.packs().then(|| limit.unpack(words))?;
                // Reading back what would be written checks its numbers.
                self.words.clear();
                cell.write(&mut self.words);
                let read = limit.read(&mut Reader::new(self.words.as_bytes()))?;
                Some(if target.is_own { Holds::Words(words) } else { changed(vec![read]) })
            }
            kind::OWN => {
                let cells: Vec<Cell> = saved.limits().iter().map(|limit| limit.read(from)).collect::<Option<_>>()?;
                Some(match packed(target, &cells) {
                    Some(words) => Holds::Words(words),
                    None if target.is_own => Holds::Record(Record::of(cells)),
                    None => changed(cells),
                })
            }
            kind::CHANGED => {
                let state = KeyState::read_sharing(from, |limit| self.limits.share(limit))?;
                Some(Holds::Record(Record::changed(state)))
            }
            _ => None,
        }
    }

    /// Puts a key into its place; answers whether there was room.
    fn put(&mut self, ident: Ident, target: Target<'_>, holds: Holds) -> bool {
        let shared = self.shared;
        let (shard, budget) = home(shared, ident);
        let inner = match &mut self.locked {
            Some((number, inner)) if *number == ident.shard => inner,
            locked => {
                *locked = None;
                &mut locked.insert((ident.shard, shard.lock())).1
            }
        };
        Shard::unstick(inner);
        let Some(place) = shard.place(inner, ident, budget, &|_| false) else { return false };
        let rank = target.space.rank;
        match holds {
            Holds::Words(words) => place.fill(ident.print, ident.mark, rank, words, false),
            Holds::Record(record) => {
                match shared.keep(shard, inner, budget, target, record, shared.now(target.space), AtCap::Stop) {
                    Some(words) => place.fill(ident.print, ident.mark, rank, words, true),
                    None => {
                        shard.unplace(place);
                        return false;
                    }
                }
            }
        }
        true
    }
}

/// What a key's place is filled with.
enum Holds {
    Words([u64; 2]),
    Record(Record),
}

/// The shard that a snapshot tells of, the one behind the last being the overflow.
fn home(shared: &Shared, ident: Ident) -> (&Shard, &Budget) {
    match shared.shards.get(ident.shard as usize) {
        Some(shard) => (shard, &shared.budget),
        None => (shared.overflow(), &shared.overflow_budget),
    }
}
