//! Finds the longest line without looking at the others.

use std::collections::BTreeSet;

/// The lengths of all rows, in order.
#[derive(Default)]
pub(super) struct RowLengths(BTreeSet<(usize, usize)>);

impl RowLengths {
    /// Changes the length of a row from `before` to `now`; a row of length 0 does not exist.
    pub(super) fn change(&mut self, row: usize, before: usize, now: usize) {
        // Inserting first keeps the set from becoming empty in between and freeing its node.
        if now > 0 {
            self.0.insert((now, row));
        }
        if before > 0 {
            self.0.remove(&(before, row));
        }
    }

    /// Returns the length and the number of the longest row.
    pub(super) fn longest(&self) -> Option<(usize, usize)> {
        self.0.last().copied()
    }
}
