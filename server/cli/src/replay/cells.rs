//! The state of the limits for each key: a run of cells a key, all policies one after another.
//!
//! The runs are stored in chunks, so that growing copies nothing. A sweep visits them a few at a time and frees those
//! that have expired, so that memory follows the keys with live state, and not all keys ever seen.

use std::ops::Range;

use tollgate_kernel::algorithms::AlgorithmMemory;
use tollgate_kernel::{Cell, Entry, Policy, Timestamp, expires_after};

/// The number of keys per chunk.
const CHUNK: usize = 1_024;

/// The cells of all keys.
pub(crate) struct KeyCells {
    chunks: Vec<Vec<Cell>>,
    /// The range of each policy in the cells of a key.
    runs: Vec<Range<usize>>,
    width: usize,
    keys: usize,
}

impl KeyCells {
    /// Returns the cells of no key, under these policies.
    pub(crate) fn new(policies: &[Policy]) -> Self {
        let mut width = 0;
        let mut runs = Vec::new();
        for policy in policies {
            runs.push(width..width + policy.limits().len());
            width += policy.limits().len();
        }
        Self { chunks: Vec::new(), runs, width, keys: 0 }
    }

    /// Returns the number of keys that have cells.
    pub(crate) fn keys(&self) -> usize {
        self.keys
    }

    /// Adds the cells of a new key, which has the next number.
    pub(crate) fn add(&mut self, policies: &[Policy]) {
        if self.keys.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK * self.width));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.extend(policies.iter().flat_map(Policy::limits).map(|limit| limit.fresh()));
        }
        self.keys += 1;
    }

    /// Returns the cells of one key under one policy.
    #[inline]
    pub(crate) fn of(&mut self, key: u32, policy: usize) -> &mut [Cell] {
        let run = &self.runs[policy];
        let start = key as usize % CHUNK * self.width;
        &mut self.chunks[key as usize / CHUNK][start + run.start..start + run.end]
    }

    /// Prefetches some of the memory that a decision on `key` will read; ignore the return value. Done for many keys in
    /// a row, the processor waits for their memory once instead of many times.
    #[inline]
    pub(crate) fn touch(&self, key: u32) -> u64 {
        let start = key as usize % CHUNK * self.width;
        let cells = &self.chunks[key as usize / CHUNK][start..start + self.width];
        cells.iter().map(touch).fold(0, u64::wrapping_add)
    }

    /// Frees the state of `key` under each policy where it has expired.
    fn free(&mut self, key: u32, policies: &[Policy], now: Timestamp) {
        for (place, policy) in policies.iter().enumerate() {
            let cells = self.of(key, place);
            let heavy = cells.iter().any(|cell| cell.heap_bytes() > 0);
            if heavy && expires_after(policy, cells, now).get() == 0 {
                for (cell, limit) in cells.iter_mut().zip(policy.limits()) {
                    *cell = limit.fresh();
                }
            }
        }
    }
}

#[inline]
fn touch(cell: &Cell) -> u64 {
    match cell.memory() {
        // No branch may depend on what is read, or the cache misses would not overlap.
        AlgorithmMemory::Sliding(_, log) => {
            log.get(0).before().wrapping_add(log.get(log.len().wrapping_sub(1)).before())
        }
        other => other.heap_bytes() as u64,
    }
}

/// A sweep over the keys, a few with every batch.
pub(crate) struct Sweep {
    next: usize,
    /// The time at which the current pass began.
    began: u64,
    /// The shortest time after which anything can have expired.
    every: u64,
}

/// The number of requests for each of which one key is visited.
const REQUESTS_PER_KEY: usize = 8;

impl Sweep {
    /// Returns a sweep for these policies.
    pub(crate) fn new(policies: &[Policy]) -> Self {
        let periods = policies.iter().flat_map(Policy::limits).map(|limit| limit.period().get());
        // Beyond all keys, so that the first pass begins like every other.
        Self { next: usize::MAX, began: 0, every: periods.min().unwrap_or(0) }
    }

    /// Continues the pass, after `requests` more. When it has visited all keys it rests until the clock has advanced
    /// far enough for another pass to find something.
    pub(crate) fn walk(&mut self, cells: &mut KeyCells, policies: &[Policy], now: Timestamp, requests: usize) {
        if self.next >= cells.keys() {
            if now.get() < self.began.saturating_add(self.every) {
                return;
            }
            (self.next, self.began) = (0, now.get());
        }
        let end = (self.next + requests.div_ceil(REQUESTS_PER_KEY)).min(cells.keys());
        for key in self.next..end {
            cells.free(key as u32, policies, now);
        }
        self.next = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_kernel::{Request, decide};

    fn held(cells: &mut KeyCells, keys: u32) -> usize {
        (0..keys).map(|key| cells.of(key, 0).iter().map(Cell::heap_bytes).sum::<usize>()).sum()
    }

    fn at(us: u64) -> Timestamp {
        Timestamp::new(1_700_000_000_000_000 + us).unwrap()
    }

    /// Returns 3,000 keys, each with a request a microsecond after the one before.
    fn filled(policies: &[Policy]) -> KeyCells {
        let mut cells = KeyCells::new(policies);
        for key in 0..3_000 {
            cells.add(policies);
            let _ = decide(&policies[0], cells.of(key, 0), at(u64::from(key)), &Request::ONE);
        }
        cells
    }

    #[test]
    fn what_has_expired_is_freed_and_nothing_else() {
        let policies = ["3/s, 9/min".parse::<Policy>().unwrap()];
        let mut cells = filled(&policies);
        let all = held(&mut cells, 3_000);
        assert!(all > 0);
        for key in 0..3_000 {
            cells.free(key, &policies, at(60_000_999));
        }
        assert_eq!(held(&mut cells, 1_000), 0);
        assert_eq!(held(&mut cells, 3_000), all / 3 * 2);
    }

    #[test]
    fn a_sweep_sees_every_key_and_rests_until_the_clock_moves() {
        let policies = ["3/s, 9/min".parse::<Policy>().unwrap()];
        let mut cells = filled(&policies);
        let all = held(&mut cells, 3_000);
        let mut sweep = Sweep::new(&policies);
        sweep.walk(&mut cells, &policies, at(59_999_999), 24_000);
        assert_eq!(held(&mut cells, 3_000), all);
        sweep.walk(&mut cells, &policies, at(60_999_998), 24_000);
        assert_eq!(held(&mut cells, 3_000), all);
        for walked in 1..=3 {
            sweep.walk(&mut cells, &policies, at(60_999_999), 8_000);
            assert_eq!(held(&mut cells, 3_000), all / 3 * (3 - walked));
        }
    }
}
