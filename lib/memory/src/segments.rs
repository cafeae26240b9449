//! A vector that grows without moving its elements: they can be read while it grows, and growing never takes long,
//! since it happens one segment at a time.

use std::sync::OnceLock;

/// The default number of elements in a segment. It is small for the model checker, which examines every element.
pub(crate) const SEGMENT: usize = if crate::sync::MODELLED { 2 } else { 256 };

/// Elements by index, allocated `N` at a time.
#[derive(Debug)]
pub(crate) struct Segments<T, const N: usize = SEGMENT> {
    list: Box<[OnceLock<Box<[T; N]>>]>,
}

impl<T, const N: usize> Segments<T, N> {
    /// Creates a vector with room for `most` elements, none of which exists yet.
    pub(crate) fn new(most: usize) -> Self {
        Self { list: (0..most.div_ceil(N)).map(|_| OnceLock::new()).collect() }
    }

    /// Returns the element at `index`, if it exists.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        Some(&self.list.get(index / N)?.get()?[index % N])
    }

    /// Returns the number of elements that have to be created for the one at `index` to exist; 0 if it exists.
    pub(crate) fn missing(&self, index: usize) -> usize {
        if self.list.get(index / N).is_none_or(|segment| segment.get().is_some()) { 0 } else { N }
    }

    /// Creates the segment of `index`. Only one thread at a time may do this.
    pub(crate) fn extend(&self, index: usize, make: impl Fn() -> T) {
        if let Some(segment) = self.list.get(index / N) {
            segment.get_or_init(|| {
                let elements: Box<[T]> = (0..N).map(|_| make()).collect();
                elements.try_into().unwrap_or_else(|_| unreachable!("it has as many elements as a segment"))
            });
        }
    }

    /// Returns the maximum number of elements.
    pub(crate) fn most(&self) -> usize {
        self.list.len() * N
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_up_to_what_it_was_made_for() {
        let segments: Segments<i32> = Segments::new(5_000);
        assert!(segments.most() >= 5_000 && segments.most() < 5_000 + SEGMENT);
        assert!(segments.get(4_999).is_none());
        assert_eq!(segments.missing(4_999), SEGMENT);
        segments.extend(4_999, || 7);
        assert_eq!((segments.get(4_999), segments.missing(4_999)), (Some(&7), 0));
        assert!(segments.get(1_000_000).is_none() && segments.missing(1_000_000) == 0);
    }
}
