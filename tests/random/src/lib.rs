//! Pseudo-random numbers for tests and benchmarks: the same numbers from the same seed, on every machine. They can be
//! predicted, so they are never for secrets.

/// A generator of numbers (SplitMix64): small, fast, and good enough to choose what to try. Any seed will do.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns the generator of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the generator of one of several parts of a seed's work, such as a thread. The parts have sequences of
    /// their own.
    pub fn of_part(seed: u64, part: u64) -> Self {
        Self(Self(seed).next_u64() ^ Self(part).next_u64().rotate_left(32))
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64().checked_rem(end).unwrap_or(0)
    }

    /// Returns a number below `end`, as [`below`](Self::below) does, for places and lengths.
    #[inline]
    pub fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns a number from `low`, which is not zero, to `high`. Each doubling of `low` is as likely as the next.
    pub fn spread(&mut self, low: u64, high: u64) -> u64 {
        let doublings = (high / low).max(1).ilog2() + 1;
        let least = low << self.below(u64::from(doublings));
        self.within(least, (2 * least - 1).min(high))
    }

    /// Returns true in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns true in one of `cases`.
    pub fn one_in(&mut self, cases: u64) -> bool {
        self.below(cases) == 0
    }

    /// Returns one of the choices, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests and reports name seeds: what a seed gives must not change.
    #[test]
    fn a_seed_gives_the_published_numbers_of_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        let found = [(); 3].map(|()| rng.next_u64());
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(Rng::new(0).next_u64(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn parts_of_a_seed_have_sequences_of_their_own() {
        let first = |seed, part| Rng::of_part(seed, part).next_u64();
        let mut all: Vec<u64> = (0..30).flat_map(|seed| (0..30).map(move |part| first(seed, part))).collect();
        assert_eq!(first(3, 4), first(3, 4));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 900);
    }

    #[test]
    fn numbers_cover_their_range_evenly() {
        let mut rng = Rng::new(1);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[rng.index(10)] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!((rng.below(0), rng.below(1), rng.index(0)), (0, 0, 0));
        let within: Vec<u64> = (0..1_000).map(|_| rng.within(7, 9)).collect();
        assert_eq!((within.iter().min(), within.iter().max()), (Some(&7), Some(&9)));
    }

    #[test]
    fn large_numbers_are_as_likely_as_small_ones_where_they_are_spread() {
        let mut rng = Rng::new(2);
        let mut doublings = [0_u32; 10];
        (0..100_000).for_each(|_| doublings[rng.spread(1, 1_023).ilog2() as usize] += 1);
        assert!(doublings.iter().all(|count| (9_500..10_500).contains(count)), "{doublings:?}");
        assert_eq!(rng.spread(5, 5), 5);
    }

    #[test]
    fn chances_come_as_often_as_they_say() {
        let mut rng = Rng::new(3);
        let percent = (0..100_000).filter(|_| rng.chance(30)).count();
        let one_in = (0..100_000).filter(|_| rng.one_in(5)).count();
        let picked = (0..100_000).filter(|_| rng.pick(&["a", "b"]) == "a").count();
        assert!((29_500..30_500).contains(&percent) && (19_500..20_500).contains(&one_in), "{percent}, {one_in}");
        assert!((49_500..50_500).contains(&picked), "{picked}");
        assert!((0..1_000).all(|_| rng.chance(100) && !rng.chance(0) && rng.one_in(1)));
    }
}
