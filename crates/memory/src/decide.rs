//! Deciding a known key, without the lock of its shard: the way that is taken most.
//!
//! Read the clock and the key's slot, decide, and charge if the slot is still as it was read. If the slot
//! tells of a later charge the clock is read again, so that no charge is later than the time it is decided
//! at. Whatever this cannot decide goes under the shard's lock: see `shared.rs`.

use tollgate_core::{Cell, Clock, Decision, Detail, Policy, Request, Timestamp, Wait, decide_packed, decide_with};

use crate::ident::Ident;
use crate::record::Mirror;
use crate::shard::{Pair, Shard};
use crate::shared::{Shared, Target, latest};
use crate::slot::{Seen, Slot};
use crate::space::Space;
use crate::sync::relax;

/// Readings of a clock that should not be behind.
const CLOCK_READS: usize = 20;
/// Keys of a batch whose slots are fetched together.
pub(crate) const BATCH: usize = 16;

/// What came of deciding without the shard's lock.
enum Tried {
    Done(Decision),
    /// Somebody else charged the key in between.
    Changed,
    /// The key needs a record.
    Cannot,
}

/// Decides on cells that are held. A peek writes nothing, as in every home: where the clock was set back, what
/// it would correct is corrected in a copy.
pub(crate) fn decide_cells(
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

impl Shared {
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
    pub(crate) fn decide_known(&self, target: Target<'_>, ident: Ident, request: &Request) -> Option<Decision> {
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
        let space = target.space;
        if !seen.is_packed_by(space.rank) {
            let boxed = seen.boxed() && seen.rank() == space.rank;
            return boxed.then(|| Mirror::unpack(seen.words).refusal(target.policy, request, t, space.near))?;
        }
        // The first word is a time not after the latest charge; of a key that has just got its place it
        // tells nothing.
        if seen.words[0] > t.get() || seen.words[0] == 0 {
            return None;
        }
        let (decision, words) = decide_packed(target.policy, seen.words, t, request)?;
        (words == seen.words || slot.replace(seen, words)).then_some(decision)
    }

    pub(crate) fn decide(&self, target: Target<'_>, ident: Ident, request: &Request) -> Decision {
        if request.peek {
            return self.with_cells(target, ident, |cells, t| decide_cells(target.policy, cells, t, request, |_| {}));
        }
        let shard = self.shard(ident);
        let mut tries = 0;
        while let Some((slot, seen)) = shard.find(ident) {
            let there = self.target_at(target, &seen);
            let t = self.now(there.space);
            match self.decide_seen(there, shard, slot, seen, t, request) {
                Tried::Done(decision) => return decision,
                Tried::Changed => relax(&mut tries),
                Tried::Cannot => break,
            }
        }
        self.with_cells(target, ident, |cells, t| decide_with(target.policy, cells, t, request, |_| {}))
    }

    pub(crate) fn decide_batch<K: AsRef<[u8]>>(
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
}
