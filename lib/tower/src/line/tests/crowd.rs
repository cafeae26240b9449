//! Many requests at once, run one after the other in the order in which they were woken, until none of them can
//! continue. This is what a runtime does, but the test knows when nothing moves any more, and how many wakes there
//! were.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

type Task = (Pin<Box<dyn Future<Output = ()>>>, Arc<CountingWaker>);

#[derive(Default)]
pub(super) struct Crowd {
    tasks: Vec<Option<Task>>,
    woken: Arc<WakeQueue>,
    /// How often a request was run.
    pub(super) runs: usize,
}

#[derive(Default)]
struct WakeQueue {
    order: Mutex<VecDeque<usize>>,
    times: AtomicUsize,
}

struct CountingWaker {
    id: usize,
    rung: AtomicBool,
    woken: Arc<WakeQueue>,
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.woken.times.fetch_add(1, Ordering::Relaxed);
        if !self.rung.swap(true, Ordering::Relaxed) {
            self.woken.order.lock().unwrap().push_back(self.id);
        }
    }
}

impl Crowd {
    /// Adds a request without running it; requests are numbered from 0.
    pub(super) fn add(&mut self, task: impl Future<Output = ()> + 'static) -> usize {
        let id = self.tasks.len();
        let bell = Arc::new(CountingWaker { id, rung: AtomicBool::new(true), woken: self.woken.clone() });
        self.tasks.push(Some((Box::pin(task), bell)));
        self.woken.order.lock().unwrap().push_back(id);
        id
    }

    /// Runs until no request can continue.
    pub(super) fn run(&mut self) {
        while self.run_one() {}
    }

    /// Runs the request that was woken first. Returns whether there was one.
    pub(super) fn run_one(&mut self) -> bool {
        let Some(id) = self.pop() else { return false };
        let Some((task, bell)) = &mut self.tasks[id] else { return true };
        bell.rung.store(false, Ordering::Relaxed);
        let waker = Waker::from(bell.clone());
        self.runs += 1;
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.tasks[id] = None;
        }
        true
    }

    /// Drops a request where it is. Returns whether there was one.
    pub(super) fn cancel(&mut self, id: usize) -> bool {
        self.tasks[id].take().is_some()
    }

    /// Returns how many requests were ever added.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn is_there(&self, id: usize) -> bool {
        self.tasks.get(id).is_some_and(Option::is_some)
    }

    /// Returns the requests that have not ended, in the order of their arrival.
    pub(super) fn there(&self) -> Vec<usize> {
        (0..self.tasks.len()).filter(|id| self.is_there(*id)).collect()
    }

    /// Returns how many wakes there were.
    pub(super) fn wakes(&self) -> usize {
        self.woken.times.load(Ordering::Relaxed)
    }

    fn pop(&self) -> Option<usize> {
        self.woken.order.lock().unwrap().pop_front()
    }
}
