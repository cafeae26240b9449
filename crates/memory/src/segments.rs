//! A vector that grows without moving: what is in it can be read while it grows, and growing never
//! takes long, since it comes in segments.

use std::sync::OnceLock;

/// Elements of a segment, unless it has another number. The model checker looks at every one of them, so it gets few.
pub(crate) const SEGMENT: usize = if crate::sync::MODELLED { 2 } else { 256 };

/// Elements by index, `N` at a time.
#[derive(Debug)]
pub(crate) struct Segments<T, const N: usize = SEGMENT> {
    list: Box<[OnceLock<Box<[T; N]>>]>,
}

impl<T, const N: usize> Segments<T, N> {
    /// Room for `most` elements, none of which is there yet.
    pub(crate) fn new(most: usize) -> Self {
        Self { list: (0..most.div_ceil(N)).map(|_| OnceLock::new()).collect() }
    }

    /// The element at `index`, if it is there.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        Some(&self.list.get(index / N)?.get()?[index % N])
    }

    /// How many elements come with the one at `index`; none if they are there.
    pub(crate) fn missing(&self, index: usize) -> usize {
        if self.list.get(index / N).is_none_or(|segment| segment.get().is_some()) { 0 } else { N }
    }

    /// Makes the segment of `index`. One thread at a time does this.
    pub(crate) fn extend(&self, index: usize, make: impl Fn() -> T) {
        if let Some(segment) = self.list.get(index / N) {
            segment.get_or_init(|| {
                let elements: Box<[T]> = (0..N).map(|_| make()).collect();
                elements.try_into().unwrap_or_else(|_| unreachable!("it has as many elements as a segment"))
            });
        }
    }

    /// How many elements it can have.
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
