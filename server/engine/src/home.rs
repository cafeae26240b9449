//! The home, which decides: the embedded store, which answers at once, or another store, which takes time.

use std::sync::Arc;

use tollgate_kernel::{Cost, Decision, Detail, Item, Policy, Request, Store, StoreError, Timestamp, Together};
use tollgate_redis::Redis;

use crate::counts::Whose;
use crate::persist::{Binding, Embedded, Filed, Note, Unkept};
use tollgate_keyspace::{DialectCall, Keys};

/// A policy as homes know it.
#[derive(Clone, Copy, Debug)]
pub struct HomePolicy<'a> {
    /// The name that callers use.
    pub(crate) name: &'a str,
    /// The policy as another store files it.
    pub(crate) stored: &'a Policy,
    /// The policy as the embedded store knows it, if that is the home.
    pub(crate) filed: Option<&'a Filed>,
}

/// The store that decides for the server.
pub enum Home {
    /// In this process.
    Embedded(Embedded),
    /// In Redis or Valkey, standalone or a cluster.
    Redis(Redis),
}

impl Home {
    /// Returns the embedded store without persistence.
    pub fn embedded(memory: tollgate_memory::Memory, clock: Box<dyn tollgate_kernel::Clock>) -> Self {
        Self::Embedded(Embedded::new(memory, None, clock))
    }

    /// Prepares a policy for the embedded store. Keys under a name that a caller brought are separate from those of the
    /// server's policy of that name.
    pub fn prepare(&self, policy: &Policy, whose: Whose) -> Result<Option<Filed>, StoreError> {
        match self {
            Self::Embedded(embedded) => embedded.prepare(policy, whose).map(Some),
            Self::Redis(_) => Ok(None),
        }
    }

    /// Returns whether it answers without waiting.
    pub fn answers_at_once(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    /// Returns the home as a generic store. Requests to the embedded one made this way are not persisted.
    pub fn store(&self) -> &dyn Store {
        match self {
            Self::Embedded(embedded) => &**embedded,
            Self::Redis(redis) => redis,
        }
    }

    /// Persists a fact, if persistence is enabled.
    pub fn note(&self, note: &Note) {
        if let Self::Embedded(embedded) = self {
            embedded.note(note);
        }
    }

    /// Returns the binding to the journal, if persistence is enabled.
    pub fn binding(&self) -> Option<&Arc<Binding>> {
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
    pub async fn settled(&self) -> Result<(), Unkept> {
        match self {
            Self::Embedded(embedded) => embedded.settled().await,
            Self::Redis(_) => Ok(()),
        }
    }

    /// Persists what a plain command changed of the keys, which are locked.
    #[inline]
    pub fn changed(&self, keys: &mut Keys) {
        if let Self::Embedded(embedded) = self {
            embedded.changed(keys);
        }
    }

    /// Persists a call of a dialect that was just decided on the keys, which are locked.
    #[inline]
    pub fn spoken(&self, keys: &mut Keys, spoken: &DialectCall, now: Timestamp) {
        if let Self::Embedded(embedded) = self {
            embedded.spoken(keys, spoken, now);
        }
    }

    /// Decides a request.
    pub async fn check(&self, policy: HomePolicy<'_>, key: &[u8], request: &Request) -> Result<Decision, StoreError> {
        match (self, policy.filed) {
            (Self::Embedded(embedded), Some(filed)) => embedded.check(filed, key, request),
            _ => self.store().check(policy.stored, key, *request).await,
        }
    }

    /// Decides a request; also returns the details of each limit.
    pub async fn check_full(
        &self,
        policy: HomePolicy<'_>,
        key: &[u8],
        request: &Request,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        match (self, policy.filed) {
            (Self::Embedded(embedded), Some(filed)) => embedded.check_full(filed, key, request),
            _ => self.store().check_full(policy.stored, key, *request).await,
        }
    }

    /// Resets a key under a policy.
    pub async fn reset(&self, policy: HomePolicy<'_>, key: &[u8]) -> Result<(), StoreError> {
        match (self, policy.filed) {
            (Self::Embedded(embedded), Some(filed)) => embedded.reset(filed, key),
            _ => self.store().reset(policy.stored, key).await,
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
        match (self, policy.filed) {
            (Self::Embedded(embedded), Some(filed)) => embedded.refund(filed, key, units, at),
            _ => self.store().refund(policy.stored, key, units, at).await,
        }
    }

    /// Decides several keys, all or none.
    pub async fn check_all(&self, parts: &[(HomePolicy<'_>, &[u8], Cost)]) -> Result<Together, StoreError> {
        if let Self::Embedded(embedded) = self {
            let filed = parts.iter().map(|(policy, key, cost)| Some((policy.filed?, *key, *cost)));
            if let Some(parts) = filed.collect::<Option<Vec<_>>>() {
                return embedded.check_all(&parts);
            }
        }
        let items = parts.iter().map(|&(policy, key, cost)| Item { policy: policy.stored, key, cost });
        self.store().check_all(&items.collect::<Vec<_>>()).await
    }
}
