//! A policy name: keys under it have state of their own.

use tollgate_core::{Align, Micros, Policy};

use crate::ident::{Ident, Idents, Secret};
use crate::record;

/// How many buckets the keys of one name share when the store is full.
pub(crate) const OVERFLOW_BUCKETS: u64 = 1_024;

/// A policy name and the policy it was first used for.
#[derive(Debug)]
pub(crate) struct Space {
    /// Its own policy: packed slots are packed by it.
    pub(crate) own: Policy,
    /// Whether keys need nothing but two words under it.
    pub(crate) packs: bool,
    /// Whether its limits all begin by the machine's clock, so that this decides.
    pub(crate) wall: bool,
    /// Bytes a record under it takes at least, besides itself.
    pub(crate) least: usize,
    /// How far back a clock may go without a correction.
    pub(crate) near: Micros,
    idents: Idents,
    index: u16,
}

impl Space {
    /// `monotonic` tells whether the store's clock never goes back.
    pub(crate) fn new(own: Policy, index: u16, secret: &Secret, monotonic: bool) -> Self {
        let wall = own.limits().iter().all(|limit| limit.rule().numbers().2.align == Some(Align::Clock));
        Self {
            packs: own.limits().len() == 1 && own.limits()[0].packs(),
            wall,
            least: record::least_bytes(&own),
            near: if monotonic && !wall { Micros::new(u64::MAX) } else { record::near(&own) },
            idents: Idents::new(secret, own.name(), index),
            index,
            own,
        }
    }

    #[inline]
    pub(crate) fn ident(&self, key: &[u8]) -> Ident {
        self.idents.of(key)
    }

    /// The identity of the bucket a key shares with others when it finds no room.
    pub(crate) fn overflow(&self, secret: &Secret, ident: Ident) -> Ident {
        let bucket = secret.keyed((ident.print, ident.mark)) % OVERFLOW_BUCKETS;
        let print = secret.keyed((self.index, bucket));
        Ident::new(print, secret.keyed((print, bucket)), self.index)
    }

    /// Whether `policy` has the limits of the name's own policy.
    #[inline]
    pub(crate) fn owns(&self, policy: &Policy) -> bool {
        let (own, other) = (self.own.limits(), policy.limits());
        std::ptr::eq(own, other) || (own.len() == other.len() && own.iter().zip(other).all(|(a, b)| same(a, b)))
    }
}

fn same(a: &std::sync::Arc<tollgate_core::Limit>, b: &std::sync::Arc<tollgate_core::Limit>) -> bool {
    std::sync::Arc::ptr_eq(a, b) || a == b
}
