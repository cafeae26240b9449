//! Who decides: the embedded store, which answers at once, or a store that has to be waited for.

use std::sync::Arc;

use tollgate_core::{Cost, Decision, Detail, Item, Policy, Request, Store, StoreError, Timestamp, Together};
use tollgate_redis::Redis;

use super::{Known, Part};
use crate::data::{Binding, Embedded, Filed, Note, Unkept};
use crate::keys::{Keys, Spoken};
use crate::metrics::Whose;

/// The home behind the server.
pub(crate) enum Home {
    /// In this process.
    Embedded(Embedded),
    /// In Redis or Valkey, alone or a cluster.
    Redis(Redis),
}

impl Home {
    /// The embedded store, of which nothing is kept.
    #[cfg(test)]
    pub(crate) fn embedded(memory: tollgate_memory::Memory, clock: Box<dyn tollgate_core::Clock>) -> Self {
        Self::Embedded(Embedded::new(memory, None, clock))
    }

    /// The policy as the embedded store knows it. Keys under a name that a caller brought are others than those of the
    /// server's policy of that name.
    pub(crate) fn prepare(&self, policy: &Policy, whose: Whose) -> Result<Option<Filed>, StoreError> {
        match self {
            Self::Embedded(embedded) => embedded.prepare(policy, whose).map(Some),
            Self::Redis(_) => Ok(None),
        }
    }

    /// Whether it answers without being waited for.
    pub(crate) fn answers_at_once(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    /// The home as a store among others. What the embedded one is asked this way is not kept.
    pub(crate) fn store(&self) -> &dyn Store {
        match self {
            Self::Embedded(embedded) => &**embedded,
            Self::Redis(redis) => redis,
        }
    }

    /// Keeps a fact over a restart, if anything is kept.
    pub(crate) fn note(&self, note: &Note) {
        if let Self::Embedded(embedded) = self {
            embedded.note(note);
        }
    }

    /// What keeps what is decided, if anything does.
    pub(crate) fn binding(&self) -> Option<&Arc<Binding>> {
        match self {
            Self::Embedded(embedded) => embedded.binding(),
            Self::Redis(_) => None,
        }
    }

    /// Whether decisions are made though nothing can be kept of them.
    #[inline]
    pub(crate) fn is_away(&self) -> bool {
        matches!(self, Self::Embedded(embedded) if embedded.is_away())
    }

    /// Waits until everything decided so far may be told.
    #[inline]
    pub(crate) async fn settled(&self) -> Result<(), Unkept> {
        match self {
            Self::Embedded(embedded) => embedded.settled().await,
            Self::Redis(_) => Ok(()),
        }
    }

    /// Keeps what a plain command changed of the keys, which are held.
    #[inline]
    pub(crate) fn changed(&self, keys: &mut Keys) {
        if let Self::Embedded(embedded) = self {
            embedded.changed(keys);
        }
    }

    /// Keeps a call of a dialect that was just decided on the keys, which are held.
    #[inline]
    pub(crate) fn spoken(&self, keys: &mut Keys, spoken: &Spoken, now: Timestamp) {
        if let Self::Embedded(embedded) = self {
            embedded.spoken(keys, spoken, now);
        }
    }

    pub(crate) async fn check(&self, known: &Known, key: &[u8], request: &Request) -> Result<Decision, StoreError> {
        match (self, &known.prepared) {
            (Self::Embedded(embedded), Some(filed)) => embedded.check(filed, key, request),
            _ => self.store().check(known.stored(), key, *request).await,
        }
    }

    pub(crate) async fn check_full(
        &self,
        known: &Known,
        key: &[u8],
        request: &Request,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        match (self, &known.prepared) {
            (Self::Embedded(embedded), Some(filed)) => embedded.check_full(filed, key, request),
            _ => self.store().check_full(known.stored(), key, *request).await,
        }
    }

    pub(crate) async fn reset(&self, known: &Known, key: &[u8]) -> Result<(), StoreError> {
        match (self, &known.prepared) {
            (Self::Embedded(embedded), Some(filed)) => embedded.reset(filed, key),
            _ => self.store().reset(known.stored(), key).await,
        }
    }

    pub(crate) async fn refund(
        &self,
        known: &Known,
        key: &[u8],
        units: Cost,
        at: Timestamp,
    ) -> Result<u64, StoreError> {
        match (self, &known.prepared) {
            (Self::Embedded(embedded), Some(filed)) => embedded.refund(filed, key, units, at),
            _ => self.store().refund(known.stored(), key, units, at).await,
        }
    }

    pub(crate) async fn check_all(&self, parts: &[Part]) -> Result<Together, StoreError> {
        if let Self::Embedded(embedded) = self {
            let filed = parts
                .iter()
                .map(|part| Some((part.known.prepared.as_deref()?, part.key.as_slice(), part.cost)))
                .collect::<Option<Vec<_>>>();
            if let Some(parts) = filed {
                return embedded.check_all(&parts);
            }
        }
        let items: Vec<Item<'_>> =
            parts.iter().map(|Part { known, key, cost }| Item { policy: known.stored(), key, cost: *cost }).collect();
        self.store().check_all(&items).await
    }
}
