//! One thread of a run: it asks, and writes down what it hears.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tollgate::{Decision, Gate, ManualClock, Micros, Mode};

use super::BATCH;
use super::keys::{HOT, Keys};
use super::scene::{Pace, Scene};
use crate::intervals::Event;
use tollgate_random::Rng;

/// More than any key takes at one time.
const MAX_TO_FILL: u64 = 100_000;

/// What the threads of a run share.
pub(super) struct RunState<'a> {
    pub(super) scene: &'a Scene,
    pub(super) keys: &'a Keys,
    pub(super) gate: Gate,
    /// Operations nobody has taken yet.
    pub(super) left: AtomicU64,
    /// Units offered to the hot key less twice those granted, where a thread advances the clock.
    pub(super) balance: AtomicI64,
}

/// A clock in the hands of the one thread that advances it.
pub(super) struct ClockDriver {
    pub(super) clock: ManualClock,
    pub(super) pace: Pace,
    /// The times it has stood at; the last is now.
    pub(super) stood: Vec<u64>,
    /// Whether the hot key refused one unit since the last step.
    full: bool,
}

impl ClockDriver {
    pub(super) fn new(clock: ManualClock, pace: Pace) -> Self {
        Self { clock, pace, stood: vec![pace.start], full: false }
    }

    /// Advances the clock once the hot key is full, and was offered twice what it took.
    fn step(&mut self, rng: &mut Rng, balance: &AtomicI64) {
        if !self.full || balance.load(Ordering::Relaxed) < 0 {
            return;
        }
        let most = if rng.below(200) == 0 { self.pace.longest_leap } else { self.pace.longest_step };
        let step = rng.within(1, most);
        self.stood.push(self.stood.last().copied().unwrap_or(self.pace.start) + step);
        self.full = false;
        self.clock.advance(Micros::new(step));
    }
}

/// Units of a key, admitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admission {
    pub(super) key: usize,
    pub(super) event: Event,
}

/// What was asked of the hot key, whatever was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) at: tollgate::Timestamp,
    pub(super) cost: u64,
    pub(super) mode: Mode,
}

/// What a thread has written down.
#[derive(Default)]
pub(super) struct ThreadRecord {
    pub(super) operations: u64,
    pub(super) admitted: Vec<Admission>,
    pub(super) offers: Vec<Offer>,
    /// Answers that cannot be right.
    pub(super) wrong: Vec<String>,
}

pub(super) struct Caller<'a> {
    state: &'a RunState<'a>,
    rng: Rng,
    driver: Option<ClockDriver>,
    record: ThreadRecord,
    decisions: Vec<Decision>,
    thread: u64,
    /// Keys that came once.
    visitors: u64,
}

impl<'a> Caller<'a> {
    pub(super) fn new(state: &'a RunState<'a>, thread: u64, driver: Option<ClockDriver>) -> Self {
        let rng = Rng::of_part(state.scene.seed, thread);
        Self { state, rng, driver, record: ThreadRecord::default(), decisions: Vec::new(), thread, visitors: 0 }
    }

    /// Asks until nothing is left to do.
    pub(super) fn work(mut self) -> (ThreadRecord, Option<ClockDriver>) {
        while take(&self.state.left) {
            let until = self.record.operations + BATCH;
            while self.record.operations < until {
                self.act();
            }
            // There are more threads than cores: let others in before the time slice ends.
            std::thread::yield_now();
        }
        // The last step is to be full, too. A key that never is shows in its intervals.
        for _ in 0..MAX_TO_FILL {
            if self.driver.as_ref().is_none_or(|driver| driver.full) {
                break;
            }
            self.ask(HOT, 1, Mode::Binary);
        }
        (self.record, self.driver)
    }

    fn act(&mut self) {
        if let Some(driver) = &mut self.driver {
            driver.step(&mut self.rng, &self.state.balance);
            if self.rng.chance(50) {
                self.ask(HOT, 1, Mode::Binary);
                return;
            }
        }
        match self.rng.below(100) {
            0..3 => self.ask_many(),
            3..8 => self.ask_together(),
            8..12 if self.state.scene.crowded => self.visit(),
            _ => {
                let key = self.state.keys.any(&mut self.rng);
                let (cost, mode) = (self.cost(), self.mode(key));
                self.ask(key, cost, mode);
            }
        }
    }

    fn cost(&mut self) -> u64 {
        if self.rng.chance(90) { 1 } else { self.rng.within(2, 5) }
    }

