//! What all clones of a store share: shards, names, and what is done under the lock of a shard.

use std::cell::OnceCell;
use std::sync::Arc;

use tollgate_core::{Clock, Limit, Micros, Policy, StoreError, Timestamp};

use crate::budget::Budget;
use crate::clock::Source;
use crate::ident::{Ident, Secret};
use crate::memory::{LEAST_CAP, MOST_CAP};
use crate::names::Names;
use crate::overflow::Overflow;
use crate::record::Mirror;
use crate::shard::Shard;
use crate::slot::Seen;
use crate::space::{Facts, Space};

/// One part in so many of the cap is for what keys share when there is no room for their own.
const OVERFLOW_SHARE: usize = 8;
/// One part in so many of the cap is for starts: what was stopped may need a little more room than it had, since keys
/// come in another order and make room at other times. Three quarters of it are for keys, the rest for what they share.
const RESERVE_SHARE: usize = 16;
const SHARDS: usize = if crate::sync::MODELLED { 1 } else { 16 };

/// The parts of a store.
pub(crate) struct Shared {
    pub(crate) facts: Facts,
    pub(crate) clock: Source,
    /// Seven eighths of the cap, but for what is kept for starts.
    pub(crate) budget: Budget,
    pub(crate) shards: Box<[Shard]>,
    /// The buckets of what found no room: the last eighth.
    pub(crate) overflow: Overflow,
    pub(crate) names: Names,
    pub(crate) cap: usize,
}

/// What is asked of a key: a policy under its name.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) space: &'a Space,
    pub(crate) policy: &'a Policy,
    /// Whether the policy has the limits of the space's own.
    pub(crate) is_own: bool,
    /// Whether the machine's clock decides it: all its limits begin by that.
    pub(crate) wall: bool,
}

impl<'a> Target<'a> {
    /// Its limits, and the space that is theirs if they have one.
    pub(crate) fn limits(&self) -> (&'a [Arc<Limit>], Option<&'a Space>) {
        (self.policy.limits(), self.is_own.then_some(self.space))
    }
}

/// The time, read once for all keys that are looked at.
#[derive(Debug, Default)]
pub(crate) struct Times {
    now: OnceCell<Timestamp>,
    wall: OnceCell<Timestamp>,
}

impl Times {
    /// The time that something is done at.
    pub(crate) fn of(when: When, wall: bool) -> Self {
        match when {
            When::Now => Self::default(),
            When::At(t) => Self::at(t, wall),
        }
    }

    /// A time that was, by one of the clocks. What it was by the other is not known, so nothing has expired
    /// by that.
    pub(crate) fn at(t: Timestamp, wall: bool) -> Self {
        let other = OnceCell::from(Timestamp::default());
        if wall { Self { now: other, wall: t.into() } } else { Self { now: t.into(), wall: other } }
    }
}

/// How much may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// What decisions may take.
    Usual,
    /// Most of what is kept for starts: for what is done again that was done before.
    Again,
    /// As `Again`, for the table too: one that did not grow is filled up first.
    AgainInTable,
    /// As `Again`, for what is done in buckets alone.
    AgainInBuckets,
    /// All that the cap allows: for a snapshot, which may be of a store that took what is done again.
    Start,
    /// More than the cap, by a sixteenth: for a start that would fail otherwise.
    More,
}

/// When something is done to a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// As the clock reads.
    Now,
    /// At a time that was.
    At(Timestamp),
}

impl Shared {
    pub(crate) fn new(cap: usize, clock: Source, secret: Secret) -> Self {
        let cap = cap.clamp(LEAST_CAP, MOST_CAP);
        let reserve = cap / RESERVE_SHARE / 4;
        let overflow = Overflow::new(cap / OVERFLOW_SHARE - reserve);
        let budget = Budget::new(cap - cap / OVERFLOW_SHARE - 3 * reserve);
        let facts = Facts { secret, is_monotonic: clock.is_monotonic(), overflow_bytes: overflow.bytes() };
        // Shards fill alike, so twice an even share is more than any of them needs.
        let shards = (0..SHARDS).map(|_| Shard::new(budget.cap() / SHARDS * 2, &budget)).collect();
        Self { facts, clock, budget, shards, overflow, names: Names::new(), cap }
    }

    /// The space of a policy, and whether it is the policy's own.
    pub(crate) fn space(&self, policy: &Policy) -> Result<(Arc<Space>, bool), StoreError> {
        self.names.space(policy, &self.facts)
    }

    /// Lets so much be taken from now on.
    pub(crate) fn allow(&self, room: Room) {
        let reserve = self.cap / RESERVE_SHARE / 4;
        let slack = match room {
            Room::Usual => 0,
            Room::Again | Room::AgainInTable | Room::AgainInBuckets => reserve / 4 * 3,
            Room::Start => reserve,
            Room::More => 2 * reserve,
        };
        let in_table = matches!(room, Room::AgainInTable | Room::Start | Room::More);
        self.budget.allow(if room == Room::AgainInBuckets { 0 } else { 3 * slack }, in_table);
        // There are buckets of two kinds.
        self.overflow.allow(slack / 2, in_table);
    }

    /// Bytes taken.
    pub(crate) fn used(&self) -> usize {
        self.budget.used() + self.overflow.used()
    }

    #[inline]
    pub(crate) fn shard(&self, ident: Ident) -> &Shard {
        &self.shards[self.shard_index(ident)]
    }

    #[inline]
    pub(crate) fn shard_index(&self, ident: Ident) -> usize {
        ident.shard as usize % SHARDS
    }

    #[inline]
    pub(crate) fn now(&self, target: Target<'_>) -> Timestamp {
        if target.wall { self.clock.wall() } else { self.clock.now() }
    }

    pub(crate) fn time(&self, when: When, target: Target<'_>) -> Timestamp {
        match when {
            When::Now => self.now(target),
            When::At(t) => t,
        }
    }

    /// See [`Shared::not_before`]; a time that was is what it was.
    pub(crate) fn not_before_when(&self, when: When, latest: Timestamp, t: Timestamp, target: Target<'_>) -> Timestamp {
        match when {
            When::Now => self.not_before(latest, t, target),
            When::At(t) => t,
        }
    }

    /// Whether a key may be forgotten: then one never seen would decide alike.
    pub(crate) fn expired(&self, seen: &Seen, times: &Times) -> bool {
        let Some(space) = self.names.space_of(seen) else { return false };
        let t = self.read(times, space.wall);
        if seen.boxed() {
            return Mirror::unpack(seen.words).expires <= t;
        }
        let cell = space.own.limits()[0].unpack(seen.words);
        tollgate_core::expires_after(&space.own, std::slice::from_ref(&cell), t) == Micros::ZERO
    }

    fn read(&self, times: &Times, wall: bool) -> Timestamp {
        match wall {
            true => *times.wall.get_or_init(|| self.clock.wall()),
            false => *times.now.get_or_init(|| self.clock.now()),
        }
    }
}
