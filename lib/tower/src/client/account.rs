//! One key's account: what is known of it, and the line of waiting requests, under one lock.
//!
//! Only the head of the line asks for room. A request that leaves the line wakes the next head, and so does every
//! answer. So requests are sent in the order of arrival, and as many as there is room for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tollgate_kernel::{Micros, Timestamp};

use super::known::{Heard, Known, Room, Sent};

#[derive(Debug, Default)]
pub(super) struct Account {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: Known,
    /// By order of arrival.
    line: BTreeMap<u64, Option<Waker>>,
    came: u64,
}

/// How long a request may wait, and how many others may wait at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) longest: Micros,
    pub(super) most_waiting: usize,
}

/// The result for a new request.
pub(super) enum Entered {
    Go(Ticket),
    /// It waits at this place, at most until this time.
    Wait(u64, Timestamp),
    Turned(Turned),
}

/// The result for a waiting request.
pub(super) enum Step {
    Go(Ticket),
    /// It asks again at this time, or when it is woken.
    Until(Timestamp),
    Turned(Turned),
}

/// The reason why a request is not sent, and how long a retry is useless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    Held(Micros),
    Full(Micros),
}

impl Account {
    /// Enters a new request.
    pub(super) fn enter(self: &Arc<Self>, patience: Patience, now: Timestamp) -> Entered {
        let mut state = self.lock();
        let room = state.known.room(now);
        let until = match room {
            Room::Free if state.line.is_empty() => return Entered::Go(self.ticket(&mut state, now)),
            // A line opens slowly so that its requests are not all sent at once. A request that may not wait is not
            // in it.
            Room::Opening(_) if patience.longest == Micros::ZERO && state.line.is_empty() => {
                return Entered::Go(self.ticket(&mut state, now));
            }
            Room::Free => now,
            Room::Opening(until) | Room::Answers(until) | Room::Until(until) => until,
        };
        let deadline = now.plus(patience.longest);
        if patience.longest == Micros::ZERO || matches!(room, Room::Until(_)) && until > deadline {
            return Entered::Turned(Turned::Held(until.since(now)));
        }
        if state.line.len() >= patience.most_waiting {
            return Entered::Turned(Turned::Full(until.since(now)));
        }
        state.came += 1;
        let place = state.came;
        state.line.insert(place, None);
        Entered::Wait(place, deadline)
    }

    /// Checks whether a waiting request may be sent.
    pub(super) fn step(self: &Arc<Self>, place: u64, deadline: Timestamp, now: Timestamp, waker: &Waker) -> Step {
        let mut state = self.lock();
        let head = state.line.keys().next() == Some(&place);
        let room = state.known.room(now);
        let step = match room {
            Room::Free if head => Step::Go(self.ticket(&mut state, now)),
            Room::Until(until) if until > deadline => Step::Turned(Turned::Held(until.since(now))),
            Room::Free if now >= deadline => Step::Turned(Turned::Held(Micros::ZERO)),
            Room::Opening(until) | Room::Answers(until) | Room::Until(until) if now >= deadline => {
                Step::Turned(Turned::Held(until.since(now)))
            }
            Room::Opening(until) | Room::Answers(until) | Room::Until(until) if head => {
                Step::Until(until.min(deadline))
            }
            _ => Step::Until(deadline),
        };
        if let Step::Until(_) = step {
            state.line.insert(place, Some(waker.clone()));
            return step;
        }
        let next = state.leave(place);
        drop(state);
        next.into_iter().for_each(Waker::wake);
        step
    }

    /// Removes a waiting request that was given up.
    pub(super) fn leave(&self, place: u64) {
        let next = self.lock().leave(place);
        next.into_iter().for_each(Waker::wake);
    }

    /// Returns whether requests are in flight or waiting.
    pub(super) fn is_busy(&self) -> bool {
        let state = self.lock();
        state.known.is_busy() || !state.line.is_empty()
    }

    /// Returns the time at which everything known has expired.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        self.lock().known.ends()
    }

    fn ticket(self: &Arc<Self>, state: &mut State, now: Timestamp) -> Ticket {
        Ticket { account: Some(Arc::clone(self)), sent: state.known.send(now) }
    }

    fn end(&self, how: impl FnOnce(&mut Known, bool)) {
        let mut state = self.lock();
        let line = !state.line.is_empty();
        how(&mut state.known, line);
        let head = state.head();
        drop(state);
        head.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Removes a request from the line. If it was the head, returns the waker of the next one.
    fn leave(&mut self, place: u64) -> Option<Waker> {
        let head = self.line.keys().next() == Some(&place);
        self.line.remove(&place);
        head.then(|| self.head()).flatten()
    }

    fn head(&mut self) -> Option<Waker> {
        self.line.values_mut().next().and_then(Option::take)
    }
}

/// A request in flight. If it is dropped without an answer, the service may have counted it.
#[derive(Debug)]
pub(super) struct Ticket {
    account: Option<Arc<Account>>,
    sent: Sent,
}

impl Ticket {
    /// Records an answer of the service.
    pub(super) fn answered(mut self, heard: &Heard, now: Timestamp) {
        if let Some(account) = self.account.take() {
            account.end(|known, line| known.answered(self.sent, heard, line, now));
        }
    }

    /// Records an answer that came from a cache instead of the service.
    pub(super) fn cached(mut self) {
        if let Some(account) = self.account.take() {
            account.end(|known, _| known.cached());
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(account) = self.account.take() {
            account.end(|known, _| known.lost());
        }
    }
}
