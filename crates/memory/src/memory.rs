//! The store as its callers see it.

use std::sync::Arc;

use tollgate_core::{Cell, Clock, Cost, Decision, Detail, Limit, Policy, Request, StoreError, Timestamp, Together};

use crate::clock::Source;
use crate::decide::BATCH;
use crate::draw::Done;
use crate::ident::{Ident, Idents, NAME_BITS, Secret};
use crate::shard::Shard;
use crate::shared::{Shared, Target, When};
use crate::space::{Space, is_wall};

/// The cap unless another is given: 64 MiB.
pub const DEFAULT_CAP: usize = 64 << 20;
/// The least cap: below, the shards alone take most of it.
pub const LEAST_CAP: usize = 4 << 20;
/// The greatest cap: 64 GiB.
pub const MOST_CAP: usize = 64 << 30;
/// The most policy names.
pub const MOST_NAMES: usize = 1 << NAME_BITS;

/// The embedded store. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
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

/// What came of giving back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refunded {
    /// The units given back.
    pub units: u64,
    /// When that was.
    pub t: Timestamp,
    /// Whether the key remembers something else than before: a part of a unit may be given back too.
    pub changed: bool,
}

/// A policy as a store knows it: what [`Memory::prepare`] makes.
#[derive(Clone, Debug)]
pub struct Prepared {
    space: Arc<Space>,
    /// Nothing if it is the space's own.
    policy: Option<Arc<Policy>>,
    /// Whether it has the limits of the space's own, if perhaps another mode.
    is_own: bool,
    /// Whether the machine's clock decides it.
    wall: bool,
    /// Who keys are under its name.
    idents: Idents,
}

impl Prepared {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        self.policy.as_deref().unwrap_or(&self.space.own)
    }

    /// Whether keys that use no other policy of its name need no more than its cells take. Of a name that has very many
    /// policies the first few have this; keys of the others remember their limits too.
    pub fn may_pack(&self) -> bool {
        self.is_own
    }

    /// Who a key is under its name.
    #[inline]
    pub(crate) fn ident(&self, key: &[u8]) -> Ident {
        self.idents.of(key)
    }

    #[inline]
    pub(crate) fn target(&self) -> Target<'_> {
        Target { space: &self.space, policy: self.policy(), is_own: self.is_own, wall: self.wall }
    }
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
        Self { shared: Arc::new(Shared::new(cap, clock, secret)) }
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
        self.prepare_again(policy, false, true)
    }

    /// As [`Memory::prepare`], for a policy whose name and limits a caller chose. Its keys are others than those of a
    /// policy that [`Memory::prepare`] made of the same name, and the name takes nothing: there may be any number.
    pub fn prepare_for_caller(&self, policy: &Policy) -> Result<Prepared, StoreError> {
        self.prepare_again(policy, true, true)
    }

    /// Makes a policy known as another store knew it, so that what was done there takes as much memory here:
    /// `is_callers` if it was [prepared for a caller](Memory::prepare_for_caller), `may_pack` as [`Prepared::may_pack`]
    /// says there.
    pub fn prepare_again(&self, policy: &Policy, is_callers: bool, may_pack: bool) -> Result<Prepared, StoreError> {
        let bare = is_callers.then(|| policy.without_name());
        let filed = bare.as_ref().unwrap_or(policy);
        let (names, facts) = (&self.shared.names, &self.shared.facts);
        let (space, is_own) = if may_pack { names.space(filed, facts)? } else { names.space_of_late(filed, facts)? };
        let idents = match policy.name() {
            name if is_callers && !name.is_empty() => Idents::new(&facts.secret, name, space.name),
            _ => space.idents.clone(),
        };
        Ok(Self::prepared(policy, space, is_own, idents))
    }

    fn prepared(policy: &Policy, space: Arc<Space>, is_own: bool, idents: Idents) -> Prepared {
        let same = is_own && space.own.mode() == policy.mode() && space.own.name() == policy.name();
        let policy = (!same).then(|| Arc::new(policy.clone()));
        let wall = is_wall(policy.as_deref().unwrap_or(&space.own));
        Prepared { policy, space, is_own, wall, idents }
    }

    /// Decides and charges.
    // The answer is written once, where the caller wants it: copying one costs as much as making it.
    #[inline(always)]
    pub fn check(&self, policy: &Prepared, key: &[u8], request: &Request) -> Result<Decision, StoreError> {
        StoreError::check_key(key)?;
        let (target, ident) = (policy.target(), policy.ident(key));
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
        let decision = self.shared.decide_cells(target, policy.ident(key), request, |detail| details.push(detail));
        if details.is_empty() {
            // There was no room to decide: no limit fits.
            let Decision { retry_after, reset_after, .. } = decision;
            let none = |limit: &Arc<Limit>| Detail {
                fits: false,
                remaining: 0,
                retry_after,
                reset_after,
                count: limit.count(),
            };
            details.extend(target.policy.limits().iter().map(none));
        }
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
            self.shared.decide_batch(policy.target(), &policy.idents, batch, request, decisions);
        }
        Ok(())
    }

    /// Decides several keys together: all are charged or none is.
    pub fn check_all(&self, items: &[(&Prepared, &[u8], Cost)]) -> Result<Together, StoreError> {
        items.iter().try_for_each(|(_, key, _)| StoreError::check_key(key))?;
        let idents = items.iter().map(|(policy, key, cost)| (policy.target(), policy.ident(key), *cost));
        self.shared.decide_all(idents.collect())
    }

    /// Forgets the key under the policy. One that shares a bucket since the store is full keeps sharing it.
    pub fn reset(&self, policy: &Prepared, key: &[u8]) -> Result<(), StoreError> {
        StoreError::check_key(key)?;
        let target = policy.target();
        self.shared.reset(When::Now, target, policy.ident(key));
        Ok(())
    }

    /// Gives back what is still held of `units` charged at `at`; answers the units given back.
    pub fn refund(&self, policy: &Prepared, key: &[u8], units: Cost, at: Timestamp) -> Result<u64, StoreError> {
        StoreError::check_key(key)?;
        Ok(self.refund_telling(policy, key, units, at)?.units)
    }

    /// As [`Memory::refund`], telling when that was and whether anything is other than before.
    pub fn refund_telling(
        &self,
        policy: &Prepared,
        key: &[u8],
        units: Cost,
        at: Timestamp,
    ) -> Result<Refunded, StoreError> {
        StoreError::check_key(key)?;
        Ok(self.shared.refund(When::Now, policy.target(), policy.ident(key), units.get(), at))
    }

    /// Does `act` to the key's cells, those of the policy in its order, at the time it is given; for
    /// dialects, whose keys may be of any length. It is not done if there is no memory to keep what it may change.
    pub fn act<R>(
        &self,
        policy: &Prepared,
        key: &[u8],
        act: impl FnOnce(&mut [Cell], Timestamp) -> R,
    ) -> Result<R, StoreError> {
        let act = |cells: &mut [Cell], t| Done { answer: act(cells, t), changed: true };
        self.shared.with_cells(When::Now, policy.target(), policy.ident(key), act).ok_or(StoreError::Full)
    }

    /// What the store holds.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        Stats {
            keys: shared.shards.iter().map(Shard::keys).sum(),
            bytes: shared.used(),
            cap: shared.cap,
            overflow_buckets: shared.overflow.shards().map(Shard::keys).sum(),
            overflow_decisions: shared.overflow.decisions(),
        }
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
