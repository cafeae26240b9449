//! Who decides: the embedded store, which answers at once, or a store that has to be waited for.

use tollgate_core::{Cost, Decision, Detail, Item, Policy, Request, Store, StoreError, Timestamp, Together};
use tollgate_memory::{Memory, Prepared};
use tollgate_redis::Redis;

use super::{Known, Part};

/// The home behind the server.
pub(crate) enum Home {
    /// In this process.
    Embedded(Memory),
    /// In Redis or Valkey, alone or a cluster.
    Redis(Redis),
}

impl Home {
    /// The policy as the embedded store knows it.
    pub(crate) fn prepare(&self, policy: &Policy) -> Result<Option<Prepared>, StoreError> {
        match self {
            Self::Embedded(memory) => memory.prepare(policy).map(Some),
            Self::Redis(_) => Ok(None),
        }
    }

    /// Whether it answers without being waited for.
    pub(crate) fn answers_at_once(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    /// The home as a store among others.
    pub(crate) fn store(&self) -> &dyn Store {
        match self {
            Self::Embedded(memory) => memory,
            Self::Redis(redis) => redis,
        }
    }

    pub(crate) async fn check(&self, known: &Known, key: &[u8], request: &Request) -> Result<Decision, StoreError> {
        match (self, &known.prepared) {
            (Self::Embedded(memory), Some(prepared)) => memory.check(prepared, key, request),
            _ => self.store().check(&known.policy, key, *request).await,
        }
    }

    pub(crate) async fn check_full(
        &self,
        known: &Known,
        key: &[u8],
        request: &Request,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        match (self, &known.prepared) {
            (Self::Embedded(memory), Some(prepared)) => memory.check_full(prepared, key, request),
            _ => self.store().check_full(&known.policy, key, *request).await,
        }
    }

    pub(crate) async fn reset(&self, known: &Known, key: &[u8]) -> Result<(), StoreError> {
        self.store().reset(&known.policy, key).await
    }

    pub(crate) async fn refund(
        &self,
        known: &Known,
        key: &[u8],
        units: Cost,
        at: Timestamp,
    ) -> Result<u64, StoreError> {
        self.store().refund(&known.policy, key, units, at).await
    }

    pub(crate) async fn check_all(&self, parts: &[Part]) -> Result<Together, StoreError> {
        let items: Vec<Item<'_>> =
            parts.iter().map(|Part { known, key, cost }| Item { policy: &known.policy, key, cost: *cost }).collect();
        self.store().check_all(&items).await
    }
}
