//! Deciding a known key without the lock of its shard: the most frequent path.
//!
//! It reads the clock and the key's slot, decides, and charges if the slot is unchanged since it was read. If the slot
//! has a later charge, the clock is read again, so that no charge is later than the time at which it is decided.
//! Requests that cannot be decided here are decided under the shard's lock: see `draw.rs`.

use tollgate_kernel::{Cell, Clock, Decision, Detail, Policy, Request, Timestamp, Wait, decide_packed, decide_with};

use crate::draw::{CellOutcome, Effort, latest, no_room};
use crate::ident::{IdentHasher, StoreIdent};
use crate::record::Mirror;
use crate::shard::{BucketPair, Shard};
use crate::shared::{MemoryCore, OperationTime, TargetPolicy};
use crate::slot::{Slot, SlotContents};
use crate::sync::relax;

/// The maximum number of times that a clock is read again when its time is before the latest charge.
const CLOCK_READS: usize = 20;
/// The number of keys of a batch whose slots are fetched together.
pub(crate) const BATCH: usize = 16;

/// The result of an attempt to decide without the shard's lock.
enum LockFreeAttempt {
    Done(Decision),
    /// Another thread charged the key in between.
    Changed,
    /// The key needs a record.
    Cannot,
}

/// Decides on cells that are held. A peek writes nothing, as in every home: if the clock was set back, the correction
/// is made in a copy.
fn decide_cells(
    policy: &Policy,
    cells: &mut [Cell],
    t: Timestamp,
    request: &Request,
    detail: impl FnMut(Detail),
) -> Decision {
    if request.peek && latest(cells) > t {
        return decide_with(policy, &mut cells.to_vec(), t, request, detail);
    }
    decide_with(policy, cells, t, request, detail)
}

impl MemoryCore {
    /// Returns a time that is not before `latest`, if the clock allows. A processor may read its clock slightly before
    /// the instructions that precede it, and the thread may have been suspended since; reading the clock again is
    /// enough. What a clock that can be set back shows then is its time, even if that is before `latest`.
    #[inline(always)]
    pub(crate) fn not_before(&self, latest: Timestamp, t: Timestamp, target: TargetPolicy<'_>) -> Timestamp {
        if t >= latest {
            return t;
        }
        if target.wall || !self.clock.is_monotonic() {
            return self.now(target);
        }
        (0..CLOCK_READS).map(|_| self.clock.now()).find(|t| *t >= latest).unwrap_or(t)
    }

    /// Decides the most frequent case: a known key in two words that no other thread is charging.
    #[inline(always)]
    pub(crate) fn decide_known(
        &self,
        target: TargetPolicy<'_>,
        ident: StoreIdent,
        request: &Request,
    ) -> Option<Decision> {
        let t = self.now(target);
        self.decide_near(t, target, ident, self.shard(ident).pair(ident)?, request)
    }

    /// Decides like [`MemoryCore::decide_known`] at a time that was just read; returns `None` if the key was charged
    /// since.
    #[inline(always)]
    fn decide_near(
        &self,
        t: Timestamp,
        target: TargetPolicy<'_>,
        ident: StoreIdent,
        pair: BucketPair<'_>,
        request: &Request,
    ) -> Option<Decision> {
        let (slot, seen) = pair.find(ident)?;
        if !target.is_own {
            return None;
        }
        let space = target.space;
        if !seen.is_packed_by(space.rank) {
            let boxed = seen.boxed() && seen.rank() == space.rank;
            return boxed.then(|| Mirror::unpack(seen.words).refusal(target.policy, request, t, space.near))?;
        }
        // The first word is a time no later than the latest charge; 0 is a key that has just got its place.
        if seen.words[0] > t.get() || seen.words[0] == 0 {
            return None;
        }
        let (decision, words) = decide_packed(target.policy, seen.words, t, request)?;
        (words == seen.words || slot.replace(seen, words)).then_some(decision)
    }

    pub(crate) fn decide(&self, target: TargetPolicy<'_>, ident: StoreIdent, request: &Request) -> Decision {
        let (shard, mut tries) = (self.shard(ident), 0);
        while let Some((slot, seen)) = shard.find(ident).filter(|(_, seen)| self.is_plain(target, seen)) {
            let t = self.now(target);
            match self.decide_seen(target, shard, slot, seen, t, request) {
                LockFreeAttempt::Done(decision) => return decision,
                LockFreeAttempt::Changed => relax(&mut tries),
                LockFreeAttempt::Cannot => break,
            }
        }
        self.decide_cells(target, ident, request, |_| {})
    }

    /// Returns whether a key that was seen can be decided without the lock of its shard.
    #[inline]
    fn is_plain(&self, target: TargetPolicy<'_>, seen: &SlotContents) -> bool {
        target.is_own && seen.rank() == target.space.rank && !seen.is_fresh()
    }

