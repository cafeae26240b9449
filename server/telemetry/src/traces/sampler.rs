//! Sampling of one request out of N.

use std::sync::atomic::{AtomicU64, Ordering};

/// Samples exactly one request out of N, starting with the first, whichever threads they come from.
#[derive(Debug)]
pub struct Sampler {
    one_of: u64,
    seen: AtomicU64,
}

impl Sampler {
    /// Returns a sampler of one request out of `one_of`; 0 samples no requests.
    pub const fn new(one_of: u64) -> Self {
        Self { one_of, seen: AtomicU64::new(0) }
    }

    #[inline]
    pub(crate) fn sample(&self) -> bool {
        self.one_of != 0 && self.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.one_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_so_many_is_sampled_exactly() {
        for (one_of, expected) in [(0, 0), (1, 10_000), (2, 5_000), (3, 3_334), (1_000, 10), (20_000, 1)] {
            let sampler = Sampler::new(one_of);
            let threads: Vec<usize> = std::thread::scope(|scope| {
                let run = || (0..2_500).filter(|_| sampler.sample()).count();
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(threads.iter().sum::<usize>(), expected, "one of {one_of}");
        }
    }
}
