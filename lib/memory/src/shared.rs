//! The state that all clones of a store share: shards, names, and operations under the lock of a shard.

use std::cell::OnceCell;
use std::sync::Arc;

use tollgate_kernel::{Clock, Limit, Policy, StoreError, Timestamp};

use crate::budget::Budget;
use crate::clock::MemoryClock;
use crate::ident::{StoreIdent, StoreSecret};
use crate::memory::{MAX_CAP, MIN_CAP};
use crate::names::PolicyNames;
use crate::overflow::MemoryOverflow;
use crate::record::Mirror;
use crate::shard::Shard;
use crate::slot::SlotContents;
use crate::space::{Space, StoreProperties};

/// The reciprocal of the share of the cap for overflow buckets, which keys share when there is no room for their own
/// state.
const OVERFLOW_SHARE: usize = 8;
/// The reciprocal of the share of the cap that is reserved for starts. A store may need a little more memory after a
/// restart than before, since keys arrive in another order and room is made at other times. Three quarters of the
/// reserve are for keys, the rest for overflow buckets.
const RESERVE_SHARE: usize = 16;
const SHARDS: usize = if crate::sync::MODELLED { 1 } else { 16 };

/// The parts of a store.
pub(crate) struct MemoryCore {
    pub(crate) properties: StoreProperties,
    pub(crate) clock: MemoryClock,
    /// Seven eighths of the cap, minus the reserve for starts.
    pub(crate) budget: Budget,
    pub(crate) shards: Box<[Shard]>,
    /// The overflow buckets: the last eighth.
    pub(crate) overflow: MemoryOverflow,
    pub(crate) names: PolicyNames,
    pub(crate) cap: usize,
}

/// The policy that a key is decided under, with its space.
#[derive(Clone, Copy)]
pub(crate) struct TargetPolicy<'a> {
    pub(crate) space: &'a Space,
    pub(crate) policy: &'a Policy,
    /// Whether the policy has the limits of the space's own policy.
    pub(crate) is_own: bool,
    /// Whether the policy is decided by the machine's clock, because all its limits are aligned to it.
    pub(crate) wall: bool,
}

impl<'a> TargetPolicy<'a> {
    /// Returns the limits of the policy, and their space if they have one of their own.
    pub(crate) fn limits(&self) -> (&'a [Arc<Limit>], Option<&'a Space>) {
        (self.policy.limits(), self.is_own.then_some(self.space))
    }
}

/// The time, read once for all keys that are examined.
#[derive(Debug, Default)]
pub(crate) struct StoreTimes {
    now: OnceCell<Timestamp>,
    wall: OnceCell<Timestamp>,
}

impl StoreTimes {
    /// Returns the times for an operation at `when`, for which one of the clocks was just read and showed `t`.
    pub(crate) fn of(when: OperationTime, t: Timestamp, wall: bool) -> Self {
        match when {
            OperationTime::Now if wall => Self { wall: t.into(), ..Self::default() },
            OperationTime::Now => Self { now: t.into(), ..Self::default() },
            OperationTime::At(t) => Self::at(t, wall),
        }
    }

    /// Returns the times for an operation at `when`; the clocks are read when they are needed.
    pub(crate) fn unread(when: OperationTime, wall: bool) -> Self {
        match when {
            OperationTime::Now => Self::default(),
            OperationTime::At(t) => Self::at(t, wall),
        }
    }

    /// Returns the times for a moment in the past by one of the clocks. The time by the other clock is not known, so
    /// nothing counts as expired by that clock.
    pub(crate) fn at(t: Timestamp, wall: bool) -> Self {
        let other = OnceCell::from(Timestamp::default());
        if wall { Self { now: other, wall: t.into() } } else { Self { now: t.into(), wall: other } }
    }
}

/// How much memory may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryAllowance {
    /// The memory for ordinary decisions.
    Usual,
    /// Most of the reserve for starts as well: for a replay.
    Replay,
    /// Like `Replay`, for the table too: a table that did not grow before is filled up first.
    ReplayInTable,
    /// Like `Replay`, for operations in overflow buckets alone.
    ReplayInBuckets,
    /// All that the cap allows: for a snapshot, which may come from a store that used the memory for a replay.
    Start,
    /// A sixteenth more than the cap: for a start that would fail otherwise.
    Excess,
}

