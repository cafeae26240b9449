//! A request's place in the line, given up when it is dropped, wherever it is.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

use tollgate_kernel::{Micros, Timestamp};

use super::Shared;
use super::queue::{Out, Ticket, Turn};
use crate::timer::Sleep;

/// The shortest sleep: a refusal that reports a wait of zero must not cause an endless loop.
const SHORTEST: Micros = Micros::new(1);

/// What a new request finds.
pub(super) enum Entered<'a> {
    /// No request waits under its key.
    Alone,
    Behind(Place<'a>),
    Full,
}

pub(super) struct Place<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl<'a> Place<'a> {
    /// Takes a place behind the requests that wait under the key; takes none if there are no such requests.
    pub(super) fn enter(shared: &'a Shared, key: &[u8]) -> Entered<'a> {
        let mut queue = shared.queue();
        if !queue.has(key) {
            return Entered::Alone;
        }
        let joined = queue.join(key, shared.deadline(), shared.most, shared.most_a_key);
        drop(queue);
        Self::taken(shared, joined).map_or(Entered::Full, Entered::Behind)
    }

    /// Takes a place under the key, even if it is the first.
    pub(super) fn join(shared: &'a Shared, key: &[u8]) -> Option<Self> {
        let joined = shared.queue().join(key, shared.deadline(), shared.most, shared.most_a_key);
        Self::taken(shared, joined)
    }

    fn taken(shared: &'a Shared, joined: Option<(Ticket, Out)>) -> Option<Self> {
        let (ticket, out) = joined?;
        out.wake.into_iter().for_each(Waker::wake);
        Some(Self { shared, ticket })
    }

    /// Returns whether it was the first place of its key when it was taken: no other request is asked about before
    /// it.
    pub(super) fn leads(&self) -> bool {
        self.ticket.leads
    }

    /// Returns the time left until its deadline.
    pub(super) fn left(&self) -> Micros {
        self.ticket.until.since(self.shared.timer.now())
    }

    /// Waits until it is this request's turn, or its place is lost.
    pub(super) async fn turn(&self) -> Turn {
        poll_fn(|context| {
            let (turn, old) = self.shared.queue().turn(&self.ticket, context.waker());
            drop(old);
            if turn == Turn::Others { Poll::Pending } else { Poll::Ready(turn) }
        })
        .await
    }

    pub(super) fn sleep(&self, span: Micros) -> Sleep {
        self.shared.timer.sleep(span.max(SHORTEST))
    }

    /// Asks about the head. While the answer is pending, the head watches the deadlines of the requests behind it,
    /// which have no timers of their own.
    pub(super) async fn watch<R: Future>(&self, asking: R) -> R::Output {
        let mut asking = pin!(asking);
        let mut alarm: Option<Sleep> = None;
        poll_fn(|context| {
            if let Poll::Ready(answer) = asking.as_mut().poll(context) {
                return Poll::Ready(answer);
            }
            while alarm.get_or_insert_with(|| self.alarm()).as_mut().poll(context).is_ready() {
                alarm = None;
                self.expire();
            }
            Poll::Pending
        })
        .await
    }

    /// Returns a sleep until the first deadline of the requests behind. A request that arrives later has all its
    /// time left.
    fn alarm(&self) -> Sleep {
        let first = self.shared.queue().next_deadline(&self.ticket);
        self.sleep(first.unwrap_or_else(|| self.shared.deadline()).since(self.shared.timer.now()))
    }

    fn expire(&self) {
        let now = self.shared.timer.now();
        let late = self.shared.queue().expire(&self.ticket, now);
        late.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let out = self.shared.queue().leave(&self.ticket);
        out.wake.into_iter().for_each(Waker::wake);
    }
}

impl Shared {
    /// Returns the deadline of a request that arrives now.
    fn deadline(&self) -> Timestamp {
        self.timer.now().plus(self.longest)
    }
}
