//! What was decided before, told again: for who keeps a journal of decisions and reads it after a restart.
//!
//! A store that is told every charge, refund and reset of another, in its order for each key, remembers
//! what the other did and goes on deciding as it would have. Times are those the other decided at, so it
//! does not matter when it is told, nor what the clock has come to since; keys make room for others by those
//! times too. What a refusal leaves behind is not told: a clock that was set back is then corrected by the
//! next charge, and a policy that replaced another finds its keys by its own next charge.

use std::sync::Arc;

use tollgate_core::{Cell, Cost, EXACT, KeyState, Mode, Request, Timestamp, decide_packed, decide_with};

use crate::draw::Done;
use crate::held::{Held, Moment};
use crate::ident::Ident;
use crate::memory::{Memory, Prepared, Refunded};
use crate::overflow::Overflows;
use crate::shard::lock_slot;
use crate::shared::{Shared, Target, When};

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
        self.shared().refund(When::At(t), policy.target(), policy.ident(key), units, at).units
    }

    /// Forgets the key under the policy, at `t`: see [`Memory::reset`].
    pub fn reset_at(&self, policy: &Prepared, key: &[u8], t: Timestamp) {
        self.shared().reset(When::At(t), policy.target(), policy.ident(key));
    }
}

impl Shared {
    /// Gives back what is still held of `units` charged at `at`.
    pub(crate) fn refund(&self, when: When, target: Target<'_>, ident: Ident, units: u64, at: Timestamp) -> Refunded {
        let refund = |cells: &mut [Cell], t| {
            // Logs change by whole units alone.
            let before: Vec<_> = cells.iter().map(|cell| (!cell.has_log()).then(|| cell.clone())).collect();
            let units = tollgate_core::refund(target.policy, cells, t, units, at);
            let mut each = before.iter().zip(&*cells);
            let changed = units > 0 || each.any(|(before, cell)| before.as_ref().is_some_and(|before| before != cell));
            Done { answer: Refunded { units, t, changed }, changed: units > 0 }
        };
        let none = || Refunded { units: 0, t: self.time(when, target), changed: false };
        self.with_cells(when, target, ident, refund).unwrap_or_else(none)
    }

    /// Forgets a key under a policy. What it used of a bucket is not its own to forget.
    pub(crate) fn reset(&self, when: When, target: Target<'_>, ident: Ident) {
        let shard = self.shard(ident);
        let mut inner = shard.lock();
        let Some((slot, _)) = shard.find(ident) else { return };
        let Some(mut held) = Held::known(self, shard, &self.budget, lock_slot(slot)) else { return };
        let limits = target.policy.limits();
        let places = held.places(limits);
        for (limit, place) in limits.iter().zip(places) {
            if let Some(place) = place {
                held.give(place, limit.fresh());
            }
        }
        held.put_back(&mut inner, self.moment(when, self.time(when, target)), None);
    }

    fn charge_at(&self, target: Target<'_>, ident: Ident, request: &Request, t: Timestamp) {
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
            Done { answer: (), changed: true }
        };
        let _ = self.with_cells(When::At(t), target, ident, charge);
    }

    fn state(&self, target: Target<'_>, ident: Ident) -> Option<KeyState> {
        let shard = self.shard(ident);
        let _inner = shard.lock();
        let own = shard.find(ident).and_then(|(slot, _)| Held::known(self, shard, &self.budget, lock_slot(slot)));
        let is_new = own.is_none();
        let (mut state, shares) = match own {
            Some(held) => {
                let state = held.state();
                let shares = held.may_share();
                held.leave_untouched();
                (state, shares)
            }
            None => (KeyState::default(), true),
        };
        if shares && self.overflow.is_used(target.space) {
            // The locks of buckets come after those of all shards.
            let bucket =
                Overflows::one(self, When::Now).look(target.space, ident, |bucket| bucket.state()).ok().flatten();
            let missing = bucket.iter().flat_map(KeyState::each).filter(|(limit, cell)| {
                let is_asked = target.policy.limits().iter().any(|asked| asked.finds(limit, cell));
                (is_new || is_asked) && state.position(limit).is_none()
            });
            let missing: Vec<_> = missing.map(|(limit, cell)| (Arc::clone(limit), cell.clone())).collect();
            missing.into_iter().for_each(|(limit, cell)| state.keep(limit, cell));
        }
        Some(state.sorted(self.now(target))).filter(|state| !state.is_empty())
    }

    fn put_state(&self, target: Target<'_>, ident: Ident, state: KeyState) {
        // No time has passed for a state but its own: later ones may still be told.
        let t = Timestamp::default();
        let at = Moment { later: t, earlier: t };
        let shard = self.shard(ident);
        let mut inner = shard.lock();
        let when = When::At(state.latest());
        if let Some(held) = self.open(shard, &mut inner, when, target, ident) {
            if state.is_empty() {
                return held.forget(&mut inner);
            }
            if held.put_state(&mut inner, target.limits(), state.clone(), at) {
                return;
            }
            // What does not fit is in the bucket from now on, and nowhere else.
            if let Some((slot, _)) = shard.find(ident)
                && let Some(held) = Held::known(self, shard, &self.budget, lock_slot(slot))
            {
                held.forget(&mut inner);
            }
        }
        if state.is_empty() {
            return;
        }
        let mut overflows = Overflows::one(self, when);
        if let Some((_, held, inner)) = overflows.open(target.space, ident) {
            held.put_state(inner, target.limits(), state, at);
        }
    }
}
