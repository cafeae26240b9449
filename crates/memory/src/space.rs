//! A policy of a name. Keys are packed by the policy they were first used under, and their slots tell by its
//! rank which that was. Who a key is depends on the name alone, so that every policy of the name finds it.

use std::sync::Arc;

use tollgate_core::{Align, Limit, Micros, Policy};

use crate::ident::{Ident, Idents, Secret};
use crate::memory::MOST_NAMES;
use crate::record;

/// How many buckets the keys of one name share when the store is full: fewer for names that come late, so
/// that very many names do not take very much memory beside the cap.
const BUCKETS: u64 = 1_024;
const BUCKETS_OF_LATE_NAMES: u64 = 128;
const EARLY_NAMES: u64 = 4_096;
/// The same of all names together.
pub(crate) const ALL_BUCKETS: u64 = EARLY_NAMES * BUCKETS + (MOST_NAMES as u64 - EARLY_NAMES) * BUCKETS_OF_LATE_NAMES;
/// The bits that tell the policies of a name apart.
pub(crate) const RANK_BITS: u32 = 6;

/// A policy of a name.
#[derive(Debug)]
pub(crate) struct Space {
    /// Its own policy: slots of its rank are packed by it.
    pub(crate) own: Policy,
    /// Which of its name's policies it is.
    pub(crate) rank: u8,
    /// Whether keys need nothing but two words under it.
    pub(crate) packs: bool,
    /// Whether its limits all begin by the machine's clock, so that this decides.
    pub(crate) wall: bool,
    /// Bytes a record under it takes at least, besides itself.
    pub(crate) least: usize,
    /// How far back a clock may go without a correction.
    pub(crate) near: Micros,
    idents: Idents,
    /// The number of its name.
    pub(crate) name: u16,
}

impl Space {
    /// `monotonic` tells whether the store's clock never goes back.
    pub(crate) fn new(own: Policy, name: u16, rank: u8, secret: &Secret, monotonic: bool) -> Self {
        let wall = own.limits().iter().all(|limit| limit.rule().numbers().2.align == Some(Align::Clock));
        Self {
            packs: own.limits().len() == 1 && own.limits()[0].packs(),
            wall,
            least: record::least_bytes(&own),
            near: if monotonic && !wall { Micros::new(u64::MAX) } else { record::near(&own) },
            idents: Idents::new(secret, own.name(), name),
            name,
            rank,
            own,
        }
    }

    /// Who a key is: the same under all policies of the name.
    #[inline]
    pub(crate) fn ident(&self, key: &[u8]) -> Ident {
        self.idents.of(key)
    }

    /// The identity of the bucket a key shares with others when it finds no room.
    pub(crate) fn overflow(&self, secret: &Secret, ident: Ident) -> Ident {
        let buckets = if u64::from(self.name) < EARLY_NAMES { BUCKETS } else { BUCKETS_OF_LATE_NAMES };
        let bucket = secret.keyed((ident.print, self.name)) % buckets;
        let print = secret.keyed((self.name, bucket));
        Ident::new(print, secret.keyed((print, bucket)), self.name)
    }

    /// Whether `policy` has the limits of its own policy.
    #[inline]
    pub(crate) fn owns(&self, policy: &Policy) -> bool {
        let (own, other) = (self.own.limits(), policy.limits());
        std::ptr::eq(own, other) || (own.len() == other.len() && own.iter().zip(other).all(|(a, b)| same(a, b)))
    }
}

fn same(a: &Arc<Limit>, b: &Arc<Limit>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}
