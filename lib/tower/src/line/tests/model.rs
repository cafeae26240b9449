//! The line in its simplest form: a list for each key, searched from the front. It decides by its own gate.

use std::collections::{BTreeMap, VecDeque};

use tollgate::Gate;
use tollgate_kernel::Wait;

use super::scene::ModelOutcome;

pub(super) struct Model {
    pub(super) gate: Gate,
    pub(super) longest: u64,
    pub(super) most: usize,
    pub(super) most_a_key: usize,
    pub(super) rows: BTreeMap<String, VecDeque<ModelWaiter>>,
    /// The result of each request, and its time.
    pub(super) ends: BTreeMap<usize, (ModelOutcome, u64)>,
}

pub(super) struct ModelWaiter {
    pub(super) id: usize,
    pub(super) cost: u64,
    until: u64,
    /// When it asks; `None` for a request that has not asked yet.
    wakes: Option<u64>,
}

impl Model {
    /// Adds a request. If it displaces another, returns those that may have been displaced.
    pub(super) fn come(&mut self, id: usize, key: &str, cost: u64, now: u64) -> Vec<usize> {
        let mut wakes = None;
        if !self.rows.contains_key(key) {
            match self.ask(key, cost) {
                None => return self.end(id, ModelOutcome::Passed, now),
                Some(Wait::After(span)) if span.get() <= self.longest => wakes = Some(now + span.get().max(1)),
                Some(_) => return self.end(id, ModelOutcome::Refused, now),
            }
        }
        let length = self.rows.get(key).map_or(0, VecDeque::len);
        let longest = self.rows.values().map(VecDeque::len).max().unwrap_or(0);
        let full = self.waiting() >= self.most;
        if length >= self.most_a_key || full && length + 1 >= longest {
            return self.end(id, ModelOutcome::Full, now);
        }
        let last =
            |row: &VecDeque<ModelWaiter>| row.back().filter(|_| full && row.len() == longest).map(|last| last.id);
        let losers = self.rows.values().filter_map(last).collect();
        let row = self.rows.entry(key.to_owned()).or_default();
        row.push_back(ModelWaiter { id, cost, until: now + self.longest, wakes });
        losers
    }

    /// Records that this request was displaced.
    pub(super) fn lose(&mut self, id: usize, now: u64) {
        self.leave(id, now);
        self.end(id, ModelOutcome::Full, now);
    }

    /// Records that this request was cancelled.
    pub(super) fn leave(&mut self, id: usize, now: u64) {
        self.rows.values_mut().for_each(|row| row.retain(|waiting| waiting.id != id));
        self.tick(now);
    }

    /// Runs everything that happens now.
    pub(super) fn tick(&mut self, now: u64) {
        for key in self.rows.keys().cloned().collect::<Vec<_>>() {
            while let Some(head) = self.rows[&key].front() {
                let (id, cost, until) = (head.id, head.cost, head.until);
                if head.wakes.is_some_and(|wakes| wakes > now) {
                    break;
                }
                let fate = match self.ask(&key, cost) {
                    None => ModelOutcome::Passed,
                    Some(Wait::After(span)) if now + span.get() <= until => {
                        self.rows.get_mut(&key).unwrap()[0].wakes = Some(now + span.get().max(1));
                        break;
                    }
                    Some(_) => ModelOutcome::Refused,
                };
                self.rows.get_mut(&key).unwrap().pop_front();
                self.end(id, fate, now);
            }
        }
        self.rows.retain(|_, row| !row.is_empty());
    }

    pub(super) fn waiting(&self) -> usize {
        self.rows.values().map(VecDeque::len).sum()
    }

    fn ask(&self, key: &str, cost: u64) -> Option<Wait> {
        let decision = self.gate.ask(key).cost(cost).check().unwrap();
        (!decision.allowed).then_some(decision.retry_after)
    }

    fn end(&mut self, id: usize, fate: ModelOutcome, now: u64) -> Vec<usize> {
        assert!(self.ends.insert(id, (fate, now)).is_none(), "{id} ended twice");
        Vec::new()
    }
}