/// The time at which an operation on a key happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationTime {
    /// The current time of the clock.
    Now,
    /// A time in the past.
    At(Timestamp),
}

impl MemoryCore {
    pub(crate) fn new(cap: usize, clock: MemoryClock, secret: StoreSecret) -> Self {
        let cap = cap.clamp(MIN_CAP, MAX_CAP);
        let reserve = cap / RESERVE_SHARE / 4;
        let overflow = MemoryOverflow::new(cap / OVERFLOW_SHARE - reserve);
        let budget = Budget::new(cap - cap / OVERFLOW_SHARE - 3 * reserve);
        let properties =
            StoreProperties { secret, is_monotonic: clock.is_monotonic(), overflow_bytes: overflow.bytes() };
        // Shards fill evenly, so twice an even share is more than any of them needs.
        let shards = (0..SHARDS).map(|_| Shard::new(budget.cap() / SHARDS * 2, &budget)).collect();
        Self { properties, clock, budget, shards, overflow, names: PolicyNames::new(), cap }
    }

    /// Returns the space of a policy, and whether it is the policy's own.
    pub(crate) fn space(&self, policy: &Policy) -> Result<(Arc<Space>, bool), StoreError> {
        self.names.space(policy, &self.properties)
    }

    /// Sets how much memory may be used from now on.
    pub(crate) fn allow(&self, room: MemoryAllowance) {
        let reserve = self.cap / RESERVE_SHARE / 4;
        let slack = match room {
            MemoryAllowance::Usual => 0,
            MemoryAllowance::Replay | MemoryAllowance::ReplayInTable | MemoryAllowance::ReplayInBuckets => {
                reserve / 4 * 3
            }
            MemoryAllowance::Start => reserve,
            MemoryAllowance::Excess => 2 * reserve,
        };
        let in_table =
            matches!(room, MemoryAllowance::ReplayInTable | MemoryAllowance::Start | MemoryAllowance::Excess);
        self.budget.allow(if room == MemoryAllowance::ReplayInBuckets { 0 } else { 3 * slack }, in_table);
        // There are two kinds of buckets.
        self.overflow.allow(slack / 2, in_table);
    }

    /// Returns the number of bytes used.
    pub(crate) fn used(&self) -> usize {
        self.budget.used() + self.overflow.used()
    }

    #[inline]
    pub(crate) fn shard(&self, ident: StoreIdent) -> &Shard {
        &self.shards[self.shard_index(ident)]
    }

    #[inline]
    pub(crate) fn shard_index(&self, ident: StoreIdent) -> usize {
        ident.shard as usize % SHARDS
    }

    #[inline]
    pub(crate) fn now(&self, target: TargetPolicy<'_>) -> Timestamp {
        if target.wall { self.clock.wall() } else { self.clock.now() }
    }

    pub(crate) fn time(&self, when: OperationTime, target: TargetPolicy<'_>) -> Timestamp {
        match when {
            OperationTime::Now => self.now(target),
            OperationTime::At(t) => t,
        }
    }

    /// Returns [`MemoryCore::not_before`] for the current time; a time in the past is returned unchanged.
    pub(crate) fn not_before_when(
        &self,
        when: OperationTime,
        latest: Timestamp,
        t: Timestamp,
        target: TargetPolicy<'_>,
    ) -> Timestamp {
        match when {
            OperationTime::Now => self.not_before(latest, t, target),
            OperationTime::At(t) => t,
        }
    }

    /// Returns whether a key may be forgotten, because a key that was never seen would get the same decisions.
    pub(crate) fn expired(&self, seen: &SlotContents, times: &StoreTimes) -> bool {
        let Some(space) = self.names.space_of(seen) else { return false };
        let t = self.read(times, space.wall);
        if seen.boxed() {
            return Mirror::unpack(seen.words).expires <= t;
        }
        space.own.limits().first().is_none_or(|limit| !limit.remembers(&limit.unpack(seen.words), t))
    }

    fn read(&self, times: &StoreTimes, wall: bool) -> Timestamp {
        match wall {
            true => *times.wall.get_or_init(|| self.clock.wall()),
            false => *times.now.get_or_init(|| self.clock.now()),
        }
    }
}