    /// Decides a key under the lock of its shard, and passes the details of each limit to `tell`.
    pub(crate) fn decide_cells(
        &self,
        target: TargetPolicy<'_>,
        ident: StoreIdent,
        request: &Request,
        tell: impl FnMut(Detail),
    ) -> Decision {
        let effort = if request.may_charge() { Effort::Usual } else { Effort::WithoutCharge };
        let decided = self.with_cells(effort, OperationTime::Now, target, ident, |cells, t| {
            let answer = decide_cells(target.policy, cells, t, request, tell);
            CellOutcome { answer, changed: answer.charged > 0 }
        });
        decided.unwrap_or_else(|| no_room(self.now(target)))
    }

    pub(crate) fn decide_batch<K: AsRef<[u8]>>(
        &self,
        target: TargetPolicy<'_>,
        idents_of: &IdentHasher,
        keys: &[K],
        request: &Request,
        decisions: &mut Vec<Decision>,
    ) {
        // Done in rounds, so that each is short and the fetches of the third all run concurrently.
        let mut idents = [StoreIdent::new(0, 0, 0); BATCH];
        for (ident, key) in idents.iter_mut().zip(keys) {
            *ident = idents_of.of(key.as_ref());
        }
        let mut pairs = [None; BATCH];
        for (pair, ident) in pairs.iter_mut().zip(&idents[..keys.len()]) {
            *pair = self.shard(*ident).pair(*ident);
        }
        let near = pairs.iter().flatten().fold(0, |near, pair| near ^ pair.touch());
        // The fetches must not be optimized away, although nothing depends on them.
        std::hint::black_box(near);
        let t = self.now(target);
        for (ident, pair) in idents.iter().zip(pairs).take(keys.len()) {
            match pair.and_then(|pair| self.decide_near(t, target, *ident, pair, request)) {
                Some(decision) => decisions.push(decision),
                None => decisions.push(self.decide(target, *ident, request)),
            }
        }
    }

    /// Decides from the contents of a slot that were read before `t`.
    #[inline]
    fn decide_seen(
        &self,
        target: TargetPolicy<'_>,
        shard: &Shard,
        slot: &Slot,
        seen: SlotContents,
        t: Timestamp,
        request: &Request,
    ) -> LockFreeAttempt {
        if seen.boxed() {
            return self.decide_boxed(target, shard, slot, seen, t, request);
        }
        let t = self.not_before(Timestamp::saturating(seen.words[0]), t, target);
        match decide_packed(target.policy, seen.words, t, request) {
            None => LockFreeAttempt::Cannot,
            Some((decision, words)) if request.peek || words == seen.words || slot.replace(seen, words) => {
                LockFreeAttempt::Done(decision)
            }
            Some(_) => LockFreeAttempt::Changed,
        }
    }

    fn decide_boxed(
        &self,
        target: TargetPolicy<'_>,
        shard: &Shard,
        slot: &Slot,
        seen: SlotContents,
        t: Timestamp,
        request: &Request,
    ) -> LockFreeAttempt {
        let mirror = Mirror::unpack(seen.words);
        if let Some(refused) = mirror.refusal(target.policy, request, t, target.space.near) {
            return LockFreeAttempt::Done(refused);
        }
        let Some(locked) = slot.lock(seen) else { return LockFreeAttempt::Changed };
        let Some(mut record) = shard.record(mirror.record) else { return LockFreeAttempt::Cannot };
        if !record.is_own() {
            return LockFreeAttempt::Cannot;
        }
        let t = self.not_before(latest(record.own_cells()), t, target);
        if request.peek {
            // The lock is dropped, and leaves the slot as it was.
            return LockFreeAttempt::Done(decide_cells(target.policy, record.own_cells(), t, request, |_| {}));
        }
        // Memory that a charge may need is reserved before the charge. If there is none, logs are thinned.
        let mut reserved = if request.may_charge() { record.growth() } else { 0 };
        if reserved > 0 && !self.budget.take(reserved) {
            record.thin();
            reserved = 0;
        }
        let mut first_wait = None;
        let decision = decide_with(target.policy, record.own_cells(), t, request, |detail| {
            if !detail.fits {
                first_wait.get_or_insert(detail.retry_after);
            }
        });
        if decision.charged > 0 || reserved > 0 {
            record.count(&self.budget, reserved, target.space.is_callers);
        }
        let mut mirror = Mirror::of(mirror.record, t.plus(decision.reset_after));
        mirror.remember(target.policy, &decision, request, first_wait.unwrap_or(Wait::NONE));
        drop(record);
        locked.put(mirror.pack());
        LockFreeAttempt::Done(decision)
    }
}
