//! The leases that this process holds, and those that it could not free yet. The former are bounded by the work in
//! flight, the latter by [`MAX_UNFREED`].

use std::collections::HashMap;
use std::sync::Arc;

use super::lease::Lease;

/// The maximum number of leases kept to be freed later; any beyond that are freed when they end.
pub(crate) const MAX_UNFREED: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct LeaseRegistry {
    held: HashMap<u128, Arc<Lease>>,
    /// Leases that could not be freed in Redis, and the times when they end anyway.
    unfreed: Vec<(Arc<Lease>, u64)>,
    /// Whether the task of `keeper.rs` is running.
    pub(crate) keeper_running: bool,
}

/// The leases to renew and to free now.
#[derive(Debug, Default)]
pub(crate) struct KeeperRound {
    pub(crate) renew: Vec<Arc<Lease>>,
    pub(crate) free: Vec<(Arc<Lease>, u64)>,
}

impl LeaseRegistry {
    pub(crate) fn hold(&mut self, lease: Arc<Lease>) {
        self.held.insert(lease.id, lease);
    }

    pub(crate) fn remove(&mut self, lease: &Lease) {
        self.held.remove(&lease.id);
        if self.held.is_empty() && self.held.capacity() > 1_024 {
            self.held.shrink_to_fit();
        }
    }

    pub(crate) fn free_later(&mut self, lease: Arc<Lease>, over: u64) {
        if self.unfreed.len() < MAX_UNFREED {
            self.unfreed.push((lease, over));
        }
    }

    /// Returns the work to be done at `now`. Leases with at most `due` left are to be renewed; lost leases are removed.
    /// Returns `None` if no lease is held or left to be freed: the keeper task then ends.
    pub(crate) fn round(&mut self, now: u64, due: u64) -> Option<KeeperRound> {
        self.held.retain(|_, lease| !lease.is_lost());
        let mut free = std::mem::take(&mut self.unfreed);
        free.retain(|(_, over)| now < *over);
        if self.held.is_empty() && free.is_empty() {
            self.keeper_running = false;
            return None;
        }
        let renew = self.held.values().filter(|lease| lease.left() <= due).cloned().collect();
        Some(KeeperRound { renew, free })
    }

    /// Returns those of the given leases that are no longer held.
    pub(crate) fn no_longer_held(&self, leases: Vec<Arc<Lease>>) -> Vec<Arc<Lease>> {
        leases.into_iter().filter(|lease| lease.is_lost() || !self.held.contains_key(&lease.id)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::lease::LeaseClock;
    use super::*;

    fn lease(id: u128, left: u64) -> Arc<Lease> {
        let clock = LeaseClock::start();
        Arc::new(Lease::new(b"k".as_slice().into(), id, clock, clock.now() + left))
    }

    const HOUR: u64 = 3_600_000_000;

    #[test]
    fn a_round_renews_due_leases_and_removes_lost_ones() {
        let mut registry = LeaseRegistry { keeper_running: true, ..LeaseRegistry::default() };
        for (id, left) in [(1, 2 * HOUR), (2, HOUR), (3, 0)] {
            registry.hold(lease(id, left));
        }
        let round = registry.round(0, HOUR).unwrap();
        assert_eq!(round.renew.iter().map(|lease| lease.id).collect::<Vec<_>>(), [2]);
        assert_eq!(registry.len(), 2);
        registry.remove(&lease(1, HOUR));
        assert_eq!(registry.no_longer_held(vec![lease(1, HOUR), lease(2, HOUR)]).len(), 1);
        registry.remove(&lease(2, HOUR));
        assert!(
            registry.round(0, HOUR).is_none() && !registry.keeper_running,
            "the keeper ends with an empty registry"
        );
    }

    #[test]
    fn leases_to_be_freed_later_are_bounded_and_dropped_when_they_end() {
        let (mut registry, unfreed) = (LeaseRegistry::default(), lease(1, HOUR));
        for _ in 0..MAX_UNFREED + 5 {
            registry.free_later(unfreed.clone(), 10);
        }
        assert_eq!(registry.unfreed.len(), MAX_UNFREED);
        assert_eq!(registry.round(9, 0).unwrap().free.len(), MAX_UNFREED);
        registry.free_later(unfreed, 10);
        assert!(registry.round(10, 0).is_none());
    }
}
