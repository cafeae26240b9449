//! One key's account: what is known of it, and the line of waiting requests, under one lock.
//!
//! Only the head of the line asks for capacity. A request that leaves the line wakes the next head, and so does every
//! answer. So requests are sent in the order of arrival, and as many as there is capacity for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tollgate_kernel::{Micros, Timestamp};

use super::tracker::{KeyTracker, ResponseReport, SendCapacity, SendRecord};

#[derive(Debug, Default)]
pub(super) struct Account {
    state: Mutex<AccountState>,
}

#[derive(Debug, Default)]
struct AccountState {
    tracker: KeyTracker,
    /// By order of arrival.
    line: BTreeMap<u64, Option<Waker>>,
    arrivals: u64,
}

/// How long a request may wait, and how many others may wait at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitLimits {
    pub(super) longest: Micros,
    pub(super) most_waiting: usize,
}

/// The result for a new request.
pub(super) enum ObeyArrival {
    Go(InFlightRequest),
    /// It waits under this number, at most until this time.
    Wait(u64, Timestamp),
    Refused(SendRefusal),
}

/// The result for a waiting request.
pub(super) enum ObeyStep {
    Go(InFlightRequest),
    /// It asks again at this time, or when it is woken.
    Until(Timestamp),
    Refused(SendRefusal),
}

/// The reason why a request is not sent, and for how long a retry would be useless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendRefusal {
    Held(Micros),
    Full(Micros),
}

impl Account {
    /// Enters a new request.
    pub(super) fn enter(self: &Arc<Self>, limits: WaitLimits, now: Timestamp) -> ObeyArrival {
        let mut state = self.lock();
        let capacity = state.tracker.capacity(now);
        let until = match capacity {
            SendCapacity::Free if state.line.is_empty() => return ObeyArrival::Go(self.request(&mut state, now)),
            // A line opens slowly so that its requests are not all sent at once. A request that may not wait is not
            // in it.
            SendCapacity::Opening(_) if limits.longest == Micros::ZERO && state.line.is_empty() => {
                return ObeyArrival::Go(self.request(&mut state, now));
            }
            SendCapacity::Free => now,
            SendCapacity::Opening(until) | SendCapacity::Answers(until) | SendCapacity::Until(until) => until,
        };
        let deadline = now.plus(limits.longest);
        if limits.longest == Micros::ZERO || matches!(capacity, SendCapacity::Until(_)) && until > deadline {
            return ObeyArrival::Refused(SendRefusal::Held(until.since(now)));
        }
        if state.line.len() >= limits.most_waiting {
            return ObeyArrival::Refused(SendRefusal::Full(until.since(now)));
        }
        state.arrivals += 1;
        let number = state.arrivals;
        state.line.insert(number, None);
        ObeyArrival::Wait(number, deadline)
    }

    /// Checks whether a waiting request may be sent.
    pub(super) fn step(self: &Arc<Self>, number: u64, deadline: Timestamp, now: Timestamp, waker: &Waker) -> ObeyStep {
        let mut state = self.lock();
        let head = state.line.keys().next() == Some(&number);
        let capacity = state.tracker.capacity(now);
        let step = match capacity {
            SendCapacity::Free if head => ObeyStep::Go(self.request(&mut state, now)),
            SendCapacity::Until(until) if until > deadline => ObeyStep::Refused(SendRefusal::Held(until.since(now))),
            SendCapacity::Free if now >= deadline => ObeyStep::Refused(SendRefusal::Held(Micros::ZERO)),
            SendCapacity::Opening(until) | SendCapacity::Answers(until) | SendCapacity::Until(until)
                if now >= deadline =>
            {
                ObeyStep::Refused(SendRefusal::Held(until.since(now)))
            }
            SendCapacity::Opening(until) | SendCapacity::Answers(until) | SendCapacity::Until(until) if head => {
                ObeyStep::Until(until.min(deadline))
            }
            _ => ObeyStep::Until(deadline),
        };
        if let ObeyStep::Until(_) = step {
            state.line.insert(number, Some(waker.clone()));
            return step;
        }
        let next = state.leave(number);
        drop(state);
        next.into_iter().for_each(Waker::wake);
        step
    }

    /// Removes a waiting request that was given up.
    pub(super) fn leave(&self, number: u64) {
        let next = self.lock().leave(number);
        next.into_iter().for_each(Waker::wake);
    }

    /// Returns whether requests are in flight or waiting.
    pub(super) fn is_busy(&self) -> bool {
        let state = self.lock();
        state.tracker.is_busy() || !state.line.is_empty()
    }

    /// Returns the time at which everything known has expired.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        self.lock().tracker.ends()
    }

    fn request(self: &Arc<Self>, state: &mut AccountState, now: Timestamp) -> InFlightRequest {
        InFlightRequest { account: Some(Arc::clone(self)), sent: state.tracker.record_send(now) }
    }

    fn finish(&self, record: impl FnOnce(&mut KeyTracker, bool)) {
        let mut state = self.lock();
        let line = !state.line.is_empty();
        record(&mut state.tracker, line);
        let head = state.head();
        drop(state);
        head.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, AccountState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AccountState {
    /// Removes a request from the line. If it was the head, returns the waker of the next one.
    fn leave(&mut self, number: u64) -> Option<Waker> {
        let head = self.line.keys().next() == Some(&number);
        self.line.remove(&number);
        head.then(|| self.head()).flatten()
    }

    fn head(&mut self) -> Option<Waker> {
        self.line.values_mut().next().and_then(Option::take)
    }
}

/// A request in flight. If it is dropped without an answer, the service may have counted it.
#[derive(Debug)]
pub(super) struct InFlightRequest {
    account: Option<Arc<Account>>,
    sent: SendRecord,
}

impl InFlightRequest {
    /// Records an answer of the service.
    pub(super) fn record_answer(mut self, report: &ResponseReport, now: Timestamp) {
        if let Some(account) = self.account.take() {
            account.finish(|tracker, line| tracker.record_answer(self.sent, report, line, now));
        }
    }

    /// Records an answer that came from a cache instead of the service.
    pub(super) fn record_cached(mut self) {
        if let Some(account) = self.account.take() {
            account.finish(|tracker, _| tracker.record_cached());
        }
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        if let Some(account) = self.account.take() {
            account.finish(|tracker, _| tracker.record_loss());
        }
    }
}
