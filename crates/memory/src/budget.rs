//! The bytes a store may take, and those it has taken. Nothing is taken that was not counted before, so what is
//! counted never passes the cap.

use crate::sync::{AtomicUsize, Ordering};

/// A cap on bytes. Table and records are used again but not given back, so neither may take all of it:
/// a flood under one policy would lock the keys of another kind out for good.
#[derive(Debug)]
pub(crate) struct Budget {
    cap: usize,
    /// What may be taken beyond the cap, while something is done again.
    slack: AtomicUsize,
    /// The same for the table: one that could not grow before is filled up again instead.
    table_slack: AtomicUsize,
    used: AtomicUsize,
    table: AtomicUsize,
    records: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(cap: usize) -> Self {
        let none = || AtomicUsize::new(0);
        Self { cap, slack: none(), table_slack: none(), used: none(), table: none(), records: none() }
    }

    /// Takes bytes for the table: at most three quarters of the cap.
    pub(crate) fn take_for_table(&self, bytes: usize) -> bool {
        self.take_share(&self.table, self.table_slack.load(Ordering::Relaxed), bytes)
    }

    /// Takes bytes for records: at most three quarters of the cap.
    pub(crate) fn take_for_records(&self, bytes: usize) -> bool {
        self.take_share(&self.records, self.slack.load(Ordering::Relaxed), bytes)
    }

    fn take_share(&self, share: &AtomicUsize, slack: usize, bytes: usize) -> bool {
        if !add(share, bytes, (self.cap / 4 * 3).saturating_add(slack)) {
            return false;
        }
        let taken = add(&self.used, bytes, self.cap.saturating_add(slack));
        if !taken {
            share.fetch_sub(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// Takes bytes; returns whether there were so many.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        bytes == 0 || add(&self.used, bytes, self.cap.saturating_add(self.slack.load(Ordering::Relaxed)))
    }

    /// Takes bytes that can be done without: never beyond the cap.
    pub(crate) fn take_usual(&self, bytes: usize) -> bool {
        bytes == 0 || add(&self.used, bytes, self.cap)
    }

    /// Counts what an empty store takes, which is less than the least cap.
    pub(crate) fn count_empty(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Lets the cap be passed by so much from now on; by the table only if `in_table`.
    pub(crate) fn allow(&self, slack: usize, in_table: bool) {
        self.slack.store(slack, Ordering::Relaxed);
        self.table_slack.store(if in_table { slack } else { 0 }, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn cap(&self) -> usize {
        self.cap
    }
}

/// Adds up to `most`, or not at all.
fn add(to: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= most);
    to.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}
