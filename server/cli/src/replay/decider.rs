//! The deciding side of a replay: batches in, counts and decisions out.
//!
//! A request costs several cache misses: its key, its cells, their logs. So a block of requests is first resolved and
//! prefetched as a whole, where the misses overlap, and then decided in order.

use std::hint::black_box;
use std::io;

use tollgate_kernel::{Cost, Policy, Request, Timestamp, decide};

use super::cells::{KeyCells, Sweep};
use super::decisions::DecisionWriter;
use super::feed::{ReplayItem, RequestBatch};
use super::keys::ReplayKeys;
use super::tally::{PolicyResult, ReplayTally};

/// The number of requests resolved and prefetched at a time: their memory stays in the second-level cache.
const BLOCK: usize = 64;

/// Policies, and their state for some of the keys.
pub(crate) struct Decider<'a> {
    policies: &'a [Policy],
    keys: ReplayKeys,
    cells: KeyCells,
    sweep: Sweep,
    tallies: Vec<ReplayTally>,
    totals: Totals,
    numbers: Vec<u32>,
}

/// The totals of the requests, independent of the policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// The number of requests decided.
    pub(crate) requests: u64,
    /// Of these, the ones that only peek.
    pub(crate) peeks: u64,
    /// The units asked for.
    pub(crate) units: u128,
    /// The number of keys that made requests.
    pub(crate) keys: u64,
}

/// The result of a replay, or of one decider.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReplayOutcome {
    /// The totals of the requests.
    pub(crate) totals: Totals,
    /// The result of each policy.
    pub(crate) policies: Vec<PolicyResult>,
}

impl<'a> Decider<'a> {
    /// Returns a decider that has seen no request.
    pub(crate) fn new(policies: &'a [Policy]) -> Self {
        Self {
            policies,
            keys: ReplayKeys::default(),
            cells: KeyCells::new(policies),
            sweep: Sweep::new(policies),
            tallies: policies.iter().map(ReplayTally::new).collect(),
            totals: Totals::default(),
            numbers: Vec::with_capacity(BLOCK),
        }
    }

    /// Decides a batch in order.
    pub(crate) fn batch(&mut self, batch: &RequestBatch, out: &mut DecisionWriter) -> io::Result<()> {
        for block in batch.items.chunks(BLOCK) {
            self.resolve(batch, block);
            for (place, item) in block.iter().enumerate() {
                self.decide(self.numbers[place], batch.key(item), item, out)?;
            }
        }
        if let Some(last) = batch.items.last() {
            let now = Timestamp::saturating(last.at);
            self.sweep.walk(&mut self.cells, self.policies, now, batch.items.len());
        }
        Ok(())
    }

    fn resolve(&mut self, batch: &RequestBatch, block: &[ReplayItem]) {
        self.numbers.clear();
        for item in block {
            self.numbers.push(self.keys.count(item.hash, batch.key(item)));
            self.totals.peeks += u64::from(item.cost == 0);
            self.totals.units += u128::from(item.cost);
        }
        self.totals.requests += block.len() as u64;
        while self.cells.keys() < self.keys.len() {
            self.cells.add(self.policies);
        }
        for &number in &self.numbers {
            black_box(self.cells.touch(number));
        }
    }

    #[inline]
    fn decide(&mut self, number: u32, key: &[u8], item: &ReplayItem, out: &mut DecisionWriter) -> io::Result<()> {
        let now = Timestamp::saturating(item.at);
        // The formats refuse costs from 2^53 on.
        let request = Request::cost(Cost::new(item.cost).unwrap_or(Cost::ONE));
        for (place, policy) in self.policies.iter().enumerate() {
            let decision = decide(policy, self.cells.of(number, place), now, &request);
            self.tallies[place].add(number, item.cost, &decision);
            out.write(place, key, item, &decision)?;
        }
        Ok(())
    }

    /// Returns its result, with the `top` keys hit hardest by each policy.
    pub(crate) fn finish(self, top: usize) -> ReplayOutcome {
        let keys = &self.keys;
        ReplayOutcome {
            totals: Totals { keys: keys.len() as u64, ..self.totals },
            policies: self.tallies.into_iter().map(|tally| tally.finish(keys, top)).collect(),
        }
    }
}

impl ReplayOutcome {
    /// Combines the results of deciders of different keys.
    pub(crate) fn join(mut self, other: Self, top: usize) -> Self {
        self.totals.requests += other.totals.requests;
        self.totals.peeks += other.totals.peeks;
        self.totals.units += other.totals.units;
        self.totals.keys += other.totals.keys;
        for (own, more) in self.policies.iter_mut().zip(other.policies) {
            own.join(more, top);
        }
        self
    }
}
