//! One key's account: what is known of it, and the line of those who wait, under one lock.
//!
//! Only the head of the line asks for room; who leaves the line wakes the next head, and so does every answer. So the
//! order is that of arrival, and a line is let go as far as there is room and no further.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tollgate_core::{Micros, Timestamp};

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

/// How long a request may wait, and how many beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) longest: Micros,
    pub(super) most_waiting: usize,
}

/// What becomes of a request.
pub(super) enum Entered {
    Go(Ticket),
    /// It waits at this place, at the latest until then.
    Wait(u64, Timestamp),
    Turned(Turned),
}

/// What becomes of one that waits.
pub(super) enum Step {
    Go(Ticket),
    /// Ask again then, or when woken.
    Until(Timestamp),
    Turned(Turned),
}

/// Why a request is not sent, and how long from now it has no hope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    Held(Micros),
    Full(Micros),
}

impl Account {
    /// A request comes.
    pub(super) fn enter(self: &Arc<Self>, patience: Patience, now: Timestamp) -> Entered {
        let mut state = self.lock();
        let room = state.known.room(now);
        let until = match room {
            Room::Free if state.line.is_empty() => return Entered::Go(self.ticket(&mut state, now)),
            // A line opens slowly so that those in it do not all go at once. Who may not wait is not in it.
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

    /// One who waits asks whether it may go.
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

    /// One who waited does not want to any more.
    pub(super) fn leave(&self, place: u64) {
        let next = self.lock().leave(place);
        next.into_iter().for_each(Waker::wake);
    }

    /// Whether requests are in flight or wait.
    pub(super) fn is_busy(&self) -> bool {
        let state = self.lock();
        state.known.is_busy() || !state.line.is_empty()
    }

    /// When all that is known is over.
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
    /// Takes one out of the line. If the head left, the next one is to be woken.
    fn leave(&mut self, place: u64) -> Option<Waker> {
        let head = self.line.keys().next() == Some(&place);
        self.line.remove(&place);
        head.then(|| self.head()).flatten()
    }

    fn head(&mut self) -> Option<Waker> {
        self.line.values_mut().next().and_then(Option::take)
    }
}

/// A request in flight. One that is dropped without an answer may have been counted by the service.
#[derive(Debug)]
pub(super) struct Ticket {
    account: Option<Arc<Account>>,
    sent: Sent,
}

impl Ticket {
    /// The service answered.
    pub(super) fn answered(mut self, heard: &Heard, now: Timestamp) {
        if let Some(account) = self.account.take() {
            account.end(|known, line| known.answered(self.sent, heard, line, now));
        }
    }

    /// A cache answered in the service's place.
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
