//! The store: deciding, charging, forgetting.
//!
//! A known key is decided without the shard's lock: read the clock and its slot, decide, and charge if the
//! slot is still as it was read. If the slot tells of a later charge the clock is read again, so that no
//! charge is later than the time it is decided at. All else goes under the lock of the key's shard.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

use tollgate_core::{
    Cell, Clock, Cost, Decision, Detail, KeyState, Micros, Policy, Request, StoreError, Timestamp, Together, Wait,
    decide_packed, decide_with,
};

use crate::budget::Budget;
use crate::clock::Source;
use crate::held::Held;
use crate::ident::{Ident, SPACE_BITS, Secret};
use crate::record::{Mirror, Record};
use crate::segments::Segments;
use crate::shard::{AtCap, Inner, Pair, Shard, lock_slot};
use crate::slot::{Seen, Slot};
use crate::space::{OVERFLOW_BUCKETS, Space};
use crate::sync::{AtomicU64, Ordering, relax};

/// The cap unless another is given: 64 MiB.
pub const DEFAULT_CAP: usize = 64 << 20;
/// The least cap: below, the shards alone take most of it.
pub const LEAST_CAP: usize = 4 << 20;
/// The greatest cap: 64 GiB.
pub const MOST_CAP: usize = 64 << 30;
/// The most policy names.
pub const MOST_NAMES: usize = 1 << SPACE_BITS;
const SHARDS: usize = if crate::sync::MODELLED { 1 } else { 16 };
/// Readings of a clock that should not be behind.
const CLOCK_READS: usize = 20;
/// Keys of a batch whose slots are fetched together.
const BATCH: usize = 16;

/// The embedded store. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) secret: Secret,
    pub(crate) clock: Source,
    pub(crate) budget: Budget,
    pub(crate) shards: Box<[Shard]>,
    /// The shared buckets of keys that found no room: few, beside the cap, and mostly none.
    pub(crate) overflow: OnceLock<Shard>,
    pub(crate) overflow_budget: Budget,
    pub(crate) overflowed: AtomicU64,
    pub(crate) spaces: Segments<OnceLock<Arc<Space>>>,
    names: RwLock<HashMap<Box<str>, u16>>,
    bare: OnceLock<Arc<Space>>,
}

/// What a store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys with a place of their own, some of which may be forgotten when room is needed.
    pub keys: usize,
    /// Bytes taken: table, records and logs.
    pub bytes: usize,
    /// Bytes that may be taken.
    pub cap: usize,
    /// Buckets in use that keys without a place share.
    pub overflow_buckets: usize,
    /// Decisions made in those since the store was made. Worth an alarm.
    pub overflow_decisions: u64,
}

/// A policy as a store knows it: what [`Memory::prepare`] makes.
#[derive(Clone, Debug)]
pub struct Prepared {
    space: Arc<Space>,
    /// Nothing if it is the name's own.
    policy: Option<Arc<Policy>>,
    /// Whether it has the limits of the name's own, if perhaps another mode.
    is_own: bool,
}

impl Prepared {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        self.policy.as_deref().unwrap_or(&self.space.own)
    }

    #[inline]
    fn target(&self) -> Target<'_> {
        Target { space: &self.space, policy: self.policy(), is_own: self.is_own }
    }
}

/// What is asked of a key: a policy under its name.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) space: &'a Space,
    pub(crate) policy: &'a Policy,
    /// Whether the policy has the limits of the name's own.
    pub(crate) is_own: bool,
}

/// The time, read once for all keys that are looked at.
#[derive(Debug, Default)]
pub(crate) struct Times {
    now: OnceCell<Timestamp>,
    wall: OnceCell<Timestamp>,
}

/// What came of deciding without the shard's lock.
enum Tried {
    Done(Decision),
    /// Somebody else charged the key in between.
    Changed,
    /// The key needs a record.
    Cannot,
}

impl Memory {
    /// A store of at most `cap` bytes, deciding by the process's monotonic clock.
    pub fn new(cap: usize) -> Self {
        Self::with_secret(cap, Source::of(None), Secret::random())
    }

