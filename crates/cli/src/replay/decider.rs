//! The deciding side of a replay: batches in, counts and decisions out.
//!
//! A request costs several cache misses: its key, its cells, their logs. So a block of requests is
//! first resolved and touched as a whole, where the misses overlap, and then decided in order.

use std::hint::black_box;
use std::io;

use tollgate_core::{Cost, Policy, Request, Timestamp, decide};

use super::cells::{Cells, Sweep};
use super::decisions::Decisions;
use super::feed::{Batch, Item};
use super::keys::Keys;
use super::tally::{PolicyResult, Tally};

/// Requests resolved and touched at a time: what they touch stays in the second-level cache.
const BLOCK: usize = 64;

/// Policies, and all they remember of some of the keys.
pub(crate) struct Decider<'a> {
    policies: &'a [Policy],
    keys: Keys,
    cells: Cells,
    sweep: Sweep,
    tallies: Vec<Tally>,
    totals: Totals,
    numbers: Vec<u32>,
}

/// What was asked, whatever the policies say to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Requests decided.
    pub(crate) requests: u64,
    /// Of these, the ones that only look.
    pub(crate) peeks: u64,
    /// Units asked for.
    pub(crate) units: u128,
    /// Keys that asked.
    pub(crate) keys: u64,
}

/// All that a replay found, or a decider its part of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// What was asked.
    pub(crate) totals: Totals,
    /// What each policy did.
    pub(crate) policies: Vec<PolicyResult>,
}

impl<'a> Decider<'a> {
    /// Nothing seen yet.
    pub(crate) fn new(policies: &'a [Policy]) -> Self {
        Self {
            policies,
            keys: Keys::default(),
            cells: Cells::new(policies),
            sweep: Sweep::new(policies),
            tallies: policies.iter().map(Tally::new).collect(),
            totals: Totals::default(),
            numbers: Vec::with_capacity(BLOCK),
        }
    }

    /// Decides a batch in order.
    pub(crate) fn batch(&mut self, batch: &Batch, out: &mut Decisions) -> io::Result<()> {
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

    fn resolve(&mut self, batch: &Batch, block: &[Item]) {
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
    fn decide(&mut self, number: u32, key: &[u8], item: &Item, out: &mut Decisions) -> io::Result<()> {
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

    /// What it found, with the `top` keys hit hardest by each policy.
    pub(crate) fn finish(self, top: usize) -> Outcome {
        let keys = &self.keys;
        Outcome {
            totals: Totals { keys: keys.len() as u64, ..self.totals },
            policies: self.tallies.into_iter().map(|tally| tally.finish(keys, top)).collect(),
        }
    }
}

impl Outcome {
    /// Puts together what deciders of different keys found.
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
