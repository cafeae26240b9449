//! A gate, a line and a crowd on one clock, and the result of each request.

use std::cell::RefCell;
use std::rc::Rc;

use tollgate::Gate;
use tollgate_kernel::{Clock, Decision, Micros, StoreError, Timestamp};

use super::super::{LineOutcome, LineQuestion, WaitLine};
use super::crowd::Crowd;
use crate::testing::TestClock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ModelOutcome {
    Passed,
    Refused,
    Full,
    Late,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) id: usize,
    pub(super) fate: ModelOutcome,
    /// Microseconds since the scene began.
    pub(super) at: u64,
    pub(super) decision: Decision,
}

pub(super) struct Scene {
    pub(super) clock: TestClock,
    pub(super) gate: Rc<Gate>,
    pub(super) line: WaitLine,
    pub(super) crowd: Crowd,
    pub(super) ends: Rc<RefCell<Vec<End>>>,
    /// Which requests were asked about, and how.
    pub(super) asks: Rc<RefCell<Vec<(usize, LineQuestion)>>>,
    began: Timestamp,
}

impl Scene {
    /// Creates a scene; the line uses the scene's clock.
    pub(super) fn new(policy: &str, line: WaitLine) -> Self {
        let clock = TestClock::new();
        Self {
            gate: Rc::new(clock.gate(policy).unwrap()),
            line: line.timer(clock.clone()),
            crowd: Crowd::default(),
            ends: Rc::default(),
            asks: Rc::default(),
            began: Clock::now(&clock),
            clock,
        }
    }

    /// Adds a request without running it.
    pub(super) fn come(&mut self, key: &str, cost: u64) -> usize {
        let (line, gate, key) = (self.line.clone(), self.gate.clone(), key.to_owned());
        let (ends, asks, clock, began) = (self.ends.clone(), self.asks.clone(), self.clock.clone(), self.began);
        let id = self.crowd.len();
        self.crowd.add(async move {
            let waited = line.wait(key.as_bytes(), |ask| {
                asks.borrow_mut().push((id, ask));
                let question = gate.ask(&key).cost(cost);
                std::future::ready(match ask {
                    LineQuestion::Charge => question.check(),
                    LineQuestion::Look => question.peek(),
                })
            });
            let (fate, decision) = fate(waited.await);
            let at = Clock::now(&clock).since(began).get();
            ends.borrow_mut().push(End { id, fate, at, decision });
        })
    }

    /// Adds a number of requests of cost 1 and runs them until they wait.
    pub(super) fn crowd_in(&mut self, key: &str, count: usize) {
        (0..count).for_each(|_| _ = self.come(key, 1));
        self.crowd.run();
    }

    pub(super) fn advance(&mut self, span: Micros) {
        self.clock.advance(span);
        self.crowd.run();
    }

    /// Moves to the time at which the next sleeper wakes. Returns whether there was one.
    pub(super) fn step(&mut self) -> bool {
        let Some(span) = self.clock.next_wake() else { return false };
        self.advance(span);
        true
    }

    /// Moves the clock until no request sleeps, in at most this many steps.
    pub(super) fn finish(&mut self, most: usize) {
        let steps = (0..=most).take_while(|_| self.step()).count();
        assert!(steps <= most, "{} still wait after {most} steps", self.line.waiting());
        assert_eq!((self.line.waiting(), self.line.keys(), self.crowd.there().len()), (0, 0, 0));
    }

    /// Returns the results of all requests, in the order of their ends.
    pub(super) fn fates(&self) -> Vec<(usize, ModelOutcome, u64)> {
        self.ends.borrow().iter().map(|end| (end.id, end.fate, end.at)).collect()
    }

    /// Returns the end of this request.
    pub(super) fn end(&self, id: usize) -> Option<End> {
        self.ends.borrow().iter().find(|end| end.id == id).copied()
    }
}

pub(super) fn fate(waited: Result<LineOutcome<Decision>, StoreError>) -> (ModelOutcome, Decision) {
    match waited.unwrap() {
        LineOutcome::Passed(decision) => (ModelOutcome::Passed, decision),
        LineOutcome::Refused(decision) => (ModelOutcome::Refused, decision),
        LineOutcome::Full(decision) => (ModelOutcome::Full, decision),
        LineOutcome::Late(decision) => (ModelOutcome::Late, decision),
    }
}
