//! A vector that grows without moving: what is in it can be read while it grows, and growing never
//! takes long. Segments double from 8 elements to 2,048, then stay at that.

use std::sync::OnceLock;

const FIRST_BITS: u32 = 3;
const LAST_BITS: u32 = 11;
const LAST: usize = 1 << LAST_BITS;

/// Elements by index.
#[derive(Debug)]
pub(crate) struct Segments<T> {
    list: Box<[OnceLock<Box<[T]>>]>,
}

impl<T> Segments<T> {
    /// Room for `most` elements, none of which is there yet.
    pub(crate) fn new(most: usize) -> Self {
        let (segment, _) = locate(most.saturating_sub(1));
        Self { list: (0..=segment).map(|_| OnceLock::new()).collect() }
    }

    /// The element at `index`, if it is there.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let (segment, place) = locate(index);
        self.list.get(segment)?.get()?.get(place)
    }

    /// How many elements come with the one at `index`; none if they are there.
    pub(crate) fn missing(&self, index: usize) -> usize {
        let (segment, _) = locate(index);
        if self.list.get(segment).is_none_or(|list| list.get().is_some()) { 0 } else { size(segment) }
    }

    /// Makes the segment of `index`. One thread at a time does this.
    pub(crate) fn extend(&self, index: usize, make: impl Fn() -> T) {
        let (segment, _) = locate(index);
        if let Some(place) = self.list.get(segment) {
            place.get_or_init(|| (0..size(segment)).map(|_| make()).collect());
        }
    }

    /// How many elements it can have.
    pub(crate) fn most(&self) -> usize {
        (0..self.list.len()).map(size).sum()
    }
}

const fn size(segment: usize) -> usize {
    if segment == 0 {
        1 << FIRST_BITS
    } else if segment > 8 {
        LAST
    } else {
        1 << (FIRST_BITS as usize + segment - 1)
    }
}

#[inline]
const fn locate(index: usize) -> (usize, usize) {
    if index < 1 << FIRST_BITS {
        return (0, index);
    }
    if index < 2 * LAST {
        let bits = index.ilog2();
        return ((bits - FIRST_BITS + 1) as usize, index - (1 << bits));
    }
    (((LAST_BITS - FIRST_BITS + 1) as usize) + (index - LAST) / LAST, index % LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_a_place_of_its_own() {
        let (mut segment, mut place) = (0, 0);
        for index in 0..20_000 {
            if place == size(segment) {
                (segment, place) = (segment + 1, 0);
            }
            assert_eq!(locate(index), (segment, place), "{index}");
            place += 1;
        }
    }

    #[test]
    fn grows_up_to_what_it_was_made_for() {
        let segments = Segments::new(5_000);
        assert!(segments.most() >= 5_000 && segments.most() < 5_000 + LAST);
        assert!(segments.get(4_999).is_none());
        assert_eq!(segments.missing(4_999), LAST);
        segments.extend(4_999, || 7);
        assert_eq!((segments.get(4_999), segments.missing(4_999)), (Some(&7), 0));
        assert!(segments.get(1_000_000).is_none() && segments.missing(1_000_000) == 0);
    }
}
