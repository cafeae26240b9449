//! The longest line, found without looking at the others.

use std::collections::BTreeSet;

/// How long every row is, in order.
#[derive(Default)]
pub(super) struct Lengths(BTreeSet<(usize, usize)>);

impl Lengths {
    /// A row that was `before` long is `now` long; a row of length 0 is none.
    pub(super) fn change(&mut self, row: usize, before: usize, now: usize) {
        // First in, then out: the set does not become empty in between, and keeps its node.
        if now > 0 {
            self.0.insert((now, row));
        }
        if before > 0 {
            self.0.remove(&(before, row));
        }
    }

    /// The length and the number of the longest row.
    pub(super) fn longest(&self) -> Option<(usize, usize)> {
        self.0.last().copied()
    }
}
