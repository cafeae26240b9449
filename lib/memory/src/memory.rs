//! The public interface of the store.

use std::sync::Arc;

use tollgate_kernel::{
    Cell, Clock, Cost, Decision, Detail, JointDecision, Limit, Policy, Request, StoreError, Timestamp,
};

use crate::clock::MemoryClock;
use crate::decide::BATCH;
use crate::draw::{CellOutcome, Effort};
use crate::ident::{IdentHasher, NAME_BITS, StoreIdent, StoreSecret};
use crate::shard::Shard;
use crate::shared::{MemoryCore, OperationTime, TargetPolicy};
use crate::space::{Space, is_wall};

/// The default cap: 64 MiB.
pub const DEFAULT_CAP: usize = 64 << 20;
/// The minimum cap: below it, the shards alone would take most of the memory.
pub const MIN_CAP: usize = 4 << 20;
/// The maximum cap: 64 GiB.
pub const MAX_CAP: usize = 64 << 30;
/// The maximum number of policy names.
pub const MAX_NAMES: usize = 1 << NAME_BITS;

/// The embedded store. It is cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<MemoryCore>,
}

/// Figures about the contents of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The number of keys with a place of their own, including those that may be forgotten when room is needed.
    pub keys: usize,
    /// The number of bytes used: table, records and logs.
    pub bytes: usize,
    /// The maximum number of bytes.
    pub cap: usize,
    /// The number of buckets in use that are shared by keys without a place of their own.
    pub overflow_buckets: usize,
    /// The number of decisions made in those buckets since the store was created. It is worth an alert.
    pub overflow_decisions: u64,
}

/// The result of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryRefund {
    /// The units refunded.
    pub units: u64,
    /// The time of the refund.
    pub t: Timestamp,
    /// Whether the state of the key changed. It may change even if `units` is 0, because part of a unit may be
    /// refunded.
    pub changed: bool,
}

/// A policy as the store knows it: the result of [`Memory::prepare`].
#[derive(Clone, Debug)]
pub struct MemoryPolicy {
    space: Arc<Space>,
    /// The policy; `None` if it is the space's own.
    policy: Option<Arc<Policy>>,
    /// Whether the policy has the limits of the space's own policy; the mode may differ.
    is_own: bool,
    /// Whether the policy is decided by the machine's clock.
    wall: bool,
    /// The identities of keys under the policy's name.
    idents: IdentHasher,
}

impl MemoryPolicy {
    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        self.policy.as_deref().unwrap_or(&self.space.own)
    }

    /// Returns whether a key that uses no other policy of this name needs memory only for the cells of this policy. If
    /// a name has very many policies, this holds for the first few; the keys of the others store their limits too.
    pub fn may_pack(&self) -> bool {
        self.is_own
    }

    /// Returns the identity of a key under the policy's name.
    #[inline]
    pub(crate) fn ident(&self, key: &[u8]) -> StoreIdent {
        self.idents.of(key)
    }

    #[inline]
    pub(crate) fn target(&self) -> TargetPolicy<'_> {
        TargetPolicy { space: &self.space, policy: self.policy(), is_own: self.is_own, wall: self.wall }
    }
}

impl Memory {
    /// Creates a store of at most `cap` bytes that decides by the monotonic clock of the process.
    pub fn new(cap: usize) -> Self {
        Self::with_secret(cap, MemoryClock::of(None), StoreSecret::random())
    }

    /// Creates a store of at most `cap` bytes with the given clock.
    pub fn with_clock(cap: usize, clock: Box<dyn Clock>) -> Self {
        Self::with_secret(cap, MemoryClock::of(Some(clock)), StoreSecret::random())
    }

    pub(crate) fn with_secret(cap: usize, clock: MemoryClock, secret: StoreSecret) -> Self {
        Self { shared: Arc::new(MemoryCore::new(cap, clock, secret)) }
    }

    pub(crate) fn shared(&self) -> &MemoryCore {
        &self.shared
    }

    /// Returns whether both are the same store.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Prepares a policy, so that checks need not look up its name.
    pub fn prepare(&self, policy: &Policy) -> Result<MemoryPolicy, StoreError> {
        self.prepare_again(policy, false, true)
    }

    /// Prepares a policy whose name and limits were chosen by a caller. Its keys are distinct from those of a policy of
    /// the same name that was prepared by [`Memory::prepare`]. The name does not count towards [`MAX_NAMES`], so there
    /// may be any number of such names.
    pub fn prepare_for_caller(&self, policy: &Policy) -> Result<MemoryPolicy, StoreError> {
        self.prepare_again(policy, true, true)
    }

