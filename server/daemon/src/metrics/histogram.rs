//! The duration of answers, counted in buckets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in nanoseconds: 1, 2 and 5 of each power of ten from a microsecond to a second. One
/// more bucket counts what is above.
const BOUNDS: [u64; 19] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// Durations in buckets.
#[derive(Debug, Default)]
pub(super) struct AnswerHistogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

/// What was counted: the sum in seconds, the count, and the count of each bucket with its bound.
#[derive(Debug)]
pub(super) struct HistogramReading {
    pub(super) sum: f64,
    pub(super) count: u64,
    pub(super) buckets: Vec<(f64, u64)>,
}

impl AnswerHistogram {
    #[inline]
    pub(super) fn count(&self, took: Duration) {
        let nanos = took.as_nanos() as u64;
        let place = BOUNDS.partition_point(|bound| *bound < nanos);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns what was counted.
    pub(super) fn read(&self) -> HistogramReading {
        let bounds = BOUNDS.iter().map(|nanos| *nanos as f64 / 1e9).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        HistogramReading { sum: self.nanos.load(Ordering::Relaxed) as f64 / 1e9, count, buckets }
    }
}
