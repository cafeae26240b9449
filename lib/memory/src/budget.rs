//! The number of bytes that a store may use, and the number that it uses. Bytes are counted before they are allocated,
//! so the count never exceeds the cap.

use crate::sync::{AtomicUsize, Ordering};

/// A cap on bytes. The memory of the table and of the records is reused but never freed, so neither may take all of it:
/// otherwise a flood of keys under one policy would lock out keys of another kind forever.
#[derive(Debug)]
pub(crate) struct Budget {
    cap: usize,
    /// The number of bytes that only the table may take.
    table_reserve: usize,
    /// The number of bytes allowed beyond the cap, for a replay or a snapshot.
    slack: AtomicUsize,
    /// The same for the table. It is zero where a table that could not grow before is to be filled up instead.
    table_slack: AtomicUsize,
    used: AtomicUsize,
    table: AtomicUsize,
    records: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(cap: usize) -> Self {
        let none = || AtomicUsize::new(0);
        Self { cap, table_reserve: 0, slack: none(), table_slack: none(), used: none(), table: none(), records: none() }
    }

    /// Creates a budget of which only the table may take `reserve` bytes.
    pub(crate) fn with_table_reserve(cap: usize, reserve: usize) -> Self {
        Self { table_reserve: reserve, ..Self::new(cap) }
    }

    /// Takes bytes for the table: at most three quarters of the cap.
    pub(crate) fn take_for_table(&self, bytes: usize) -> bool {
        let slack = self.table_slack.load(Ordering::Relaxed);
        self.take_share(&self.table, slack, bytes, self.cap.saturating_add(slack))
    }

    /// Takes bytes for records: at most three quarters of the cap.
    pub(crate) fn take_for_records(&self, bytes: usize) -> bool {
        let slack = self.slack.load(Ordering::Relaxed);
        self.take_share(&self.records, slack, bytes, self.open_cap().saturating_add(slack))
    }

    /// Takes bytes for the table or for records, while no more than `most` are used in total.
    fn take_share(&self, share: &AtomicUsize, slack: usize, bytes: usize, most: usize) -> bool {
        if !add(share, bytes, (self.cap / 4 * 3).saturating_add(slack)) {
            return false;
        }
        let taken = add(&self.used, bytes, most);
        if !taken {
            share.fetch_sub(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// Takes bytes. Returns whether that many were available.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        bytes == 0 || add(&self.used, bytes, self.open_cap().saturating_add(self.slack.load(Ordering::Relaxed)))
    }

    /// Returns the number of bytes that may be in use without those that are still reserved for the table.
    fn open_cap(&self) -> usize {
        if self.table_reserve == 0 {
            return self.cap;
        }
        self.cap - self.table_reserve.saturating_sub(self.table.load(Ordering::Relaxed))
    }

    /// Takes bytes for memory that is not essential. This never exceeds the cap, even if slack is allowed.
    pub(crate) fn take_usual(&self, bytes: usize) -> bool {
        bytes == 0 || add(&self.used, bytes, self.open_cap())
    }

    /// Counts the bytes of an empty store, which are fewer than the minimum cap.
    pub(crate) fn count_empty(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Allows the cap to be exceeded by `slack` bytes from now on; by the table only if `in_table` is set.
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

/// Adds `bytes` if the sum is at most `most`. Returns whether it was.
fn add(to: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= most);
    to.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}