    /// The same with another clock.
    pub fn with_clock(cap: usize, clock: Box<dyn Clock>) -> Self {
        Self::with_secret(cap, Source::of(Some(clock)), Secret::random())
    }

    pub(crate) fn with_secret(cap: usize, clock: Source, secret: Secret) -> Self {
        let budget = Budget::new(cap.clamp(LEAST_CAP, MOST_CAP));
        let overflow_budget = Budget::new(usize::MAX);
        // Shards fill alike, so twice an even share is more than any of them needs.
        let shards = (0..SHARDS).map(|_| Shard::new(budget.cap() / SHARDS * 2, &budget)).collect();
        let shared = Shared {
            secret,
            clock,
            budget,
            shards,
            overflow: OnceLock::new(),
            overflow_budget,
            overflowed: AtomicU64::new(0),
            spaces: Segments::new(MOST_NAMES),
            names: RwLock::default(),
            bare: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Whether both are the same store.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Makes a policy known, so that checks need not look for its name.
    pub fn prepare(&self, policy: &Policy) -> Result<Prepared, StoreError> {
        let space = self.shared.space(policy)?;
        let is_own = space.owns(policy);
        let same = is_own && space.own.mode() == policy.mode();
        Ok(Prepared { policy: (!same).then(|| Arc::new(policy.clone())), space, is_own })
    }

    /// Decides and charges.
    // The answer is written once, where the caller wants it: copying one costs as much as making it.
    #[inline(always)]
    pub fn check(&self, policy: &Prepared, key: &[u8], request: &Request) -> Result<Decision, StoreError> {
        StoreError::check_key(key)?;
        let (target, ident) = (policy.target(), policy.space.ident(key));
        if let Some(decision) = self.shared.decide_known(target, ident, request) {
            return Ok(decision);
        }
        self.check_slowly(target, ident, request)
    }

    #[inline(never)]
    fn check_slowly(&self, target: Target<'_>, ident: Ident, request: &Request) -> Result<Decision, StoreError> {
        Ok(self.shared.decide(target, ident, request))
    }

    /// The same, with each limit's part.
    pub fn check_full(
        &self,
        policy: &Prepared,
        key: &[u8],
        request: &Request,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        StoreError::check_key(key)?;
        let target = policy.target();
        let mut details = Vec::with_capacity(target.policy.limits().len());
        let decision = self.shared.with_cells(target, policy.space.ident(key), |cells, t| {
            details.clear();
            decide_with(target.policy, cells, t, request, |detail| details.push(detail))
        });
        Ok((decision, details))
    }

    /// Decides the same request on each of `keys`, into `decisions`, which it empties first. The slots
    /// are fetched together and the clock is read once for every 16 keys.
    pub fn check_many<K: AsRef<[u8]>>(
        &self,
        policy: &Prepared,
        keys: &[K],
        request: &Request,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), StoreError> {
        keys.iter().try_for_each(|key| StoreError::check_key(key.as_ref()))?;
        decisions.clear();
        decisions.reserve(keys.len());
        for batch in keys.chunks(BATCH) {
            self.shared.decide_batch(policy.target(), batch, request, decisions);
        }
        Ok(())
    }

    /// Decides several keys together: all are charged or none is.
    pub fn check_all(&self, items: &[(&Prepared, &[u8], Cost)]) -> Result<Together, StoreError> {
        items.iter().try_for_each(|(_, key, _)| StoreError::check_key(key))?;
        let idents = items.iter().map(|(policy, key, cost)| (policy.target(), policy.space.ident(key), *cost));
        self.shared.decide_all(idents.collect())
    }

    /// Forgets the key under the policy. One that shares a bucket since the store is full keeps sharing it.
    pub fn reset(&self, policy: &Prepared, key: &[u8]) -> Result<(), StoreError> {
        StoreError::check_key(key)?;
        let target = policy.target();
        let (shared, ident) = (&self.shared, policy.space.ident(key));
        // A key without a place of its own has nothing of its own to forget.
        shared.with_own_cells(shared.shard(ident), &shared.budget, target, ident, &mut |cells: &mut [Cell], _| {
            for (cell, limit) in cells.iter_mut().zip(target.policy.limits()) {
                *cell = limit.fresh();
            }
        });
        Ok(())
    }

    /// Gives back what is still held of `units` charged at `at`; answers the units given back.
    pub fn refund(&self, policy: &Prepared, key: &[u8], units: Cost, at: Timestamp) -> Result<u64, StoreError> {
        StoreError::check_key(key)?;
        let target = policy.target();
        let refund = |cells: &mut [Cell], t| tollgate_core::refund(target.policy, cells, t, units.get(), at);
        Ok(self.shared.with_cells(target, policy.space.ident(key), refund))
    }

    /// Does `act` to the key's cells, those of the policy in its order, at the time it is given; for
    /// dialects, whose keys may be of any length. It may be done twice, the first time for nothing.
    pub fn act<R>(&self, policy: &Prepared, key: &[u8], act: impl FnMut(&mut [Cell], Timestamp) -> R) -> R {
        self.shared.with_cells(policy.target(), policy.space.ident(key), act)
    }

    /// What the store holds.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        Stats {
            keys: shared.shards.iter().map(Shard::keys).sum(),
            bytes: shared.budget.used() + shared.overflow_budget.used(),
            cap: shared.budget.cap(),
            overflow_buckets: shared.overflow.get().map_or(0, Shard::keys),
            overflow_decisions: shared.overflowed.load(Ordering::Relaxed),
        }
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Shared {
    /// The space of the policy's name; the first policy of a name becomes its own.
    pub(crate) fn space(&self, policy: &Policy) -> Result<Arc<Space>, StoreError> {
        if policy.name().is_empty()
            && let Some(space) = self.bare.get()
        {
            return Ok(Arc::clone(space));
        }
        let known = self.names.read().unwrap_or_else(|poisoned| poisoned.into_inner()).get(policy.name()).copied();
        if let Some(space) = known.and_then(|index| self.spaces.get(usize::from(index))?.get()) {
            return Ok(Arc::clone(space));
        }
        let mut names = self.names.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if names.len() >= MOST_NAMES && !names.contains_key(policy.name()) {
            return Err(StoreError::Names(MOST_NAMES));
        }
        let next = names.len() as u16;
        let index = *names.entry(policy.name().into()).or_insert(next);
        self.spaces.extend(usize::from(index), OnceLock::new);
        let make = || Arc::new(Space::new(policy.clone(), index, &self.secret, self.clock.is_monotonic()));
        let space = self.spaces.get(usize::from(index)).map(|place| Arc::clone(place.get_or_init(make)));
        let space = space.ok_or(StoreError::Names(MOST_NAMES))?;
        if policy.name().is_empty() {
            self.bare.get_or_init(|| Arc::clone(&space));
        }
        Ok(space)
    }

    pub(crate) fn overflow(&self) -> &Shard {
        let bytes = 2 * OVERFLOW_BUCKETS as usize * MOST_NAMES * size_of::<Record>();
        self.overflow.get_or_init(|| Shard::new(bytes, &self.overflow_budget))
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
    pub(crate) fn now(&self, space: &Space) -> Timestamp {
        if space.wall { self.clock.wall() } else { self.clock.now() }
    }

    /// A time that is not before `latest`, if the clock allows. A processor may read its clock a little
    /// before what stands in front of it, and a thread may have been suspended since: reading again
    /// is enough.
    pub(crate) fn not_before(&self, latest: Timestamp, t: Timestamp, space: &Space) -> Timestamp {
        if t >= latest || space.wall || !self.clock.is_monotonic() {
            return t;
        }
        (0..CLOCK_READS).map(|_| self.clock.now()).find(|t| *t >= latest).unwrap_or(t)
    }

    /// Decides what is most often asked: a known key in two words that nobody else charges just now.
    #[inline(always)]
    fn decide_known(&self, target: Target<'_>, ident: Ident, request: &Request) -> Option<Decision> {
        let t = self.now(target.space);
        self.decide_near(t, target, ident, self.shard(ident).pair(ident)?, request)
    }

    /// The same at a time that was just read; nothing if the key was charged since.
    #[inline(always)]
    fn decide_near(
        &self,
        t: Timestamp,
        target: Target<'_>,
        ident: Ident,
        pair: Pair<'_>,
        request: &Request,
    ) -> Option<Decision> {
        let (slot, seen) = pair.find(ident)?;
        if !target.is_own {
            return None;
        }
        if seen.boxed() {
            return Mirror::unpack(seen.words).refusal(target.policy, request, t, target.space.near);
        }
        // The first word is a time not after the latest charge; of a key that has just got its place it
        // tells nothing.
        if seen.words[0] > t.get() || seen.words[0] == 0 {
            return None;
        }
        let (decision, words) = decide_packed(target.policy, seen.words, t, request)?;
        (words == seen.words || slot.replace(seen, words)).then_some(decision)
    }

    fn decide(&self, target: Target<'_>, ident: Ident, request: &Request) -> Decision {
        let shard = self.shard(ident);
        let mut tries = 0;
        while let Some((slot, seen)) = shard.find(ident) {
            let t = self.now(target.space);
            match self.decide_seen(target, shard, slot, seen, t, request) {
                Tried::Done(decision) => return decision,
                Tried::Changed => relax(&mut tries),
                Tried::Cannot => break,
            }
        }
        self.with_cells(target, ident, |cells, t| decide_with(target.policy, cells, t, request, |_| {}))
    }

    fn decide_batch<K: AsRef<[u8]>>(
        &self,
        target: Target<'_>,
        keys: &[K],
        request: &Request,
        decisions: &mut Vec<Decision>,
    ) {
        // In rounds, so that each is short and the fetches of the third are all under way at once.
        let mut idents = [Ident::new(0, 0, 0); BATCH];
        for (ident, key) in idents.iter_mut().zip(keys) {
            *ident = target.space.ident(key.as_ref());
        }
        let mut pairs = [None; BATCH];
        for (pair, ident) in pairs.iter_mut().zip(&idents[..keys.len()]) {
            *pair = self.shard(*ident).pair(*ident);
        }
        let near = pairs.iter().flatten().fold(0, |near, pair| near ^ pair.touch());
        // The fetches are wanted, though nothing depends on them.
        std::hint::black_box(near);
        let t = self.now(target.space);
        for (ident, pair) in idents.iter().zip(pairs).take(keys.len()) {
            match pair.and_then(|pair| self.decide_near(t, target, *ident, pair, request)) {
                Some(decision) => decisions.push(decision),
                None => decisions.push(self.decide(target, *ident, request)),
            }
        }
    }

    /// Decides from what was seen in a slot before `t`.
    #[inline]
    fn decide_seen(
        &self,
        target: Target<'_>,
        shard: &Shard,
        slot: &Slot,
        seen: Seen,
        t: Timestamp,
        request: &Request,
    ) -> Tried {
        if seen.boxed() {
            return self.decide_boxed(target, shard, slot, seen, t, request);
        }
        if !target.is_own {
            return Tried::Cannot;
        }
        let t = self.not_before(Timestamp::saturating(seen.words[0]), t, target.space);
        match decide_packed(target.policy, seen.words, t, request) {
            None => Tried::Cannot,
            Some((decision, words)) if words == seen.words || slot.replace(seen, words) => Tried::Done(decision),
            Some(_) => Tried::Changed,
        }
    }

    fn decide_boxed(
        &self,
        target: Target<'_>,
        shard: &Shard,
        slot: &Slot,
        seen: Seen,
        t: Timestamp,
        request: &Request,
    ) -> Tried {
        let mirror = Mirror::unpack(seen.words);
        if target.is_own
            && let Some(refused) = mirror.refusal(target.policy, request, t, target.space.near)
        {
            return Tried::Done(refused);
        }
        let Some(locked) = slot.lock(seen) else { return Tried::Changed };
        let Some(mut record) = shard.record(mirror.record) else { return Tried::Cannot };
        let own = &target.space.own;
        if self.budget.lacks(2 * record.counted) {
            record.thin();
        }
        let mut first_wait = None;
        let cells = record.cells_of(target.policy, own, target.is_own, t);
        let t = self.not_before(latest(cells), t, target.space);
        let decision = decide_with(target.policy, cells, t, request, |detail| {
            if !detail.fits {
                first_wait.get_or_insert(detail.retry_after);
            }
        });
        let expires_after = if record.is_own() { decision.reset_after } else { record.expires_after(own, t) };
        if decision.charged > 0 {
            record.count(&self.budget, target.space.least);
        }
        let mut mirror = Mirror::of(mirror.record, t.plus(expires_after));
        // Cells of other limits would make it seem to be as new later than it is.
        if target.is_own && record.is_own() {
            mirror.remember(target.policy, &decision, request, first_wait.unwrap_or(Wait::NONE));
        }
        drop(record);
        locked.put(mirror.pack());
        Tried::Done(decision)
    }

    /// Does `act` to the cells of a key, whether it is known or not, under the lock of its shard.
    /// It may be done twice, the first time for nothing.
    fn with_cells<R>(&self, target: Target<'_>, ident: Ident, mut act: impl FnMut(&mut [Cell], Timestamp) -> R) -> R {
        if let Some(done) = self.with_own_cells(self.shard(ident), &self.budget, target, ident, &mut act) {
            return done;
        }
        self.overflowed.fetch_add(1, Ordering::Relaxed);
        let ident = target.space.overflow(&self.secret, ident);
        loop {
            // The overflow has memory for all its buckets.
            if let Some(done) = self.with_own_cells(self.overflow(), &self.overflow_budget, target, ident, &mut act) {
                return done;
            }
        }
    }

    /// The same; nothing if there is no room for the key.
    fn with_own_cells<R>(
        &self,
        shard: &Shard,
        budget: &Budget,
        target: Target<'_>,
        ident: Ident,
        act: &mut impl FnMut(&mut [Cell], Timestamp) -> R,
    ) -> Option<R> {
        let mut inner = shard.lock();
        if let Some((slot, _)) = shard.find(ident) {
            // Keys come and go only under the shard's lock, which is held.
            let mut held = Held::take(shard, lock_slot(slot), target);
            let t = self.now(target.space);
            if self.budget.lacks(2 * held.record.counted) {
                held.record.thin();
            }
            let cells = held.cells(target, t);
            let t = self.not_before(latest(cells), t, target.space);
            let done = act(cells, t);
            held.put_back(self, shard, &mut inner, budget, target, t);
            return Some(done);
        }
        let times = Times::default();
        let expired = |seen: &Seen| self.expired(seen, &times);
        let place = shard.place(&mut inner, ident, budget, &expired)?;
        let t = self.now(target.space);
        let mut cells = self.first_cells(shard, target, ident, t);
        let t = self.not_before(latest(&cells), t, target.space);
        let before = cells.clone();
        let done = act(&mut cells, t);
        if cells == before {
            shard.unplace(place);
            return Some(done);
        }
        if let Some(words) = packed(target, &cells) {
            place.fill(ident.print, ident.mark, words, false);
            return Some(done);
        }
        let record = Record::new(target, cells);
        let Some(words) = self.keep(shard, &mut inner, budget, target, record, t, AtCap::Stop) else {
            shard.unplace(place);
            return None;
        };
        place.fill(ident.print, ident.mark, words, true);
        Some(done)
    }

    /// Puts a key of a snapshot into its place; answers whether there was room. `saved` is the policy
    /// that its name had.
    pub(crate) fn put_back(&self, ident: Ident, saved: &Policy, mut state: KeyState, changed: bool) -> bool {
        let (shard, budget) = match self.shards.get(ident.shard as usize) {
            Some(shard) => (shard, &self.budget),
            None => (self.overflow(), &self.overflow_budget),
        };
        let Some(space) = self.spaces.get(usize::from(Ident::space(ident.mark))).and_then(OnceLock::get) else {
            return false;
        };
        let t = self.now(space);
        let is_own = space.owns(saved) && !changed;
        let target = Target { space, policy: if is_own { &space.own } else { saved }, is_own };
        let mut inner = shard.lock();
        Shard::unstick(&mut inner);
        let place = shard.place(&mut inner, ident, budget, &|_| false);
        let Some(place) = place else { return false };
        let cells = if is_own { state.cells_of(&space.own, t).to_vec() } else { Vec::new() };
        if let Some(words) = packed(target, &cells) {
            place.fill(ident.print, ident.mark, words, false);
            return true;
        }
        let record = if is_own { Record::new(target, cells) } else { Record::changed(state) };
        match self.keep(shard, &mut inner, budget, target, record, t, AtCap::Stop) {
            Some(words) => place.fill(ident.print, ident.mark, words, true),
            None => {
                shard.unplace(place);
                return false;
            }
        }
        true
    }

    /// What a key that is new to its shard begins with: nothing used, unless it shared a bucket before,
    /// whose charges may be its own.
    pub(crate) fn first_cells(&self, shard: &Shard, target: Target<'_>, ident: Ident, t: Timestamp) -> Vec<Cell> {
        let Some(overflow) = self.overflow.get().filter(|overflow| !std::ptr::eq(*overflow, shard)) else {
            return fresh(target.policy);
        };
        // The overflow's lock comes after those of all shards.
        let _inner = overflow.lock();
        let shared = overflow.find(target.space.overflow(&self.secret, ident));
        shared.map_or_else(|| fresh(target.policy), |(slot, _)| Held::copy_of(overflow, lock_slot(slot), target, t))
    }

    /// Keeps a record if there is memory for it and what it holds; answers the words that tell of it.
    #[expect(clippy::too_many_arguments, reason = "a key's place, what it holds, and what to do without memory")]
    pub(crate) fn keep(
        &self,
        shard: &Shard,
        inner: &mut Inner,
        budget: &Budget,
        target: Target<'_>,
        mut record: Record,
        t: Timestamp,
        at_cap: AtCap,
    ) -> Option<[u64; 2]> {
        if at_cap == AtCap::Stop && budget.lacks(target.space.least) {
            return None;
        }
        record.count(budget, target.space.least);
        let (counted, expires) = (record.counted, t.plus(record.expires_after(&target.space.own, t)));
        let Some(index) = shard.keep(inner, record, budget, at_cap) else {
            budget.give_back(counted);
            return None;
        };
        Some(Mirror::of(index, expires).pack())
    }

    /// Whether a key may be forgotten: then one never seen would decide alike.
    pub(crate) fn expired(&self, seen: &Seen, times: &Times) -> bool {
        let Some(space) = self.spaces.get(usize::from(Ident::space(seen.mark()))).and_then(OnceLock::get) else {
            return false;
        };
        let t = *if space.wall { &times.wall } else { &times.now }.get_or_init(|| self.now(space));
        if seen.boxed() {
            return Mirror::unpack(seen.words).expires <= t;
        }
        let cell = space.own.limits()[0].unpack(seen.words);
        tollgate_core::expires_after(&space.own, std::slice::from_ref(&cell), t) == Micros::ZERO
    }
}

/// The latest charge that the cells tell of.
pub(crate) fn latest(cells: &[Cell]) -> Timestamp {
    cells.iter().map(Cell::latest).max().unwrap_or_default()
}

pub(crate) fn fresh(policy: &Policy) -> Vec<Cell> {
    policy.limits().iter().map(|limit| limit.fresh()).collect()
}

/// The cells in two words, if they are those of the name's own policy and fit.
pub(crate) fn packed(target: Target<'_>, cells: &[Cell]) -> Option<[u64; 2]> {
    if !target.is_own || !target.space.packs {
        return None;
    }
    target.policy.limits()[0].pack(cells.first()?)
}
