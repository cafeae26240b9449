//! What this process holds, and what it could not give back yet. Both bounded: by what is in flight, and by a number.

use std::collections::HashMap;
use std::sync::Arc;

use super::lease::Lease;

/// The most leases kept to be freed again; the end of their lease frees what is beyond.
pub(crate) const MOST_UNFREED: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct Book {
    held: HashMap<u128, Arc<Lease>>,
    /// Those that Redis did not hear of, and when their lease is over anyway.
    unfreed: Vec<(Arc<Lease>, u64)>,
    /// Whether somebody keeps the book: the task of `keeper.rs`.
    pub(crate) kept: bool,
}

/// What there is to do now.
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
        if self.unfreed.len() < MOST_UNFREED {
            self.unfreed.push((lease, over));
        }
    }

    /// What is to be done at `now`: leases with at most `due` left are renewed, lost ones are let go of. `None` if
    /// nothing is held or owed: then nobody keeps the book.
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

    /// Which of these nobody holds any more.
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
        for _ in 0..MOST_UNFREED + 5 {
            book.owe(owed.clone(), 10);
        }
        assert_eq!(book.unfreed.len(), MOST_UNFREED);
        assert_eq!(book.round(9, 0).unwrap().free.len(), MOST_UNFREED);
        book.owe(owed, 10);
        assert!(book.round(10, 0).is_none());
    }
}
