//! A request that is dropped leaves nothing behind, wherever it was, and the next one continues.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use super::super::{LineQuestion, WaitLine};
use super::scene::ModelOutcome;
use super::slow::{PASS, SlowStore, after};

fn store() -> SlowStore {
    SlowStore::new(WaitLine::new(Duration::from_secs(1)).most(3))
}

fn left(store: &SlowStore) -> (usize, usize, usize) {
    (store.line.waiting(), store.line.keys(), store.clock.sleeping())
}

fn cancel(store: &mut SlowStore, id: usize) {
    assert!(store.crowd.cancel(id));
    store.asked.borrow_mut().retain(|(_, _, answer)| !answer.is_closed());
    store.crowd.run();
}

#[test]
fn asked_alone() {
    let mut store = store();
    store.come("alice");
    cancel(&mut store, 0);
    assert_eq!((left(&store), store.asked.borrow().len()), ((0, 0, 0), 0));
}

#[test]
fn asleep_as_the_only_one() {
    let mut store = store();
    store.come("alice");
    store.answer(0, Ok(after(10)));
    assert_eq!(left(&store), (1, 1, 1));
    cancel(&mut store, 0);
    assert_eq!(left(&store), (0, 0, 0));
}

/// Three in line, of which one leaves: the head asleep, the head while its answer is pending, the second, the last.
#[test]
fn anywhere_in_line() {
    for (gone, asking) in [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true)] {
        let mut store = store();
        store.come("alice");
        store.answer(0, Ok(after(10)));
        store.come("alice");
        store.come("alice");
        if asking {
            store.advance(10);
        }
        assert_eq!(left(&store), (3, 1, 1));
        cancel(&mut store, gone);
        assert_eq!(store.line.waiting(), 2);
        store.advance(10);
        for id in (0..3).filter(|id| *id != gone) {
            store.answer(id, Ok(PASS));
        }
        let passed: Vec<_> = store.ends.borrow().iter().map(|(id, fate, _)| (*id, *fate)).collect();
        let others: Vec<_> = (0..3).filter(|id| *id != gone).map(|id| (id, Some(ModelOutcome::Passed))).collect();
        assert_eq!((passed, left(&store)), (others, (0, 0, 0)), "{gone} left, asking: {asking}");
    }
}

/// The second is woken as the new head, and is dropped before it runs: the third is woken instead.
#[test]
fn between_being_woken_and_being_run() {
    let mut store = store();
    store.come("alice");
    store.answer(0, Ok(after(10)));
    store.come("alice");
    store.come("alice");
    assert!(store.crowd.cancel(0));
    assert!(store.crowd.cancel(1));
    store.crowd.run();
    let asked: Vec<_> = store.asked.borrow().iter().map(|(id, ask, _)| (*id, *ask)).collect();
    assert_eq!(asked, [(2, LineQuestion::Charge)]);
    store.answer(2, Ok(PASS));
    assert_eq!(left(&store), (0, 0, 0));
}

#[test]
fn while_it_looks_since_the_line_is_full() {
    let mut store = store();
    (0..4).for_each(|id| {
        store.come("alice");
        if id == 0 {
            store.answer(0, Ok(after(10)));
        }
    });
    assert_eq!((left(&store), store.asked.borrow().len()), ((3, 1, 1), 1));
    cancel(&mut store, 3);
    assert_eq!(left(&store), (3, 1, 1));
    // This also holds for a request that was displaced and looks.
    store.come("bob");
    store.answer(4, Ok(after(20)));
    assert_eq!((left(&store), store.asked.borrow()[0].0), ((3, 2, 2), 2));
    cancel(&mut store, 2);
    assert_eq!(left(&store), (3, 2, 2));
}

/// A request that moves from one task to another while it waits is woken in the last one.
#[test]
fn taken_over_by_another_task() {
    struct CountingWaker(AtomicUsize);
    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let bells = [(); 2].map(|()| Arc::new(CountingWaker(AtomicUsize::new(0))));
    let mut store = store();
    store.come("alice");
    store.answer(0, Ok(after(10)));
    let line = store.line.clone();
    let mut second = pin!(line.wait(b"alice", |_| std::future::ready(Ok::<_, ()>(PASS))));
    for bell in &bells {
        assert!(second.as_mut().poll(&mut Context::from_waker(&Waker::from(bell.clone()))).is_pending());
    }
    cancel(&mut store, 0);
    assert_eq!(bells.each_ref().map(|bell| bell.0.load(Ordering::Relaxed)), [0, 1]);
    assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert_eq!(left(&store), (0, 0, 0));
}
