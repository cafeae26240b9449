//! A policy of a name. Keys are packed by the policy they were last charged under, whose rank is in their slots. The
//! identity of a key depends on the name alone, so that every policy of the name finds it.

use std::sync::Arc;

use tollgate_kernel::{Alignment, Limit, Micros, Policy};

use crate::ident::{IdentHasher, StoreSecret};
use crate::overflow;
use crate::record;

/// The number of bits that distinguish the policies of a name.
pub(crate) const RANK_BITS: u32 = 6;

/// A policy of a name.
#[derive(Debug)]
pub(crate) struct Space {
    /// The space's own policy: slots of its rank are packed by it.
    pub(crate) own: Policy,
    /// The position among the policies of its name.
    pub(crate) rank: u8,
    /// Whether the state of a key under this policy fits in two words.
    pub(crate) packs: bool,
    /// Whether all its limits are aligned to the machine's clock, so that this clock is used to decide.
    pub(crate) wall: bool,
    /// Whether the policy is bare text, or has a name that a caller chose: in both cases callers choose its limits.
    pub(crate) is_callers: bool,
    /// The number of buckets that the keys of its name share when the store is full.
    pub(crate) buckets: u64,
    /// How far back a clock may go without being corrected.
    pub(crate) near: Micros,
    pub(crate) idents: IdentHasher,
    /// The number of its name.
    pub(crate) name: u16,
}

impl Space {
    pub(crate) fn new(own: Policy, name: u16, rank: u8, store: &StoreProperties) -> Self {
        let (wall, is_callers) = (is_wall(&own), own.name().is_empty());
        Self {
            packs: own.limits().len() == 1 && own.limits()[0].packs(),
            wall,
            is_callers,
            buckets: overflow::buckets(store.overflow_bytes, is_callers, name),
            near: if store.is_monotonic && !wall { Micros::new(u64::MAX) } else { record::near(&own) },
            idents: IdentHasher::new(&store.secret, own.name(), name),
            name,
            rank,
            own,
        }
    }

    /// Returns whether `policy` has the limits of the space's own policy.
    #[inline]
    pub(crate) fn owns(&self, policy: &Policy) -> bool {
        let (own, other) = (self.own.limits(), policy.limits());
        std::ptr::eq(own, other) || (own.len() == other.len() && own.iter().zip(other).all(|(a, b)| same(a, b)))
    }
}

/// Properties of a store that its spaces depend on.
#[derive(Clone, Debug)]
pub(crate) struct StoreProperties {
    pub(crate) secret: StoreSecret,
    /// Whether the clock of the store never goes back.
    pub(crate) is_monotonic: bool,
    /// The number of bytes for the overflow buckets of one kind of names.
    pub(crate) overflow_bytes: usize,
}

/// Returns whether all limits of a policy are aligned to the machine's clock.
pub(crate) fn is_wall(policy: &Policy) -> bool {
    policy.limits().iter().all(|limit| is_aligned(limit))
}

/// Returns whether a limit is aligned to the machine's clock.
pub(crate) fn is_aligned(limit: &Limit) -> bool {
    limit.rule().numbers().2.align == Some(Alignment::Clock)
}

fn same(a: &Arc<Limit>, b: &Arc<Limit>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}
