//! The cost of waiting: bytes, allocations, timers and wakes.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::measure;
use tollgate_kernel::{Micros, Wait};

use super::super::{LineAnswer, LineOutcome, LineQuestion, WaitLine};
use super::scene::Scene;
use crate::testing::TestClock;

const WAITERS: usize = 10_000;
const HOUR: Duration = Duration::from_secs(3600);

struct Answer(Option<Wait>);

impl LineAnswer for Answer {
    fn wait(&self) -> Option<Wait> {
        self.0
    }
}

#[test]
fn a_request_that_fits_at_once_allocates_nothing_and_starts_no_timer() {
    let clock = TestClock::new();
    let line = WaitLine::new(HOUR).timer(clock.clone());
    let pass = || {
        let waiting = pin!(line.wait(b"alice", |_| std::future::ready(Ok::<_, ()>(Answer(None)))));
        let done = waiting.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(done, Poll::Ready(Ok(LineOutcome::Passed(_)))));
    };
    assert_eq!(measure(pass).count_total, 0);
    // Requests that wait under other keys change nothing.
    let busy = |_: LineQuestion| std::future::ready(Ok::<_, ()>(Answer(Some(Wait::After(Micros::from_secs(1))))));
    let mut other = pin!(line.wait(b"bob", busy));
    assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!((line.waiting(), clock.sleeping()), (1, 1));
    assert_eq!(measure(pass).count_total, 0);
    assert_eq!((line.waiting(), clock.sleeping()), (1, 1));
}

/// Returns the bytes that the line itself holds for its waiters, without the requests, which exist anyway.
fn held(keys: usize, key_bytes: usize) -> u64 {
    let mut scene = Scene::new("1/s", WaitLine::new(HOUR));
    let key = |index: usize| format!("{:0key_bytes$}", index % keys);
    for index in 0..keys {
        assert!(scene.gate.check(key(index)).unwrap().allowed);
    }
    (0..WAITERS).for_each(|index| _ = scene.come(&key(index), 1));
    scene.asks.borrow_mut().reserve(WAITERS);
    let during = measure(|| scene.crowd.run());
    assert_eq!((scene.line.waiting(), scene.line.keys(), scene.clock.sleeping()), (WAITERS, keys, keys));
    during.bytes_max
}

/// A slot is 72 bytes. The slots double, so that at worst half of them are free, and are copied when they do.
#[test]
fn a_waiter_costs_less_than_256_bytes_and_a_key_its_own_length_more() {
    let most = held(1, 8);
    assert!(most < 256 * WAITERS as u64, "{} bytes a waiter of one key", most / WAITERS as u64);
    let most = held(WAITERS, 512);
    assert!(most < (1_024 + 512) * WAITERS as u64, "{} bytes a waiter with a key of its own", most / WAITERS as u64);
}

#[test]
fn all_memory_is_back_when_all_have_left() {
    let clock = TestClock::new();
    let line = WaitLine::new(HOUR).timer(clock.clone());
    let kept = measure(|| {
        let busy = |_: LineQuestion| std::future::ready(Ok::<_, ()>(Answer(Some(Wait::After(Micros::from_secs(1))))));
        let keys: Vec<String> = (0..WAITERS).map(|index| format!("client-{}", index % 5_000)).collect();
        let mut crowd: Vec<_> = keys.iter().map(|key| Box::pin(line.wait(key.as_bytes(), busy))).collect();
        let mut context = Context::from_waker(Waker::noop());
        crowd.iter_mut().for_each(|waiting| assert!(waiting.as_mut().poll(&mut context).is_pending()));
        assert_eq!((line.waiting(), line.keys(), clock.sleeping()), (WAITERS, 5_000, 5_000));
    });
    assert_eq!((line.waiting(), line.keys(), clock.sleeping()), (0, 0, 0));
    assert!(kept.bytes_current < 1_024, "{} bytes stay", kept.bytes_current);
}

/// One timer, and one wake for each turn: neither requests that pass nor those that leave wake the rest.
#[test]
fn passing_the_head_on_wakes_one() {
    let mut scene = Scene::new("100/s gcra burst=1", WaitLine::new(HOUR));
    scene.crowd_in("alice", WAITERS);
    assert_eq!((scene.crowd.wakes(), scene.crowd.runs, scene.clock.sleeping()), (0, WAITERS, 1));
    let ids = scene.crowd.there();
    ids.iter().skip(1).step_by(2).for_each(|id| assert!(scene.crowd.cancel(*id)));
    scene.crowd.run();
    assert_eq!((scene.crowd.wakes(), scene.crowd.runs), (0, WAITERS), "who leaves from behind wakes nobody");
    let left = scene.line.waiting();
    for _ in 0..left {
        let before = scene.crowd.wakes();
        assert!(scene.step());
        // One wake by the head's timer, and one of the next request, which becomes the head; the last has none
        // behind it.
        let next = usize::from(scene.line.waiting() > 0);
        assert_eq!((scene.crowd.wakes() - before, scene.clock.sleeping()), (1 + next, next));
    }
    assert_eq!(scene.line.waiting(), 0);
}
