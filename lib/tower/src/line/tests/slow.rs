//! Answers that take time, and that the test gives explicitly.

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tollgate_kernel::{Clock, Micros, Wait};

use super::super::{LineAnswer, LineOutcome, LineQuestion, WaitLine};
use super::crowd::Crowd;
use super::scene::ModelOutcome;
use crate::testing::TestClock;

#[derive(Clone, Copy, Debug)]
pub(super) struct Answer(pub(super) Option<Wait>);

impl LineAnswer for Answer {
    fn wait(&self) -> Option<Wait> {
        self.0
    }
}

pub(super) const PASS: Answer = Answer(None);

pub(super) fn after(us: u64) -> Answer {
    Answer(Some(Wait::After(Micros::new(us))))
}

/// A question that the store has not answered; an error stands for one of the store.
type OpenQuestion = (usize, LineQuestion, oneshot::Sender<Result<Answer, &'static str>>);

/// The result of a request, and its time; `None` stands for an error.
type End = (usize, Option<ModelOutcome>, u64);

/// A line whose store answers when the test does.
pub(super) struct SlowStore {
    pub(super) clock: TestClock,
    pub(super) line: WaitLine,
    pub(super) crowd: Crowd,
    pub(super) asked: Rc<RefCell<Vec<OpenQuestion>>>,
    pub(super) ends: Rc<RefCell<Vec<End>>>,
}

impl SlowStore {
    pub(super) fn new(line: WaitLine) -> Self {
        let clock = TestClock::new();
        let line = line.timer(clock.clone());
        Self { clock, line, crowd: Crowd::default(), asked: Rc::default(), ends: Rc::default() }
    }

    pub(super) fn come(&mut self, key: &'static str) -> usize {
        let (line, asked, ends, id) = (self.line.clone(), self.asked.clone(), self.ends.clone(), self.crowd.len());
        let (clock, began) = (self.clock.clone(), 1_700_000_000_000_000);
        self.crowd.add(async move {
            let waiting = line.wait(key.as_bytes(), |ask| {
                let (answer, answered) = oneshot::channel();
                asked.borrow_mut().push((id, ask, answer));
                // Resuming an unwind directly prints no panic message in the output of the tests.
                answered.map(|answer| answer.unwrap_or_else(|_| std::panic::resume_unwind(Box::new("no answer"))))
            });
            let fate = match AssertUnwindSafe(waiting).catch_unwind().await {
                Ok(Ok(LineOutcome::Passed(_))) => Some(ModelOutcome::Passed),
                Ok(Ok(LineOutcome::Refused(_))) => Some(ModelOutcome::Refused),
                Ok(Ok(LineOutcome::Full(_))) => Some(ModelOutcome::Full),
                Ok(Ok(LineOutcome::Late(_))) => Some(ModelOutcome::Late),
                Ok(Err(_)) | Err(_) => None,
            };
            ends.borrow_mut().push((id, fate, Clock::now(&clock).get() - began));
        });
        self.crowd.run();
        id
    }

    /// Answers this request's question.
    pub(super) fn answer(&mut self, id: usize, answer: Result<Answer, &'static str>) {
        let index = self.asked.borrow().iter().position(|(who, ..)| *who == id).unwrap();
        let (.., asking) = self.asked.borrow_mut().remove(index);
        asking.send(answer).ok();
        self.crowd.run();
    }

    pub(super) fn advance(&mut self, us: u64) {
        self.clock.advance(Micros::new(us));
        self.crowd.run();
    }

    /// Returns which requests are being asked about.
    fn asked(&self) -> Vec<(usize, LineQuestion)> {
        self.asked.borrow().iter().map(|(id, ask, _)| (*id, *ask)).collect()
    }

    fn ends(&self) -> Vec<End> {
        self.ends.borrow().clone()
    }
}

fn store(longest_ms: u64) -> SlowStore {
    SlowStore::new(WaitLine::new(Duration::from_millis(longest_ms)))
}

#[test]
fn who_stands_behind_a_slow_answer_is_told_at_its_deadline() {
    let mut store = store(1_000);
    store.come("alice");
    store.answer(0, Ok(after(500_000)));
    store.advance(200_000);
    store.come("alice");
    store.come("alice");
    store.advance(300_000);
    assert_eq!((store.asked(), store.clock.sleeping()), (vec![(0, LineQuestion::Charge)], 1));
    store.advance(100_000);
    store.come("alice");
    store.advance(599_999);
    assert_eq!((store.asked().len(), store.line.waiting()), (1, 4));
    store.advance(1);
    assert_eq!(store.asked(), [(0, LineQuestion::Charge), (1, LineQuestion::Look), (2, LineQuestion::Look)]);
    assert_eq!((store.line.waiting(), store.clock.sleeping()), (2, 1));
    store.answer(1, Ok(after(7)));
    store.answer(2, Ok(PASS));
    // The head's own deadline has passed too, but its answer is pending: it gets the answer, and the next has its
    // turn.
    store.advance(399_999);
    store.answer(0, Ok(PASS));
    assert_eq!(store.asked(), [(3, LineQuestion::Charge)]);
    store.answer(3, Ok(after(1)));
    assert_eq!((store.line.waiting(), store.clock.sleeping()), (1, 1));
    store.advance(1);
    store.answer(3, Ok(after(1)));
    let (late, passed, refused) = (Some(ModelOutcome::Late), Some(ModelOutcome::Passed), Some(ModelOutcome::Refused));
    let ends = [(1, late, 1_200_000), (2, late, 1_200_000), (0, passed, 1_599_999), (3, refused, 1_600_000)];
    assert_eq!(store.ends(), ends);
    assert_eq!((store.line.waiting(), store.line.keys(), store.clock.sleeping()), (0, 0, 0));
}

/// While the head waits long for its answer, a thousand requests arrive and end one by one.
#[test]
fn one_timer_watches_all_deadlines() {
    let mut store = store(1_000);
    store.come("alice");
    store.answer(0, Ok(after(1)));
    store.advance(1);
    for _ in 0..1_000 {
        store.advance(10_000);
        store.come("alice");
        assert!(store.clock.sleeping() == 1 && store.line.waiting() <= 101);
    }
    (0..100).for_each(|_| store.advance(10_000));
    assert_eq!((store.asked().len(), store.line.waiting(), store.clock.sleeping()), (1_001, 1, 1));
    (1..=1_000).for_each(|id| store.answer(id, Ok(PASS)));
    assert!(
        store.ends().iter().map(|(id, fate, _)| (*id, *fate)).eq((1..=1_000).map(|id| (id, Some(ModelOutcome::Late))))
    );
    store.answer(0, Ok(PASS));
    assert_eq!(store.line.waiting(), 0);
}

#[test]
fn newcomers_that_race_line_up_as_their_refusals_come() {
    let mut store = store(1_000);
    (0..5).for_each(|_| _ = store.come("alice"));
    assert_eq!((store.asked().len(), store.line.waiting()), (5, 0));
    store.answer(2, Ok(after(100)));
    store.come("alice");
    store.answer(0, Ok(after(50)));
    store.answer(1, Ok(Answer(Some(Wait::Never))));
    store.answer(3, Ok(PASS));
    store.answer(4, Ok(after(1_000_001)));
    assert_eq!((store.line.waiting(), store.clock.sleeping(), store.asked().len()), (3, 1, 0));
    let (passed, refused) = (Some(ModelOutcome::Passed), Some(ModelOutcome::Refused));
    assert_eq!(store.ends(), [(1, refused, 0), (3, passed, 0), (4, refused, 0)]);
    // Only the head sleeps, for the wait that it got; then one after the other is asked about.
    store.advance(99);
    assert_eq!(store.asked().len(), 0);
    store.advance(1);
    for id in [2, 5, 0] {
        assert_eq!(store.asked(), [(id, LineQuestion::Charge)]);
        store.answer(id, Ok(PASS));
    }
    assert_eq!(store.ends()[3..], [(2, passed, 100), (5, passed, 100), (0, passed, 100)]);
}

#[test]
fn an_error_or_a_panic_ends_one_request_and_the_next_is_asked() {
    let mut store = store(1_000);
    store.come("alice");
    store.answer(0, Err("away"));
    assert_eq!((store.ends(), store.line.keys()), (vec![(0, None, 0)], 0));
    (0..4).for_each(|_| _ = store.come("alice"));
    store.answer(1, Ok(after(10)));
    store.answer(2, Ok(after(10)));
    store.answer(3, Ok(after(10)));
    store.answer(4, Ok(after(10)));
    store.advance(10);
    store.answer(1, Err("away"));
    // The store's end of the channel is dropped, so the request that asked panics.
    store.asked.borrow_mut().clear();
    store.crowd.run();
    assert_eq!(store.asked(), [(3, LineQuestion::Charge)]);
    store.answer(3, Ok(PASS));
    store.answer(4, Ok(PASS));
    let passed = Some(ModelOutcome::Passed);
    assert_eq!(store.ends()[1..], [(1, None, 10), (2, None, 10), (3, passed, 10), (4, passed, 10)]);
    assert_eq!((store.line.waiting(), store.clock.sleeping()), (0, 0));
}

#[test]
fn a_refusal_that_says_now_is_not_asked_again_without_end() {
    let mut store = store(1_000);
    store.come("alice");
    for _ in 0..3 {
        store.answer(0, Ok(after(0)));
        assert_eq!((store.asked().len(), store.clock.next_wake()), (0, Some(Micros::new(1))));
        store.advance(1);
    }
    store.answer(0, Ok(PASS));
    assert_eq!(store.ends(), [(0, Some(ModelOutcome::Passed), 3)]);
}
