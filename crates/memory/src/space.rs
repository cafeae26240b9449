//! A policy of a name. Keys are packed by the policy they were first used under, and their slots tell by its
//! rank which that was. Who a key is depends on the name alone, so that every policy of the name finds it.

use std::sync::Arc;

use tollgate_core::{Align, Limit, Micros, Policy};

use crate::ident::{Idents, Secret};
use crate::overflow;
use crate::record;

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
    /// Whether it is of bare text, or of a name that a caller brought: then callers choose its limits.
    pub(crate) is_callers: bool,
    /// How many buckets the keys of its name share when the store is full.
    pub(crate) buckets: u64,
    /// How far back a clock may go without a correction.
    pub(crate) near: Micros,
    pub(crate) idents: Idents,
    /// The number of its name.
    pub(crate) name: u16,
}

impl Space {
    pub(crate) fn new(own: Policy, name: u16, rank: u8, store: &Facts) -> Self {
        let (wall, is_callers) = (is_wall(&own), own.name().is_empty());
        Self {
            packs: own.limits().len() == 1 && own.limits()[0].packs(),
            wall,
            is_callers,
            buckets: overflow::buckets(store.overflow_bytes, is_callers, name),
            near: if store.is_monotonic && !wall { Micros::new(u64::MAX) } else { record::near(&own) },
            idents: Idents::new(&store.secret, own.name(), name),
            name,
            rank,
            own,
        }
    }

    /// Whether `policy` has the limits of its own policy.
    #[inline]
    pub(crate) fn owns(&self, policy: &Policy) -> bool {
        let (own, other) = (self.own.limits(), policy.limits());
        std::ptr::eq(own, other) || (own.len() == other.len() && own.iter().zip(other).all(|(a, b)| same(a, b)))
    }
}

/// What a store knows that its spaces are made with.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) secret: Secret,
    /// Whether its clock never goes back.
    pub(crate) is_monotonic: bool,
    /// Bytes for the buckets that the keys of names of one kind share.
    pub(crate) overflow_bytes: usize,
}

/// Whether all limits of a policy begin by the machine's clock.
pub(crate) fn is_wall(policy: &Policy) -> bool {
    policy.limits().iter().all(|limit| is_aligned(limit))
}

/// Whether a limit begins by the machine's clock.
pub(crate) fn is_aligned(limit: &Limit) -> bool {
    limit.rule().numbers().2.align == Some(Align::Clock)
}

fn same(a: &Arc<Limit>, b: &Arc<Limit>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}
