//! Seeded draws of key indices: a run can be repeated, and needs no crate for it.

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A fraction from 0 to less than 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Zipf's law by a table of its sums.
pub(crate) struct Zipf(Vec<f64>);

/// A prime that scatters ranks over the indices: neighbours in popularity must not be neighbours
/// in memory because their keys were inserted one after another.
const SCATTER: u64 = 1_000_003;

impl Zipf {
    pub(crate) fn new(keys: u64, exponent: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=keys).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Self(sums.collect())
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let total = self.0.last().copied().unwrap_or_default();
        let drawn = random.fraction() * total;
        let rank = self.0.partition_point(|sum| *sum <= drawn) as u64;
        rank * SCATTER % self.0.len() as u64
    }
}