    /// Prepares a policy as it was prepared in another store, so that replaying the decisions of that store takes as
    /// much memory here. `is_callers` is whether it was [prepared for a caller](Memory::prepare_for_caller), and
    /// `may_pack` is the value of [`MemoryPolicy::may_pack`] there.
    pub fn prepare_again(&self, policy: &Policy, is_callers: bool, may_pack: bool) -> Result<MemoryPolicy, StoreError> {
        let bare = is_callers.then(|| policy.without_name());
        let filed = bare.as_ref().unwrap_or(policy);
        let (names, properties) = (&self.shared.names, &self.shared.properties);
        let (space, is_own) =
            if may_pack { names.space(filed, properties)? } else { names.space_of_late(filed, properties)? };
        let idents = match policy.name() {
            name if is_callers && !name.is_empty() => IdentHasher::new(&properties.secret, name, space.name),
            _ => space.idents.clone(),
        };
        Ok(Self::prepared(policy, space, is_own, idents))
    }

    fn prepared(policy: &Policy, space: Arc<Space>, is_own: bool, idents: IdentHasher) -> MemoryPolicy {
        let same = is_own && space.own.mode() == policy.mode() && space.own.name() == policy.name();
        let policy = (!same).then(|| Arc::new(policy.clone()));
        let wall = is_wall(policy.as_deref().unwrap_or(&space.own));
        MemoryPolicy { policy, space, is_own, wall, idents }
    }

    /// Decides a request and charges what is granted.
    // Inlined so that the decision is written only once, to its final place: copying it costs as much as making it.
    #[inline(always)]
    pub fn check(&self, policy: &MemoryPolicy, key: &[u8], request: &Request) -> Result<Decision, StoreError> {
        StoreError::check_key(key)?;
        let (target, ident) = (policy.target(), policy.ident(key));
        if let Some(decision) = self.shared.decide_known(target, ident, request) {
            return Ok(decision);
        }
        self.check_slowly(target, ident, request)
    }

    #[inline(never)]
    fn check_slowly(
        &self,
        target: TargetPolicy<'_>,
        ident: StoreIdent,
        request: &Request,
    ) -> Result<Decision, StoreError> {
        Ok(self.shared.decide(target, ident, request))
    }

    /// Decides like [`Memory::check`], and also returns the details of each limit.
    pub fn check_full(
        &self,
        policy: &MemoryPolicy,
        key: &[u8],
        request: &Request,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        StoreError::check_key(key)?;
        let target = policy.target();
        let mut details = Vec::with_capacity(target.policy.limits().len());
        let decision = self.shared.decide_cells(target, policy.ident(key), request, |detail| details.push(detail));
        if details.is_empty() {
            // There was no memory to decide: no limit fits.
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

    /// Decides the same request for each of `keys`, and writes the decisions into `decisions`, which is cleared first.
    /// The slots are fetched together, and the clock is read once for every 16 keys.
    pub fn check_many<K: AsRef<[u8]>>(
        &self,
        policy: &MemoryPolicy,
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

    /// Decides several keys together: either all of them are charged or none is.
    pub fn check_all(&self, items: &[(&MemoryPolicy, &[u8], Cost)]) -> Result<JointDecision, StoreError> {
        items.iter().try_for_each(|(_, key, _)| StoreError::check_key(key))?;
        let idents = items.iter().map(|(policy, key, cost)| (policy.target(), policy.ident(key), *cost));
        self.shared.decide_all(idents.collect())
    }

    /// Deletes the state of the key under the policy. A key that shares a bucket because the store is full keeps
    /// sharing it.
    pub fn reset(&self, policy: &MemoryPolicy, key: &[u8]) -> Result<(), StoreError> {
        StoreError::check_key(key)?;
        let target = policy.target();
        self.shared.reset(OperationTime::Now, target, policy.ident(key));
        Ok(())
    }

    /// Refunds what the limits still hold of `units` charged at `at`, and returns the number of units refunded.
    pub fn refund(&self, policy: &MemoryPolicy, key: &[u8], units: Cost, at: Timestamp) -> Result<u64, StoreError> {
        StoreError::check_key(key)?;
        Ok(self.refund_full(policy, key, units, at)?.units)
    }

    /// Refunds like [`Memory::refund`], and also returns the time of the refund and whether the state changed.
    pub fn refund_full(
        &self,
        policy: &MemoryPolicy,
        key: &[u8],
        units: Cost,
        at: Timestamp,
    ) -> Result<MemoryRefund, StoreError> {
        StoreError::check_key(key)?;
        Ok(self.shared.refund(OperationTime::Now, policy.target(), policy.ident(key), units.get(), at))
    }

    /// Runs `act` on the cells of the key, those of the policy in policy order, with the time of the decision. This is
    /// for dialects, which check their keys themselves: theirs may have other lengths. Returns [`StoreError::Full`] without
    /// running `act` if there is no memory to keep what it may change.
    pub fn act<R>(
        &self,
        policy: &MemoryPolicy,
        key: &[u8],
        act: impl FnOnce(&mut [Cell], Timestamp) -> R,
    ) -> Result<R, StoreError> {
        let act = |cells: &mut [Cell], t| CellOutcome { answer: act(cells, t), changed: true };
        self.shared
            .with_cells(Effort::Usual, OperationTime::Now, policy.target(), policy.ident(key), act)
            .ok_or(StoreError::Full)
    }

    /// Returns figures about the contents of the store.
    pub fn stats(&self) -> MemoryStats {
        let shared = &self.shared;
        MemoryStats {
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
