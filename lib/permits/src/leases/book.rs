//! The leases that this process holds, and those that it could not give back yet. The former are bounded by the work in
//! flight, the latter by [`MAX_UNFREED`].

use std::collections::HashMap;
use std::sync::Arc;

use super::lease::Lease;

/// The maximum number of leases kept to be freed later; any beyond that are freed when they end.
pub(crate) const MAX_UNFREED: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct Book {
    held: HashMap<u128, Arc<Lease>>,
    /// Leases that could not be freed in Redis, and the times when they end anyway.
    unfreed: Vec<(Arc<Lease>, u64)>,
    /// Whether the task of `keeper.rs` is running.
    pub(crate) kept: bool,
}

/// The leases to renew and to free now.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) renew: Vec<Arc<Lease>>,
    pub(crate) free: Vec<(Arc<Lease>, u64)>,
}

impl Book {
    pub(crate) fn hold(&mut self, lease: Arc<Lease>) {
        self.held.insert(lease.id, lease);
    }

    pub(crate) fn let_go(&mut self, lease: &Lease) {
        self.held.remove(&lease.id);
        if self.held.is_empty() && self.held.capacity() > 1_024 {
            self.held.shrink_to_fit();
        }
    }

    pub(crate) fn owe(&mut self, lease: Arc<Lease>, over: u64) {
        if self.unfreed.len() < MAX_UNFREED {
            self.unfreed.push((lease, over));
        }
    }

    /// Returns the work to be done at `now`. Leases with at most `due` left are to be renewed; lost leases are removed.
    /// Returns `None` if no lease is held or left to be freed: the keeper task then ends.
    pub(crate) fn round(&mut self, now: u64, due: u64) -> Option<Round> {
        self.held.retain(|_, lease| !lease.is_lost());
        let mut free = std::mem::take(&mut self.unfreed);
        free.retain(|(_, over)| now < *over);
        if self.held.is_empty() && free.is_empty() {
            self.kept = false;
            return None;
        }
        let renew = self.held.values().filter(|lease| lease.left() <= due).cloned().collect();
        Some(Round { renew, free })
    }

    /// Returns those of the given leases that are no longer held.
    pub(crate) fn gone(&self, leases: Vec<Arc<Lease>>) -> Vec<Arc<Lease>> {
        leases.into_iter().filter(|lease| lease.is_lost() || !self.held.contains_key(&lease.id)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::lease::Watch;
    use super::*;

    fn lease(id: u128, left: u64) -> Arc<Lease> {
        let watch = Watch::start();
        Arc::new(Lease::new(b"k".as_slice().into(), id, watch, watch.now() + left))
    }

    const HOUR: u64 = 3_600_000_000;

    #[test]
    fn a_round_renews_what_is_due_and_forgets_what_is_lost() {
        let mut book = Book { kept: true, ..Book::default() };
        for (id, left) in [(1, 2 * HOUR), (2, HOUR), (3, 0)] {
            book.hold(lease(id, left));
        }
        let round = book.round(0, HOUR).unwrap();
        assert_eq!(round.renew.iter().map(|lease| lease.id).collect::<Vec<_>>(), [2]);
        assert_eq!(book.len(), 2);
        book.let_go(&lease(1, HOUR));
        assert_eq!(book.gone(vec![lease(1, HOUR), lease(2, HOUR)]).len(), 1);
        book.let_go(&lease(2, HOUR));
        assert!(book.round(0, HOUR).is_none() && !book.kept, "nobody keeps an empty book");
    }

    #[test]
    fn what_is_owed_is_bounded_and_over_with_its_lease() {
        let (mut book, owed) = (Book::default(), lease(1, HOUR));
        for _ in 0..MAX_UNFREED + 5 {
            book.owe(owed.clone(), 10);
        }
        assert_eq!(book.unfreed.len(), MAX_UNFREED);
        assert_eq!(book.round(9, 0).unwrap().free.len(), MAX_UNFREED);
        book.owe(owed, 10);
        assert!(book.round(10, 0).is_none());
    }
}
