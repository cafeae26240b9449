//! The cells of a policy for one key, drawn from where they are kept: the key's own place, and the bucket that it
//! shares for limits for which there is no memory.
//!
//! A store never decides on a state that it cannot keep. Memory for everything that a charge may write is therefore
//! reserved before the cells are used. A limit without memory in the key's own place is decided in the bucket, and if
//! there is no memory there either, the request is refused.

use std::sync::Arc;

use tollgate_kernel::{Cell, Clock, Decision, Limit, Micros, Timestamp};

use crate::held_key::{HeldKey, Moment, WallTime};
use crate::ident::StoreIdent;
use crate::overflow::OverflowLocks;
use crate::shard::{ExpiryTest, Shard, ShardState, lock_slot};
use crate::shared::{MemoryAllowance, MemoryCore, OperationTime, StoreTimes, TargetPolicy};
use crate::slot::{LockedSlot, SlotContents};
use crate::space::Space;

/// The result of an operation on cells.
pub(crate) struct CellOutcome<R> {
    pub(crate) answer: R,
    /// Whether anything was charged or refunded. If not, at most a clock was corrected.
    pub(crate) changed: bool,
}

/// The cells of a policy in policy order, and their origin.
#[expect(clippy::large_enum_variant, reason = "most keys are of the large variant, which allocates nothing")]
pub(crate) enum PolicyCells<'a> {
    /// The key has these cells and no others, so they stay in its record.
    Own(HeldKey<'a>, TargetPolicy<'a>),
    Collected(Box<CollectedCells<'a>>),
}

/// Cells that were collected from a key that has others too, or from a bucket.
pub(crate) struct CollectedCells<'a> {
    target: TargetPolicy<'a>,
    cells: Vec<Cell>,
    /// The key's own place, if it has one, and the positions of the cells from there.
    own: Option<(HeldKey<'a>, Vec<Option<usize>>)>,
    /// Whether there is room for all cells in the key's own place.
    is_whole: bool,
    bucket: Option<HeldBucket<'a>>,
}

/// A bucket in which limits are decided.
pub(crate) struct HeldBucket<'a> {
    pub(crate) ident: StoreIdent,
    held: HeldKey<'a>,
    /// The limits decided in the bucket, and the positions of their cells in it.
    limits: Vec<Arc<Limit>>,
    places: Vec<Option<usize>>,
    /// Whether there is room for all cells as they are after a charge; if not, they stay where they are.
    is_whole: bool,
}

impl<'a> PolicyCells<'a> {
    pub(crate) fn cells(&mut self) -> &mut [Cell] {
        match self {
            Self::Own(held, _) => held.own_cells(),
            Self::Collected(collected) => &mut collected.cells,
        }
    }

    /// Returns the bucket that some of the cells belong to.
    pub(crate) fn bucket(&self) -> Option<&HeldBucket<'a>> {
        match self {
            Self::Own(..) => None,
            Self::Collected(collected) => collected.bucket.as_ref(),
        }
    }

    /// Returns whether all cells belong to a bucket.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Collected(collected) if collected.own.is_none())
    }
}

/// How far to search for a place for a key that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// The key gets no place: it had none before.
    Nowhere,
    /// As far as for a key that was never seen.
    Usual,
    /// As far as for a key that was never seen. Nothing is charged, so no log is thinned to make room.
    WithoutCharge,
    /// As far as possible: the key had a place before, in a table of the same size.
    Everywhere,
}

impl MemoryCore {
    /// Runs `act` on the cells of a key under a policy, whether the key is known or not. Returns `None` if there is no
    /// memory to keep what it may write. `effort` is how far to search for a place.
    pub(crate) fn with_cells<R>(
        &self,
        effort: Effort,
        when: OperationTime,
        target: TargetPolicy<'_>,
        ident: StoreIdent,
        act: impl FnOnce(&mut [Cell], Timestamp) -> CellOutcome<R>,
    ) -> Option<R> {
        let shard = self.shard(ident);
        let mut inner = shard.lock();
        // The slot may be charged until it is locked, by a time after this one: see `not_before_when` below.
        let t = self.time(when, target);
        let own = self.open(effort, shard, &mut inner, &StoreTimes::of(when, t, target.wall), target, ident);
        let overflows = OverflowLocks::one(self, when);
        let mut overflows = if effort == Effort::WithoutCharge { overflows.without_charge() } else { overflows };
        let at = self.moment(when, target, t);
        let mut drawn = self.draw(&mut inner, &mut overflows, own, target, ident, at)?;
        if drawn.bucket().is_some() && matches!(when, OperationTime::Now) {
            self.overflow.count_decision();
        }
        let cells = drawn.cells();
        let t = self.not_before_when(when, latest(cells), t, target);
        let CellOutcome { answer, changed } = act(cells, t);
        let at = Moment { expiry_base: at.expiry_base.max(t), ..at };
        self.put_back(&mut inner, &mut overflows, drawn, changed, at).then_some(answer)
    }

