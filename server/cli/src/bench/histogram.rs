//! The durations of calls, to one part in 128, in constant memory.

const PARTS: u64 = 128;
const BUCKETS: usize = 58 * PARTS as usize;

/// Counts of durations in nanoseconds.
pub(crate) struct DurationHistogram {
    counts: Vec<u64>,
    total: u64,
}

impl DurationHistogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }

    /// Adds `times` calls that took `nanos`.
    pub(crate) fn add(&mut self, nanos: u64, times: u64) {
        if let Some(count) = self.counts.get_mut(bucket(nanos)) {
            *count += times;
            self.total += times;
        }
    }

    /// Adds all counts of another histogram.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.total += other.total;
    }

    /// Returns the duration in nanoseconds that `share` of the calls did not exceed.
    pub(crate) fn at(&self, share: f64) -> u64 {
        let rank = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(place as u64);
            }
        }
        0
    }
}

/// Returns the bucket of a duration: exact below 2 * PARTS, then PARTS buckets for each power of two.
fn bucket(nanos: u64) -> usize {
    let shift = (63 - (nanos | 1).leading_zeros()).saturating_sub(7);
    (u64::from(shift) * PARTS + (nanos >> shift)) as usize
}

/// Returns the greatest duration of a bucket.
fn upper(bucket: u64) -> u64 {
    let shift = (bucket / PARTS).saturating_sub(1);
    let part = bucket - shift * PARTS;
    (part << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_right_to_one_part_in_128() {
        let mut histogram = DurationHistogram::new();
        (1..=100_000).for_each(|nanos| histogram.add(nanos * 10, 1));
        for (share, exact) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000), (0.0001, 100)] {
            let told = histogram.at(share);
            assert!(told >= exact && told <= exact + exact / 100 + 10, "{share}: {told}");
        }
        for nanos in [0, 1, 127, 128, 255, 256, 257, 1 << 40, (1 << 57) - 1, 1 << 60, u64::MAX] {
            let place = bucket(nanos);
            assert!(upper(place as u64) >= nanos && (place == 0 || upper(place as u64 - 1) < nanos), "{nanos}");
            assert!(place < BUCKETS, "{nanos}: {place}");
        }
        assert_eq!(DurationHistogram::new().at(0.5), 0);
    }
}
