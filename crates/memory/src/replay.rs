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
use crate::shared::{Room, Shared, Target, When};

/// What is remembered of a key.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Remembered {
    /// In its own place; nothing if there is none, or nothing in it.
    pub own: Option<KeyState>,
    /// In the bucket that it shares with others, if anything that it used may be there.
    pub bucket: Option<KeyState>,
}

impl Memory {
    /// All that is remembered of a key under the policy's name, also by limits that the policy does not have:
    /// in the order of their ids, without what has expired.
    pub fn state(&self, policy: &Prepared, key: &[u8]) -> Remembered {
        self.shared().state(policy.target(), policy.ident(key))
    }

    /// Puts a state in the place of what the key's own place remembers under the policy's name. An empty one makes it as
    /// new. One that finds no room goes to the bucket that the key shares, beside what is there.
    pub fn put_state(&self, policy: &Prepared, key: &[u8], state: KeyState) {
        self.shared().put_state(policy.target(), policy.ident(key), state);
    }

    /// Puts a state into the bucket that the key shares: of two cells that count the same limit, the one that is held to
    /// it for longer stays.
    pub fn put_bucket(&self, policy: &Prepared, key: &[u8], state: KeyState) {
        self.shared().put_bucket(policy.target(), policy.ident(key), &state);
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
        self.or_by_reserve(|| self.with_cells(When::At(t), target, ident, charge).is_some());
    }

    /// Does what was done before: by what is kept for starts if there is no other room, and past the cap if that is used
    /// up too, so that nothing is forgotten for lack of room.
    fn or_by_reserve(&self, act: impl Fn() -> bool) -> bool {
        let rooms = [Room::Usual, Room::Reserve, Room::More];
        let done = rooms.into_iter().any(|room| {
            self.allow(room);
            act()
        });
        self.allow(Room::Usual);
        done
    }

    fn state(&self, target: Target<'_>, ident: Ident) -> Remembered {
        let shard = self.shard(ident);
        let _inner = shard.lock();
        let own = shard.find(ident).and_then(|(slot, _)| Held::known(self, shard, &self.budget, lock_slot(slot)));
        let (own, shares) = match own {
            Some(held) => {
                let (state, shares) = (held.state(), held.may_share());
                held.leave_untouched();
                (state, shares)
            }
            None => (KeyState::default(), true),
        };
        let sorted = |state: KeyState| Some(state.sorted(self.now(target))).filter(|state| !state.is_empty());
        let bucket = if shares && self.overflow.is_used(target.space) {
            // The locks of buckets come after those of all shards.
            let bucket = Overflows::one(self, When::Now).look(target.space, ident, |bucket| bucket.state());
            bucket.ok().flatten().and_then(sorted)
        } else {
            None
        };
        Remembered { own: sorted(own), bucket }
    }

    fn put_state(&self, target: Target<'_>, ident: Ident, state: KeyState) {
        if self.or_by_reserve(|| self.put_own(target, ident, &state)) {
            return;
        }
        // What does not fit is in the bucket from now on, and nowhere else.
        self.put_own(target, ident, &KeyState::default());
        self.put_bucket(target, ident, &state);
    }

    /// Puts a state into the key's own place, as of its latest charge; returns whether there was room.
    fn put_own(&self, target: Target<'_>, ident: Ident, state: &KeyState) -> bool {
        let shard = self.shard(ident);
        let mut inner = shard.lock();
        if state.is_empty() && shard.find(ident).is_none() {
            return true;
        }
        let Some(held) = self.open(shard, &mut inner, When::At(state.latest()), target, ident) else { return false };
        if state.is_empty() {
            held.forget(&mut inner);
            return true;
        }
        held.put_state(&mut inner, target.limits(), state.clone(), Moment::at(state.latest()))
    }

    fn put_bucket(&self, target: Target<'_>, ident: Ident, state: &KeyState) {
        let shard = self.shard(ident);
        let mut inner = shard.lock();
        if let Some((slot, _)) = shard.find(ident)
            && let Some(mut held) = Held::known(self, shard, &self.budget, lock_slot(slot))
        {
            let at = Moment::at(held.state().latest());
            held.share();
            held.leave(&mut inner, at);
        }
        self.or_by_reserve(|| {
            let mut overflows = Overflows::one(self, When::At(state.latest()));
            let Some((_, held, inner)) = overflows.open(target.space, ident) else { return false };
            let all = longer(held.state(), state);
            let at = Moment::at(all.latest());
            held.put_state(inner, target.limits(), all, at)
        });
    }
}

/// The cells of both states; of two that count the same limit, the one that is held to it for longer.
fn longer(mut all: KeyState, more: &KeyState) -> KeyState {
    let t = more.latest().max(all.latest());
    for (limit, cell) in more.each() {
        let Some(place) = all.position(limit) else {
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
