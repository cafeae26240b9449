//! The home, which decides: the embedded store, which answers at once, or another store, which takes time.

use std::sync::Arc;

use tollgate_kernel::{Cost, Decision, Detail, JointDecision, KeyCheck, Policy, Request, Store, StoreError, Timestamp};
use tollgate_redis::Redis;

use crate::counts::PolicyOwner;

use crate::persist::{Binding, EmbeddedHome, EmbeddedPolicy, Note, PersistFailure};
use crate::store::StoreHome;
use tollgate_keyspace::{DialectCall, Keyspace};

/// A policy as homes know it.
#[derive(Clone, Copy, Debug)]
pub struct HomePolicy<'a> {
    /// The name that callers use.
    pub(crate) name: &'a str,
    /// The policy as another store files it.
    pub(crate) stored: &'a Policy,
    /// The policy as the embedded store knows it, if that is the home.
    pub(crate) prepared: Option<&'a EmbeddedPolicy>,
}

impl<'a> HomePolicy<'a> {
    /// Returns the policy as the embedded store knows it. The home of an engine prepares all of its policies, so only a
    /// policy of another engine lacks it.
    fn prepared(self) -> Result<&'a EmbeddedPolicy, StoreError> {
        self.prepared.ok_or(StoreError::OtherHome)
    }
}

/// The store that decides for the server.
pub enum Home {
    /// In this process.
    Embedded(EmbeddedHome),
    /// In Redis or Valkey, standalone or a cluster.
    Redis(Arc<StoreHome>),
}

impl Home {
    /// Returns a store in Redis, of whose keys callers reach those of limiters alone.
    pub fn redis(redis: Redis) -> Self {
        Self::Redis(Arc::new(redis.into()))
    }

    /// Returns the embedded store without persistence.
    pub fn embedded(memory: tollgate_memory::Memory, clock: Box<dyn tollgate_kernel::Clock>) -> Self {
        Self::Embedded(EmbeddedHome::new(memory, clock))
    }

    /// Prepares a policy for the embedded store. Keys under a name that a caller brought are separate from those of the
    /// server's policy of that name.
    pub fn prepare(&self, policy: &Policy, owner: PolicyOwner) -> Result<Option<EmbeddedPolicy>, StoreError> {
        match self {
            Self::Embedded(embedded) => embedded.prepare(policy, owner).map(Some),
            Self::Redis(_) => Ok(None),
        }
    }

    /// Returns whether it answers without waiting.
    pub fn answers_at_once(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    /// Persists a fact, if persistence is enabled.
    pub(crate) fn persist_note(&self, note: &Note) {
        if let Self::Embedded(embedded) = self {
            embedded.persist_note(note);
        }
    }

    /// Returns the binding to the journal, if persistence is enabled.
    pub(crate) fn binding(&self) -> Option<&Arc<Binding>> {
        match self {
            Self::Embedded(embedded) => embedded.binding(),
            Self::Redis(_) => None,
        }
    }

    /// Returns whether decisions are made although they cannot be persisted.
    #[inline]
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Embedded(embedded) if embedded.is_away())
    }

    /// Waits until everything decided so far may be reported to callers.
    #[inline]
    pub async fn settled(&self) -> Result<(), PersistFailure> {
        match self {
            Self::Embedded(embedded) => embedded.settled().await,
            Self::Redis(_) => Ok(()),
        }
    }

    /// Persists what a plain command changed of the keys, which are locked.
    #[inline]
    pub(crate) fn persist_changes(&self, keys: &mut Keyspace) {
        if let Self::Embedded(embedded) = self {
            embedded.persist_changes(keys);
        }
    }

    /// Persists a call of a dialect that was just decided on the keys, which are locked.
    #[inline]
    pub(crate) fn persist_call(&self, keys: &mut Keyspace, call: &DialectCall, now: Timestamp) {
        if let Self::Embedded(embedded) = self {
            embedded.persist_call(keys, call, now);
        }
    }

    /// Decides a request.
    pub async fn check(&self, policy: HomePolicy<'_>, key: &[u8], request: &Request) -> Result<Decision, StoreError> {
        match self {
            Self::Embedded(embedded) => embedded.check(policy.prepared()?, key, request),
            Self::Redis(store) => store.redis.check(policy.stored, key, *request).await,
        }
    }

    /// Decides one request on each of the keys, in order; `decisions` is cleared first.
    pub async fn check_many(
        &self,
        policy: HomePolicy<'_>,
        keys: &[&[u8]],
        request: &Request,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Embedded(embedded) => embedded.check_many(policy.prepared()?, keys, request, decisions),
            Self::Redis(store) => {
                *decisions = store.redis.check_many(policy.stored, keys, *request).await?;
                Ok(())
            }
        }
    }

    /// Decides a request; also returns the details of each limit.
    pub async fn check_full(
        &self,
        policy: HomePolicy<'_>,
        key: &[u8],
        request: &Request,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        match self {
            Self::Embedded(embedded) => embedded.check_full(policy.prepared()?, key, request),
            Self::Redis(store) => store.redis.check_full(policy.stored, key, *request).await,
        }
    }

    /// Resets a key under a policy.
    pub async fn reset(&self, policy: HomePolicy<'_>, key: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::Embedded(embedded) => embedded.reset(policy.prepared()?, key),
            Self::Redis(store) => store.redis.reset(policy.stored, key).await,
        }
    }

    /// Refunds units that were charged at a time; returns how many.
    pub async fn refund(
        &self,
        policy: HomePolicy<'_>,
        key: &[u8],
        units: Cost,
        at: Timestamp,
    ) -> Result<u64, StoreError> {
        match self {
            Self::Embedded(embedded) => embedded.refund(policy.prepared()?, key, units, at),
            Self::Redis(store) => store.redis.refund(policy.stored, key, units, at).await,
        }
    }

    /// Decides several keys, all or none.
    pub async fn check_all(&self, parts: &[(HomePolicy<'_>, &[u8], Cost)]) -> Result<JointDecision, StoreError> {
        match self {
            Self::Embedded(embedded) => {
                let prepared = parts.iter().map(|&(policy, key, cost)| Ok((policy.prepared()?, key, cost)));
                embedded.check_all(&prepared.collect::<Result<Vec<_>, StoreError>>()?)
            }
            Self::Redis(store) => {
                let items = parts.iter().map(|&(policy, key, cost)| KeyCheck { policy: policy.stored, key, cost });
                store.redis.check_all(&items.collect::<Vec<_>>()).await
            }
        }
    }
}
