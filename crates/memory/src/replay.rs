//! What was decided before, told again: for who keeps a journal of decisions and reads it after a restart.
//!
//! A store that is told every charge, refund and reset of another, in its order for each key, remembers
//! what the other did and goes on deciding as it would have. Times are those the other decided at, so it
//! does not matter when it is told, nor what the clock has come to since; keys make room for others by those
//! times too. What a refusal leaves behind is not told: a clock that was set back is then corrected by the
//! next charge, and a policy that replaced another finds its keys by its own next charge.

use tollgate_core::{Cell, Cost, EXACT, KeyState, Mode, Request, Timestamp, decide_packed, decide_with};

use crate::budget::Budget;
use crate::ident::Ident;
use crate::memory::{Memory, Prepared};
use crate::record::{Mirror, Record};
use crate::shard::{AtCap, Shard, lock_slot};
use crate::shared::{Shared, Target, Times, When, packed};
use crate::slot::Seen;

impl Memory {
    /// All that is remembered of a key under the policy's name, also by limits that the policy does not have:
    /// in the order of their ids, without what has expired. A key that shares a bucket with others has the
    /// bucket's. Nothing if there is nothing.
    pub fn state(&self, policy: &Prepared, key: &[u8]) -> Option<KeyState> {
        self.shared().state(policy.target(), policy.ident(key))
    }

    /// Puts a state that [`Memory::state`] told in the place of whatever is remembered of the key under the
    /// policy's name. An empty one makes it as new. One that finds no room takes the place of the bucket that
    /// the key shares.
    pub fn put_state(&self, policy: &Prepared, key: &[u8], state: KeyState) {
        self.shared().put_state(policy.target(), policy.ident(key), state);
    }

    /// Charges `units` at `t`, whether they fit or not: those of an earlier decision, see [`Request::leaves`],
    /// at its time.
    pub fn charge_at(&self, policy: &Prepared, key: &[u8], units: u64, t: Timestamp) {
        if let Some(cost) = Cost::new(units.min(EXACT - 1)).filter(|cost| cost.get() > 0) {
            let request = Request::cost(cost).mode(Mode::Uniform);
            self.shared().charge_at(policy.target(), policy.ident(key), &request, t);
        }
    }

    /// Gives back at `t` what was still held then of `units` charged at `at`; answers the units given back.
    pub fn refund_at(&self, policy: &Prepared, key: &[u8], units: u64, at: Timestamp, t: Timestamp) -> u64 {
        let target = policy.target();
        let refund = |cells: &mut [Cell], t| tollgate_core::refund(target.policy, cells, t, units, at);
        self.shared().with_cells_when(When::At(t), target, policy.ident(key), refund)
    }

    /// Forgets the key under the policy, at `t`: see [`Memory::reset`].
    pub fn reset_at(&self, policy: &Prepared, key: &[u8], t: Timestamp) {
        self.shared().reset(When::At(t), policy.target(), policy.ident(key));
    }
}

impl Shared {
    /// A key without a place of its own has nothing of its own to forget.
    pub(crate) fn reset(&self, when: When, target: Target<'_>, ident: Ident) {
        let mut reset = |cells: &mut [Cell], _| {
            for (cell, limit) in cells.iter_mut().zip(target.policy.limits()) {
                *cell = limit.fresh();
            }
        };
        self.with_own_cells(when, self.shard(ident), &self.budget, target, ident, &mut reset);
    }

    fn charge_at(&self, target: Target<'_>, ident: Ident, request: &Request, t: Timestamp) {
        if target.is_own
            && let Some((slot, seen)) = self.shard(ident).find(ident)
            && seen.is_packed_by(target.space.rank)
            && let Some((_, words)) = decide_packed(target.policy, seen.words, t, request)
            && slot.replace(seen, words)
        {
            return;
        }
        let mut charge = |cells: &mut [Cell], t| {
            let _ = decide_with(target.policy, cells, t, request, |_| {});
        };
        self.with_cells_when(When::At(t), target, ident, &mut charge);
    }

    fn state(&self, target: Target<'_>, ident: Ident) -> Option<KeyState> {
        let shard = self.shard(ident);
        let _inner = shard.lock();
        let found = self.copy(shard, target, ident).or_else(|| {
            // The overflow's lock comes after those of all shards.
            let overflow = self.overflow.get()?;
            let _inner = overflow.lock();
            self.copy(overflow, target, target.space.overflow(&self.secret, ident))
        });
        found.filter(|state| !state.is_empty())
    }

    /// What a key remembers, if it is in this shard, whose lock is held.
    fn copy(&self, shard: &Shard, target: Target<'_>, ident: Ident) -> Option<KeyState> {
        let (slot, _) = shard.find(ident)?;
        let locked = lock_slot(slot);
        let space = self.target_at(target, &locked.seen).space;
        let state = if locked.seen.boxed() {
            shard.record(Mirror::unpack(locked.seen.words).record)?.state(&space.own)
        } else {
            KeyState::of(&space.own, vec![space.own.limits().first()?.unpack(locked.seen.words)])
        };
        Some(state.sorted(self.now(space)))
    }

    fn put_state(&self, target: Target<'_>, ident: Ident, state: KeyState) {
        if self.put_into(self.shard(ident), &self.budget, target, ident, &state) || state.is_empty() {
            return;
        }
        let bucket = target.space.overflow(&self.secret, ident);
        // The overflow has memory for all its buckets.
        while !self.put_into(self.overflow(), &self.overflow_budget, target, bucket, &state) {}
    }

    /// Puts a state into this shard; answers whether there was room.
    fn put_into(&self, shard: &Shard, budget: &Budget, target: Target<'_>, ident: Ident, state: &KeyState) -> bool {
        let mut inner = shard.lock();
        let known = shard.find(ident);
        if known.is_none() && state.is_empty() && self.overflow.get().is_none() {
            return true;
        }
        // No time has passed for a state but its own: later ones may still be told.
        let (mut state, t, latest) = (state.clone(), Timestamp::default(), state.latest());
        let cells = state.cells_of(target.policy, t).to_vec();
        let is_own = target.is_own && state.each().count() == cells.len();
        let words = if is_own { packed(target, &cells) } else { None };
        let record = if is_own { Record::of(cells) } else { Record::changed(state) };
        let times = Times::at(latest, target.space.wall);
        let place = match known {
            Some((slot, _)) => lock_slot(slot),
            None => match shard.place(&mut inner, ident, budget, &|seen: &Seen| self.expired(seen, &times)) {
                Some(place) => place,
                None => return false,
            },
        };
        let boxed = words.is_none();
        // A key that is known is not sent to a shared bucket: it passes the cap if need be.
        let at_cap = if known.is_some() { AtCap::Pass } else { AtCap::Stop };
        let kept = words.or_else(|| self.keep(shard, &mut inner, budget, target, record, t, at_cap));
        let Some(words) = kept else {
            shard.forget(&mut inner, place, budget);
            return false;
        };
        if place.seen.boxed() {
            shard.unkeep(&mut inner, Mirror::unpack(place.seen.words).record, budget);
        }
        place.fill(ident.print, ident.mark, target.space.rank, words, boxed);
        true
    }
}
