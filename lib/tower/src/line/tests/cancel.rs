//! A request that is dropped leaves nothing behind, wherever it was, and the next one continues.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use super::super::{Ask, Line};
use super::scene::Fate;
use super::slow::{Desk, PASS, after};

fn desk() -> Desk {
    Desk::new(Line::new(Duration::from_secs(1)).most(3))
}

fn left(desk: &Desk) -> (usize, usize, usize) {
    (desk.line.waiting(), desk.line.keys(), desk.clock.sleeping())
}

fn cancel(desk: &mut Desk, id: usize) {
    assert!(desk.crowd.cancel(id));
    desk.asked.borrow_mut().retain(|(_, _, answer)| !answer.is_closed());
    desk.crowd.run();
}

#[test]
fn asked_alone() {
    let mut desk = desk();
    desk.come("alice");
    cancel(&mut desk, 0);
    assert_eq!((left(&desk), desk.asked.borrow().len()), ((0, 0, 0), 0));
}

#[test]
fn asleep_as_the_only_one() {
    let mut desk = desk();
    desk.come("alice");
    desk.answer(0, Ok(after(10)));
    assert_eq!(left(&desk), (1, 1, 1));
    cancel(&mut desk, 0);
    assert_eq!(left(&desk), (0, 0, 0));
}

/// Three in line, of which one leaves: the head asleep, the head while its answer is pending, the second, the last.
#[test]
fn anywhere_in_line() {
    for (gone, asking) in [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true)] {
        let mut desk = desk();
        desk.come("alice");
        desk.answer(0, Ok(after(10)));
        desk.come("alice");
        desk.come("alice");
        if asking {
            desk.advance(10);
        }
        assert_eq!(left(&desk), (3, 1, 1));
        cancel(&mut desk, gone);
        assert_eq!(desk.line.waiting(), 2);
        desk.advance(10);
        for id in (0..3).filter(|id| *id != gone) {
            desk.answer(id, Ok(PASS));
        }
        let passed: Vec<_> = desk.ends.borrow().iter().map(|(id, fate, _)| (*id, *fate)).collect();
        let others: Vec<_> = (0..3).filter(|id| *id != gone).map(|id| (id, Some(Fate::Passed))).collect();
        assert_eq!((passed, left(&desk)), (others, (0, 0, 0)), "{gone} left, asking: {asking}");
    }
}

/// The second is woken as the new head, and is dropped before it runs: the third is woken instead.
#[test]
fn between_being_woken_and_being_run() {
    let mut desk = desk();
    desk.come("alice");
    desk.answer(0, Ok(after(10)));
    desk.come("alice");
    desk.come("alice");
    assert!(desk.crowd.cancel(0));
    assert!(desk.crowd.cancel(1));
    desk.crowd.run();
    let asked: Vec<_> = desk.asked.borrow().iter().map(|(id, ask, _)| (*id, *ask)).collect();
    assert_eq!(asked, [(2, Ask::Charge)]);
    desk.answer(2, Ok(PASS));
    assert_eq!(left(&desk), (0, 0, 0));
}

#[test]
fn while_it_looks_since_the_line_is_full() {
    let mut desk = desk();
    (0..4).for_each(|id| {
        desk.come("alice");
        if id == 0 {
            desk.answer(0, Ok(after(10)));
        }
    });
    assert_eq!((left(&desk), desk.asked.borrow().len()), ((3, 1, 1), 1));
    cancel(&mut desk, 3);
    assert_eq!(left(&desk), (3, 1, 1));
    // This also holds for a request that was displaced and looks.
    desk.come("bob");
    desk.answer(4, Ok(after(20)));
    assert_eq!((left(&desk), desk.asked.borrow()[0].0), ((3, 2, 2), 2));
    cancel(&mut desk, 2);
    assert_eq!(left(&desk), (3, 2, 2));
}

/// A request that moves from one task to another while it waits is woken in the last one.
#[test]
fn taken_over_by_another_task() {
    struct Bell(AtomicUsize);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let bells = [(); 2].map(|()| Arc::new(Bell(AtomicUsize::new(0))));
    let mut desk = desk();
    desk.come("alice");
    desk.answer(0, Ok(after(10)));
    let line = desk.line.clone();
    let mut second = pin!(line.wait(b"alice", |_| std::future::ready(Ok::<_, ()>(PASS))));
    for bell in &bells {
        assert!(second.as_mut().poll(&mut Context::from_waker(&Waker::from(bell.clone()))).is_pending());
    }
    cancel(&mut desk, 0);
    assert_eq!(bells.each_ref().map(|bell| bell.0.load(Ordering::Relaxed)), [0, 1]);
    assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert_eq!(left(&desk), (0, 0, 0));
}
