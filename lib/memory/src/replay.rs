//! Replay of earlier decisions, for programs that keep a journal of decisions and read it after a restart.
//!
//! A store that replays every charge, refund and reset of another, in the same order for each key, reaches the state of
//! the other and continues to decide as it would have. Times are those of the original decisions, so neither the time
//! of the replay nor the current clock matters; keys make room for others by those times too. The side effects of a
//! refusal are not replayed: a clock that was set back is then corrected by the next charge, and a policy that replaced
//! another finds its keys by its own next charge.

use std::sync::Arc;

use tollgate_kernel::{
    Cell, Cost, EXACT, KeyState, Limit, MAX_LIMITS, MAX_OTHER_LIMITS, Mode, Request, Timestamp, decide_packed,
    decide_with,
};

use crate::draw::{CellOutcome, Effort};
use crate::held_key::{HeldKey, Moment};
use crate::ident::StoreIdent;
use crate::memory::{Memory, MemoryPolicy, MemoryRefund};
use crate::overflow::OverflowLocks;
use crate::shard::lock_slot;
use crate::shared::{MemoryAllowance, MemoryCore, OperationTime, StoreTimes, TargetPolicy};

/// The state of a key.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PlacedState {
    /// The state in the key's own place; `None` if the key has no place or no state in it.
    pub own: Option<KeyState>,
    /// Whether some of the key's consumption may be in a bucket that it shares with others.
    pub shares: bool,
}

impl Memory {
    /// Returns the whole state of a key under the policy's name, including limits that the policy does not have, in the
    /// order of their ids and without what has expired.
    pub fn state(&self, policy: &MemoryPolicy, key: &[u8]) -> PlacedState {
        self.shared().state(policy.target(), policy.ident(key))
    }

    /// Returns whether keys under the policy's name may share buckets for lack of memory.
    #[inline]
    pub fn has_buckets(&self, policy: &MemoryPolicy) -> bool {
        self.shared().overflow.is_used(policy.target().space)
    }

    /// Returns whether a key has a place of its own for its consumption of all limits of the policy. If not, it shares
    /// a bucket, or was never charged.
    pub fn has_place(&self, policy: &MemoryPolicy, key: &[u8]) -> bool {
        let (shared, ident, limits) = (self.shared(), policy.ident(key), policy.policy().limits());
        let shard = shared.shard(ident);
        let _inner = shard.lock();
        shared.open_known(shard, ident).is_some_and(|held| {
            let has_all = !held.places(limits).contains(&None);
            held.leave_untouched();
            has_all
        })
    }

    /// Replaces the state in the key's own place under the policy's name. An empty state resets the place. If there is
    /// no memory, the state is added to the bucket that the key shares.
    pub fn put_state(&self, policy: &MemoryPolicy, key: &[u8], state: KeyState) {
        self.shared().put_state(policy.target(), policy.ident(key), state);
    }

    /// Adds a state to the cells of other limits in the key's own place. From now on the key shares a bucket.
    pub fn put_part(&self, policy: &MemoryPolicy, key: &[u8], state: KeyState) {
        self.shared().put_part(policy.target(), policy.ident(key), state);
    }

    /// Charges `units` at `t`, whether they fit or not. They are those of an earlier decision, see [`Request::leaves`],
    /// and `t` is its time.
    pub fn charge_at(&self, policy: &MemoryPolicy, key: &[u8], units: u64, t: Timestamp) {
        self.shared().charge_at(policy.target(), policy.ident(key), units, t, Effort::Everywhere);
    }

    /// Charges like [`Memory::charge_at`], for a key that had no place of its own for some of the limits. It gets none
    /// from the reserve for starts, so that others have as much memory as before.
    pub fn charge_bucket_at(&self, policy: &MemoryPolicy, key: &[u8], units: u64, t: Timestamp) {
        self.shared().charge_at(policy.target(), policy.ident(key), units, t, Effort::Nowhere);
    }

    /// Refunds at `t` what was still held then of `units` charged at `at`, and returns the number of units refunded.
    pub fn refund_at(&self, policy: &MemoryPolicy, key: &[u8], units: u64, at: Timestamp, t: Timestamp) -> u64 {
        self.shared().refund(OperationTime::At(t), policy.target(), policy.ident(key), units, at).units
    }