    fn mode(&mut self, key: usize) -> Mode {
        match self.rng.below(100) {
            0..8 => Mode::Nary,
            8..10 if self.state.scene.uniform && key != HOT => Mode::Uniform,
            _ => Mode::Binary,
        }
    }

    fn ask(&mut self, key: usize, cost: u64, mode: Mode) {
        let (gate, name) = (&self.state.gate, self.state.keys.name(key));
        let answer = if cost == 1 && mode == Mode::Binary {
            gate.check(name)
        } else {
            gate.ask(name).cost(cost).mode(mode).check()
        };
        match answer {
            Ok(decision) => self.hear(key, cost, mode, &decision),
            Err(error) => self.fail(1, &error),
        }
    }

    /// A key never seen, which takes a place in the table, and what it asks for fits.
    fn visit(&mut self) {
        self.visitors += 1;
        let name = format!("visitor:{}:{}", self.thread, self.visitors);
        self.record.operations += 1;
        match self.state.gate.check(&name) {
            Ok(decision) if decision.allowed => {}
            Ok(decision) => self.record.wrong.push(format!("{name} is new, and refused: {decision:?}")),
            Err(error) => self.record.wrong.push(error.to_string()),
        }
    }

    fn ask_many(&mut self) {
        let (state, count) = (self.state, self.rng.within(2, 20));
        let keys: Vec<usize> = (0..count).map(|_| state.keys.any(&mut self.rng)).collect();
        let names: Vec<&str> = keys.iter().map(|key| state.keys.name(*key)).collect();
        let mut decisions = std::mem::take(&mut self.decisions);
        match state.gate.check_many_into(&names, &mut decisions) {
            Ok(()) => {
                let told = keys.iter().zip(&decisions);
                told.for_each(|(key, decision)| self.hear(*key, 1, Mode::Binary, decision));
            }
            Err(error) => self.fail(count, &error),
        }
        self.decisions = decisions;
    }

    /// Two keys under the one policy, together: the hot one and another, either first.
    fn ask_together(&mut self) {
        let state = self.state;
        let mut keys = [(HOT, self.cost()), (state.keys.other(&mut self.rng), self.cost())];
        if self.rng.chance(50) {
            keys.reverse();
        }
        let asks = keys.map(|(key, cost)| state.gate.ask(state.keys.name(key)).cost(cost));
        match state.gate.check_all(&asks) {
            // Refused, it may be for the other key's sake, and then it was no offer to this one.
            Ok(together) if !together.allowed => {
                self.record.operations += 2;
                if together.decisions.iter().any(|decision| decision.granted > 0 || decision.charged > 0) {
                    self.record.wrong.push(format!("refused together, but granted: {together:?}"));
                }
            }
            Ok(together) => {
                let told = keys.into_iter().zip(&together.decisions);
                told.for_each(|((key, cost), decision)| self.hear(key, cost, Mode::Binary, decision));
            }
            Err(error) => self.fail(2, &error),
        }
    }

    fn hear(&mut self, key: usize, cost: u64, mode: Mode, decision: &Decision) {
        let Decision { allowed, granted, charged, at, .. } = *decision;
        self.record.operations += 1;
        let whole = granted == 0 || granted == cost;
        let charge = if mode == Mode::Uniform { charged } else { granted };
        if allowed != (granted > 0) || granted > cost || (mode != Mode::Nary && !whole) || charged != charge {
            self.record.wrong.push(format!("{cost} units asked for ({}): {decision:?}", mode.name()));
        }
        if granted > 0 {
            self.record.admitted.push(Admission { key, event: Event { at, units: granted } });
        }
        if key == HOT {
            self.hear_hot(cost, mode, decision);
        }
    }

    fn hear_hot(&mut self, cost: u64, mode: Mode, decision: &Decision) {
        if self.state.scene.pace.is_none() {
            self.record.offers.push(Offer { at: decision.at, cost, mode });
            return;
        }
        let offered = i64::try_from(cost).unwrap_or(i64::MAX);
        let granted = i64::try_from(decision.granted).unwrap_or(i64::MAX);
        self.state.balance.fetch_add(offered - 2 * granted, Ordering::Relaxed);
        if let Some(driver) = &mut self.driver {
            driver.full |= cost == 1 && !decision.allowed;
        }
    }

    fn fail(&mut self, operations: u64, error: &tollgate::StoreError) {
        self.record.operations += operations;
        self.record.wrong.push(error.to_string());
    }
}

/// Takes a batch of what is left; whether there was one.
pub(super) fn take(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(BATCH.min(left).max(1))).is_ok()
}
