//! The keys: a hot one, asked for as often as all others together, and a thousand by Zipf's law.

use tollgate_random::Rng;

/// The number of the hot key.
pub(super) const HOT: usize = 0;
/// Keys besides the hot one.
const OTHERS: u64 = 1_000;

/// The names of the keys, and their shares.
pub(super) struct Keys {
    names: Vec<String>,
    /// The shares of the others up to and with each.
    shares: Vec<u64>,
}

impl Keys {
    pub(super) fn new() -> Self {
        let names = (0..=OTHERS).map(|key| if key == 0 { "hot".to_owned() } else { format!("key:{key}") });
        let mut sum = 0;
        let share = |rank: u64| {
            sum += 1_000_000 / rank;
            sum
        };
        Self { names: names.collect(), shares: (1..=OTHERS).map(share).collect() }
    }

    pub(super) fn name(&self, key: usize) -> &str {
        &self.names[key]
    }

    /// One of the keys.
    pub(super) fn any(&self, rng: &mut Rng) -> usize {
        if rng.chance(50) { HOT } else { self.other(rng) }
    }

    /// One of the keys that are not hot.
    pub(super) fn other(&self, rng: &mut Rng) -> usize {
        let share = rng.below(self.shares.last().copied().unwrap_or(1));
        1 + self.shares.partition_point(|up_to| *up_to <= share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_hot_and_the_first_of_the_others_leads() {
        let (keys, mut rng) = (Keys::new(), Rng::new(1));
        let mut asked = vec![0u64; keys.names.len()];
        (0..100_000).for_each(|_| asked[keys.any(&mut rng)] += 1);
        assert!((49_000..51_000).contains(&asked[HOT]), "{}", asked[HOT]);
        // A share of one in 7.5, the harmonic number of 1,000; the second has half of that.
        assert!((6_200..7_200).contains(&asked[1]), "{}", asked[1]);
        assert!((3_000..3_700).contains(&asked[2]), "{}", asked[2]);
        assert!(asked.iter().filter(|asked| **asked > 0).count() > 990);
    }
}