    /// Deletes the state of the key under the policy, at `t`: see [`Memory::reset`].
    pub fn reset_at(&self, policy: &MemoryPolicy, key: &[u8], t: Timestamp) {
        self.shared().reset(OperationTime::At(t), policy.target(), policy.ident(key));
    }
}

impl MemoryCore {
    /// Refunds what is still held of `units` charged at `at`.
    pub(crate) fn refund(
        &self,
        when: OperationTime,
        target: TargetPolicy<'_>,
        ident: StoreIdent,
        units: u64,
        at: Timestamp,
    ) -> MemoryRefund {
        let refund = |cells: &mut [Cell], t| {
            // Logs change only by whole units.
            let before: Vec<_> = cells.iter().map(|cell| (!cell.has_log()).then(|| cell.clone())).collect();
            let units = tollgate_kernel::refund(target.policy, cells, t, units, at);
            let mut each = before.iter().zip(&*cells);
            let changed = units > 0 || each.any(|(before, cell)| before.as_ref().is_some_and(|before| before != cell));
            CellOutcome { answer: MemoryRefund { units, t, changed }, changed: units > 0 }
        };
        let none = || MemoryRefund { units: 0, t: self.time(when, target), changed: false };
        self.with_cells(Effort::WithoutCharge, when, target, ident, refund).unwrap_or_else(none)
    }

    /// Deletes the state of a key under a policy. Its consumption in a bucket is kept, because the bucket is shared.
    pub(crate) fn reset(&self, when: OperationTime, target: TargetPolicy<'_>, ident: StoreIdent) {
        let shard = self.shard(ident);
        let mut inner = shard.lock();
        let Some((slot, _)) = shard.find(ident) else { return };
        let Some(mut held) = HeldKey::known(self, shard, &self.budget, lock_slot(slot)) else { return };
        let limits = target.policy.limits();
        let places = held.places(limits);
        for (limit, place) in limits.iter().zip(places) {
            if let Some(place) = place {
                held.put_cell(place, limit.fresh());
            }
        }
        held.put_back(&mut inner, self.moment(when, target, self.time(when, target)), None);
    }

    fn charge_at(&self, target: TargetPolicy<'_>, ident: StoreIdent, units: u64, t: Timestamp, effort: Effort) {
        let Some(cost) = Cost::new(units.min(EXACT - 1)).filter(|cost| cost.get() > 0) else { return };
        let request = &Request::cost(cost).mode(Mode::Uniform);
        if target.is_own
            && let Some((slot, seen)) = self.shard(ident).find(ident)
            && seen.is_packed_by(target.space.rank)
            && !seen.is_fresh()
            && let Some((_, words)) = decide_packed(target.policy, seen.words, t, request)
            && slot.replace(seen, words)
        {
            return;
        }
        let charge = |cells: &mut [Cell], t| {
            let _ = decide_with(target.policy, cells, t, request, |_| {});
            CellOutcome { answer: (), changed: true }
        };
        self.replay_with(effort, || self.with_cells(effort, OperationTime::At(t), target, ident, charge).is_some());
    }

    /// Repeats an earlier operation; returns whether there was enough memory. There was originally, but keys are in
    /// other places now and are forgotten at other moments, which takes a little more. If the reserve for replays is
    /// not enough, the part for snapshots is used too, rather than losing state.
    fn replay_with(&self, effort: Effort, act: impl Fn() -> bool) -> bool {
        let room =
            if effort == Effort::Everywhere { MemoryAllowance::Replay } else { MemoryAllowance::ReplayInBuckets };
        let done = [room, MemoryAllowance::Start].into_iter().any(|room| {
            self.allow(room);
            act()
        });
        self.allow(MemoryAllowance::Usual);
        done
    }

    fn state(&self, target: TargetPolicy<'_>, ident: StoreIdent) -> PlacedState {
        let shard = self.shard(ident);
        let _inner = shard.lock();
        let (mut own, shares) = match self.open_known(shard, ident) {
            Some(held) => {
                let (state, shares) = (held.state(), held.may_share());
                held.leave_untouched();
                (state, shares)
            }
            None => (KeyState::default(), true),
        };
        let shares = shares && self.overflow.is_used(target.space);
        let at = self.moment(OperationTime::Now, target, self.now(target));
        // For a key that shares a bucket, cells in their initial state are included: cells that are left out stay
        // unchanged.
        if !shares {
            own.retain(|limit, cell| at.remembers(limit, cell));
            own = own.sorted(Timestamp::default());
        }
        PlacedState { own: Some(own).filter(|state| !state.is_empty()), shares }
    }

