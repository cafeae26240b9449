//! The greatest of the values at and above a place, as values come in: a Fenwick tree.

/// Places in a row, each with the greatest value it was given and who gave it.
pub(super) struct MaxTree {
    /// A node holds the best of a few places, the last of which is its own; counted from the end.
    nodes: Vec<Option<(i128, usize)>>,
}

impl MaxTree {
    pub(super) fn new(places: usize) -> Self {
        Self { nodes: vec![None; places + 1] }
    }

    /// Gives a value to a place, by `who`.
    pub(super) fn raise(&mut self, place: usize, value: i128, who: usize) {
        let mut node = self.nodes.len() - 1 - place;
        while node < self.nodes.len() {
            if self.nodes[node].is_none_or(|(best, _)| value > best) {
                self.nodes[node] = Some((value, who));
            }
            node += node & node.wrapping_neg();
        }
    }

    /// The greatest value at `place` and above, and who gave it.
    pub(super) fn from(&self, place: usize) -> Option<(i128, usize)> {
        let mut node = (self.nodes.len() - 1).saturating_sub(place);
        let mut best: Option<(i128, usize)> = None;
        while node > 0 {
            if let Some((value, _)) = self.nodes[node]
                && best.is_none_or(|(best, _)| value > best)
            {
                best = self.nodes[node];
            }
            node -= node & node.wrapping_neg();
        }
        best
    }
}
