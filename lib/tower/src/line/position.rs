//! A request's position in the line, given up when it is dropped.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

use tollgate_kernel::{Micros, Timestamp};

use super::LineCore;
use super::queue::{ReleasedWakers, Ticket, WaiterStatus};
use crate::timer::Sleep;

/// The shortest sleep: a refusal that reports a wait of zero must not cause an endless loop.
const MIN_SLEEP: Micros = Micros::new(1);

/// The state of its key's line that a new request finds.
pub(super) enum LineArrival<'a> {
    /// No request waits under its key.
    Alone,
    Behind(LinePosition<'a>),
    Full,
}

/// The position of a waiting request, given up when it is dropped.
pub(super) struct LinePosition<'a> {
    core: &'a LineCore,
    ticket: Ticket,
}

impl<'a> LinePosition<'a> {
    /// Takes a position behind the requests that wait under the key; takes none if there are no such requests.
    pub(super) fn enter(core: &'a LineCore, key: &[u8]) -> LineArrival<'a> {
        let mut queue = core.queue();
        if !queue.has(key) {
            return LineArrival::Alone;
        }
        let joined = queue.join(key, core.deadline(), core.most, core.most_a_key);
        drop(queue);
        Self::from_joined(core, joined).map_or(LineArrival::Full, LineArrival::Behind)
    }

    /// Takes a position under the key, even if it is the first.
    pub(super) fn join(core: &'a LineCore, key: &[u8]) -> Option<Self> {
        let joined = core.queue().join(key, core.deadline(), core.most, core.most_a_key);
        Self::from_joined(core, joined)
    }

    fn from_joined(core: &'a LineCore, joined: Option<(Ticket, ReleasedWakers)>) -> Option<Self> {
        let (ticket, wakers) = joined?;
        wakers.wake.into_iter().for_each(Waker::wake);
        Some(Self { core, ticket })
    }

    /// Returns whether it was the first position of its key when it was taken: no other request is asked about before
    /// it.
    pub(super) fn leads(&self) -> bool {
        self.ticket.leads
    }

    /// Returns the time left until its deadline.
    pub(super) fn time_left(&self) -> Micros {
        self.ticket.until.since(self.core.timer.now())
    }

    /// Waits until it is this request's turn, or its position is lost.
    pub(super) async fn wait_turn(&self) -> WaiterStatus {
        poll_fn(|context| {
            let (status, old) = self.core.queue().status(&self.ticket, context.waker());
            drop(old);
            if status == WaiterStatus::Waiting { Poll::Pending } else { Poll::Ready(status) }
        })
        .await
    }

    pub(super) fn sleep(&self, span: Micros) -> Sleep {
        self.core.timer.sleep(span.max(MIN_SLEEP))
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
        let first = self.core.queue().next_deadline(&self.ticket);
        self.sleep(first.unwrap_or_else(|| self.core.deadline()).since(self.core.timer.now()))
    }

    fn expire(&self) {
        let now = self.core.timer.now();
        let late = self.core.queue().expire(&self.ticket, now);
        late.into_iter().for_each(Waker::wake);
    }
}

impl Drop for LinePosition<'_> {
    fn drop(&mut self) {
        let wakers = self.core.queue().leave(&self.ticket);
        wakers.wake.into_iter().for_each(Waker::wake);
    }
}

impl LineCore {
    /// Returns the deadline of a request that arrives now.
    fn deadline(&self) -> Timestamp {
        self.timer.now().plus(self.longest)
    }
}
