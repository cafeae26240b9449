//! A request's place in the line: given up when it is dropped, wherever the request was.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

use tollgate_core::{Micros, Timestamp};

use super::Shared;
use super::queue::{Out, Ticket, Turn};
use crate::timer::Sleep;

/// No sleep is shorter: a refusal that says "now" must not be asked again without end.
const SHORTEST: Micros = Micros::new(1);

/// What a newcomer finds.
pub(super) enum Entered<'a> {
    /// Nobody waits under its key.
    Alone,
    Behind(Place<'a>),
    Full,
}

pub(super) struct Place<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl<'a> Place<'a> {
    /// A place behind those who wait under the key; none is taken if nobody does.
    pub(super) fn enter(shared: &'a Shared, key: &[u8]) -> Entered<'a> {
        let mut queue = shared.queue();
        if !queue.has(key) {
            return Entered::Alone;
        }
        let joined = queue.join(key, shared.deadline(), shared.most, shared.most_a_key);
        drop(queue);
        Self::taken(shared, joined).map_or(Entered::Full, Entered::Behind)
    }

    /// A place under the key, also if it is the first.
    pub(super) fn join(shared: &'a Shared, key: &[u8]) -> Option<Self> {
        let joined = shared.queue().join(key, shared.deadline(), shared.most, shared.most_a_key);
        Self::taken(shared, joined)
    }

    fn taken(shared: &'a Shared, joined: Option<(Ticket, Out)>) -> Option<Self> {
        let (ticket, out) = joined?;
        out.wake.into_iter().for_each(Waker::wake);
        Some(Self { shared, ticket })
    }

    /// Whether it was the first of its key when it was taken: nobody asks again before it.
    pub(super) fn leads(&self) -> bool {
        self.ticket.leads
    }

    /// What is left until its deadline.
    pub(super) fn left(&self) -> Micros {
        self.ticket.until.since(self.shared.timer.now())
    }

    /// Ends when it is this one's turn, or its place is lost.
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

    /// The head's question. While the answer is on its way the head watches the deadlines of those behind it: nobody
    /// else has a timer.
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

    /// Ends when the first of those behind may be late. Who is not there yet has all its time before it.
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
    /// The deadline of whoever comes now.
    fn deadline(&self) -> Timestamp {
        self.timer.now().plus(self.longest)
    }
}