    fn put_state(&self, target: TargetPolicy<'_>, ident: StoreIdent, state: KeyState) {
        let is_put = self.replay_with(Effort::Everywhere, || self.put_own(target, ident, &state, false));
        if !is_put && self.replay_with(Effort::Nowhere, || self.put_bucket(target, ident, &state)) {
            // The state is now in the bucket, and must not be anywhere else.
            self.put_own(target, ident, &KeyState::default(), false);
        }
    }

    fn put_part(&self, target: TargetPolicy<'_>, ident: StoreIdent, state: KeyState) {
        let known = self.state(target, ident).own;
        if state.is_empty() && known.is_none() {
            return;
        }
        let mut all = known.unwrap_or_default();
        for (limit, cell) in state.each() {
            match all.position(limit) {
                Some(place) => _ = all.replace(place, Some(limit), cell.clone()),
                None => all.keep(Arc::clone(limit), cell.clone()),
            }
        }
        if all.each().count() > MAX_CELLS {
            // The given state is current; the rest has mostly expired.
            all = state;
        }
        if !self.replay_with(Effort::Everywhere, || self.put_own(target, ident, &all, true)) {
            self.replay_with(Effort::Nowhere, || self.put_bucket(target, ident, &all));
        }
    }

    /// Puts a state into the key's own place, as of its latest charge; returns whether there was enough memory.
    /// `shares` is whether the key shares a bucket from now on.
    fn put_own(&self, target: TargetPolicy<'_>, ident: StoreIdent, state: &KeyState, shares: bool) -> bool {
        let shard = self.shard(ident);
        let mut inner = shard.lock();
        if state.is_empty() && shard.find(ident).is_none() {
            return true;
        }
        let times = StoreTimes::at(state.latest(), target.wall);
        let Some(mut held) = self.open(Effort::Everywhere, shard, &mut inner, &times, target, ident) else {
            return false;
        };
        if state.is_empty() {
            held.forget(&mut inner);
            return true;
        }
        if shares {
            held.share();
        }
        let at = Moment::at(state.latest());
        held.put_state(&mut inner, self.names.space_with(state, target.space), state.clone(), at)
    }

    /// Puts a state into the bucket that a key shares; returns whether there was enough memory. Of two cells that count
    /// the same limit, under the same numbers if callers choose them, the one with the later reset is kept.
    fn put_bucket(&self, target: TargetPolicy<'_>, ident: StoreIdent, state: &KeyState) -> bool {
        let mut overflows = OverflowLocks::one(self, OperationTime::At(state.latest()));
        let Some((_, held, inner)) = overflows.open(target.space, ident) else { return false };
        let all = merge_states(held.state(), state, target.space.is_callers);
        if all.each().count() > MAX_CELLS {
            held.leave_untouched();
            return false;
        }
        let (own, at) = (self.names.space_with(&all, target.space), Moment::at(all.latest()));
        held.put_state(inner, own, all, at)
    }
}

/// The maximum number of cells of a key or a bucket: those of the most other limits, and of the largest policy.
const MAX_CELLS: usize = MAX_OTHER_LIMITS + MAX_LIMITS;

/// Merges the cells of both states that still matter; of two that count the same limit, keeps the one with the later
/// reset.
fn merge_states(mut all: KeyState, more: &KeyState, is_exact: bool) -> KeyState {
    let t = more.latest().max(all.latest());
    all.retain(|limit, cell| limit.remembers(cell, t));
    for (limit, cell) in more.each() {
        let same = |(held, old): (&Arc<Limit>, &Cell)| limit.finds(held, old) && (!is_exact || held == limit);
        let Some(place) = all.each().position(same) else {
            all.keep(Arc::clone(limit), cell.clone());
            continue;
        };
        let held = all.each().nth(place).map(|(held, old)| held.reset_after(old, t));
        if held.is_some_and(|held| limit.reset_after(cell, t) > held) {
            all.replace(place, Some(limit), cell.clone());
        }
    }
    all
}