    /// Returns the moment at which the target's clock shows `t`. For a time in the past, the time by the other clock is
    /// not known.
    pub(crate) fn moment(&self, when: OperationTime, target: TargetPolicy<'_>, t: Timestamp) -> Moment<'_> {
        match when {
            OperationTime::At(t) => Moment::by_one_clock(t, target.wall),
            OperationTime::Now => {
                let (now, wall) =
                    if target.wall { (self.clock.now(), WallTime::At(t)) } else { (t, WallTime::Unread(&self.clock)) };
                // A key expires by the steady clock, unless all its limits are aligned to the machine's clock.
                Moment { expiry_base: t.max(now), now, wall }
            }
        }
    }

    /// Returns the key's own place: its slot, or a free slot for a new key.
    pub(crate) fn open<'a>(
        &'a self,
        effort: Effort,
        shard: &'a Shard,
        inner: &mut ShardState,
        times: &StoreTimes,
        target: TargetPolicy<'a>,
        ident: StoreIdent,
    ) -> Option<HeldKey<'a>> {
        if shard.find(ident).is_some() {
            return self.open_known(shard, ident);
        }
        let expired = |seen: &SlotContents| self.expired(seen, times);
        if effort == Effort::Nowhere {
            // Other keys are forgotten as they were in the original call.
            shard.tidy(inner, &self.budget, &expired);
            return None;
        }
        let place = shard.place(inner, ident, &self.budget, &expired);
        let place = match place {
            None if effort == Effort::Everywhere => self.place_replayed(shard, inner, ident, &expired),
            place => place,
        }?;
        Some(HeldKey::new(shard, &self.budget, place, (ident.print, ident.mark), target.space))
    }

    /// Returns a place for a key that had one: in a table of the same size, or in one that grows by the reserve for
    /// starts.
    #[cold]
    fn place_replayed<'a>(
        &self,
        shard: &'a Shard,
        inner: &mut ShardState,
        ident: StoreIdent,
        expired: ExpiryTest<'_>,
    ) -> Option<LockedSlot<'a>> {
        shard.place_replayed(inner, ident, &self.budget, expired).or_else(|| {
            self.allow(MemoryAllowance::ReplayInTable);
            let place = shard.place_replayed(inner, ident, &self.budget, expired);
            self.allow(MemoryAllowance::Replay);
            place
        })
    }

    /// Returns the key's own place, if it has one.
    #[inline]
    pub(crate) fn open_known<'a>(&'a self, shard: &'a Shard, ident: StoreIdent) -> Option<HeldKey<'a>> {
        // Keys are inserted and removed only under the shard's lock, which is held.
        let (slot, _) = shard.find(ident)?;
        HeldKey::known(self, shard, &self.budget, lock_slot(slot))
    }

    /// Draws the cells of a policy and reserves memory for what may be written. Returns `None` if there is no memory;
    /// the key is then unchanged.
    pub(crate) fn draw<'a>(
        &'a self,
        inner: &mut ShardState,
        overflows: &mut OverflowLocks<'a>,
        own: Option<HeldKey<'a>>,
        target: TargetPolicy<'a>,
        ident: StoreIdent,
        at: Moment<'_>,
    ) -> Option<PolicyCells<'a>> {
        let Some(mut held) = own else { return self.draw_shared(overflows, target, ident, at) };
        let may_begin = !held.may_share() || !self.overflow.is_used(target.space);
        if target.is_own && held.hold_own(inner, target.space, (may_begin, overflows.may_charge())) {
            return Some(PolicyCells::Own(held, target));
        }
        let limits = target.policy.limits();
        if held.places(limits).contains(&None) && !held.has_place_for(limits, at) {
            held.leave(inner, at);
            return None;
        }
        let places = held.places(limits);
        let Some((new, may_move)) = self.new_cells(overflows, &mut held, target, ident, (&places, at)) else {
            held.leave(inner, at);
            return None;
        };
        if may_move && held.reserve_all(inner, target.limits(), &places, &new, at) {
            let cells = take_cells(&mut held, limits, &places, new.into_iter());
            let own = Some((held, places));
            return Some(PolicyCells::Collected(Box::new(CollectedCells {
                target,
                cells,
                own,
                is_whole: true,
                bucket: None,
            })));
        }
        if held.is_new() {
            held.leave(inner, at);
            return self.draw_shared(overflows, target, ident, at);
        }
        if held.repacked(limits, &places).is_some_and(|limit| self.space_alone(target, limit).is_none()) {
            held.leave(inner, at);
            return None;
        }
        let missing: Vec<_> = limits.iter().zip(&places).filter(|(_, place)| place.is_none()).collect();
        let missing: Vec<Arc<Limit>> = missing.into_iter().map(|(limit, _)| Arc::clone(limit)).collect();
        let (bucket, shared) = if missing.is_empty() {
            (None, Vec::new())
        } else {
            match self.draw_bucket(overflows, target, missing, ident, at) {
                Some((bucket, cells)) => (Some(bucket), cells),
                None => {
                    held.leave(inner, at);
                    return None;
                }
            }
        };
        if overflows.may_charge() {
            held.reserve_growth(&places);
        }
        let mut shared = shared.into_iter();
        let new = places.iter().map(|place| if place.is_none() { shared.next() } else { None });
        let cells = take_cells(&mut held, limits, &places, new);
        let own = Some((held, places));
        Some(PolicyCells::Collected(Box::new(CollectedCells { target, cells, own, is_whole: false, bucket })))
    }

    /// Draws all cells of a policy from the bucket that a key shares.
    fn draw_shared<'a>(
        &'a self,
        overflows: &mut OverflowLocks<'a>,
        target: TargetPolicy<'a>,
        ident: StoreIdent,
        at: Moment<'_>,
    ) -> Option<PolicyCells<'a>> {
        let limits = target.policy.limits().to_vec();
        let (bucket, cells) = self.draw_bucket(overflows, target, limits, ident, at)?;
        let bucket = Some(bucket);
        Some(PolicyCells::Collected(Box::new(CollectedCells { target, cells, own: None, is_whole: false, bucket })))
    }

    /// Returns the first cells of a key for limits that it has no cells for. They are in their initial state, unless
    /// the key shared a bucket before, whose charges may be its own. A new key shares that bucket for other limits from
    /// now on. Also returns whether the cells may be kept in the key's own place: not if the bucket counts one of the
    /// limits under several numbers, since in the key's place these would be one cell. Returns `None` if the same call
    /// already holds that bucket.
    fn new_cells(
        &self,
        overflows: &mut OverflowLocks<'_>,
        held: &mut HeldKey<'_>,
        target: TargetPolicy<'_>,
        ident: StoreIdent,
        (places, at): (&[Option<usize>], Moment<'_>),
    ) -> Option<(Vec<Option<Cell>>, bool)> {
        let missing = || target.policy.limits().iter().zip(places).map(|(limit, place)| (limit, place.is_none()));
        let fresh = || missing().map(|(limit, is_new)| is_new.then(|| limit.fresh())).collect();
        if !held.may_share() || !self.overflow.is_used(target.space) || places.iter().all(Option::is_some) {
            return Some((fresh(), true));
        }
        let copied = overflows.look(target.space, ident, |bucket| {
            let copy = |limit: &Limit| bucket.copy(limit).unwrap_or_else(|| limit.fresh());
            let may_move = missing().all(|(limit, is_new)| !is_new || bucket.cells_of(limit, at) <= 1);
            (missing().map(|(limit, is_new)| is_new.then(|| copy(limit))).collect(), may_move)
        });
        let copied = copied.ok()?;
        if copied.is_some() {
            held.share();
        }
        Some(copied.unwrap_or_else(|| (fresh(), true)))
    }

    /// Draws the cells of some limits from the bucket that a key shares.
    fn draw_bucket<'a>(
        &'a self,
        overflows: &mut OverflowLocks<'a>,
        target: TargetPolicy<'a>,
        limits: Vec<Arc<Limit>>,
        ident: StoreIdent,
        at: Moment<'_>,
    ) -> Option<(HeldBucket<'a>, Vec<Cell>)> {
        let own = (limits.len() == target.policy.limits().len()).then_some(target.limits().1).flatten();
        let may_charge = overflows.may_charge();
        let (ident, mut held, inner) = overflows.open(target.space, ident)?;
        let has_place = held.has_place_for(&limits, at);
        let places = held.places(&limits);
        if !has_place && places.contains(&None) {
            held.leave(inner, at);
            return None;
        }
        let each = limits.iter().zip(&places);
        let begin = |limit: &Limit| held.copy(limit).unwrap_or_else(|| limit.fresh());
        let new: Vec<Option<Cell>> = each.map(|(limit, place)| place.is_none().then(|| begin(limit))).collect();
        let is_whole = held.reserve_all(inner, (&limits, own), &places, &new, at);
        if !is_whole {
            if places.contains(&None) || held.repacked(&limits, &places).is_some() {
                held.leave(inner, at);
                return None;
            }
            if may_charge {
                held.reserve_growth(&places);
            }
        }
        let cells = take_cells(&mut held, &limits, &places, new.into_iter());
        Some((HeldBucket { ident, held, limits, places, is_whole }, cells))
    }

    /// Puts all cells back as they are now. Returns whether the changes were kept; if not, nothing was changed.
    pub(crate) fn put_back<'a>(
        &'a self,
        inner: &mut ShardState,
        overflows: &mut OverflowLocks<'a>,
        drawn: PolicyCells<'a>,
        changed: bool,
        at: Moment<'_>,
    ) -> bool {
        let CollectedCells { target, mut cells, own, is_whole, bucket } = match drawn {
            PolicyCells::Own(held, target) if changed => return held.put_own(inner, target.space, at),
            PolicyCells::Own(held, _) => return held.put_back(inner, at, None),
            PolicyCells::Collected(collected) => *collected,
        };
        let mut kept = true;
        if let Some((mut held, places)) = own {
            if is_whole && changed {
                return held.put_all(inner, target.limits(), &places, cells, at);
            }
            if bucket.is_some() && changed {
                held.share();
            }
            let mut shared = Vec::new();
            for (place, cell) in places.iter().zip(cells) {
                match place {
                    Some(place) => held.put_cell(*place, cell),
                    None => shared.push(cell),
                }
            }
            cells = shared;
            let repacked = held.repacked(target.policy.limits(), &places).filter(|_| changed);
            kept = held.put_back(inner, at, repacked.and_then(|limit| self.space_alone(target, limit)));
        }
        let Some(HeldBucket { mut held, limits, places, is_whole, .. }) = bucket else { return kept };
        let inner = overflows.inner(target.space);
        if is_whole && changed {
            let own = (limits.len() == target.policy.limits().len()).then_some(target.limits().1).flatten();
            return held.put_all(inner, (&limits, own), &places, cells, at);
        }
        let found = places.iter().zip(cells).filter_map(|(place, cell)| Some(((*place)?, cell)));
        found.for_each(|(place, cell)| held.put_cell(place, cell));
        held.put_back(inner, at, None)
    }

    /// Returns the space of a policy of one limit, under the name of the target's policy.
    fn space_alone<'a>(&'a self, target: TargetPolicy<'_>, limit: &Arc<Limit>) -> Option<&'a Space> {
        self.names.space_of_one(limit, target.space, &self.properties)
    }
}

/// Takes out the cells at `places`; the others are taken from `new`.
fn take_cells(
    held: &mut HeldKey<'_>,
    limits: &[Arc<Limit>],
    places: &[Option<usize>],
    new: impl Iterator<Item = Option<Cell>>,
) -> Vec<Cell> {
    let each = limits.iter().zip(places).zip(new);
    let cell = |((limit, place), new): ((&Arc<Limit>, &Option<usize>), Option<Cell>)| {
        place.and_then(|place| held.take_cell(place)).or(new).unwrap_or_else(|| limit.fresh())
    };
    each.map(cell).collect()
}

/// Returns the time of the latest charge in the cells.
#[inline(always)]
pub(crate) fn latest(cells: &[Cell]) -> Timestamp {
    let mut latest = Timestamp::default();
    for cell in cells {
        latest = latest.max(cell.latest());
    }
    latest
}

/// The wait reported for a request that was refused for lack of memory. It is not known when there will be some.
const RETRY: Micros = Micros::from_secs(1);

/// Returns the refusal of a request that could not be decided for lack of memory.
#[cold]
pub(crate) fn no_room(t: Timestamp) -> Decision {
    Decision::closed(RETRY, t)
}
