//! How a line begins to move again after a hold.
//!
//! When a hold ends, the service has room for some requests, but has not reported for how many. So at first one
//! waiting request is sent, and two more for each answer: twice as many each round trip, until an answer reports
//! what is left. Missing answers must not hold up the others: each second after the first request was sent also
//! doubles the number, and one request may always be sent when none is in flight.

use tollgate_kernel::{Micros, Timestamp};

/// The state after a hold has ended, while nothing has been reported since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// The time at which the hold ended.
    pub(super) since: Timestamp,
    /// How many requests may be sent.
    room: u64,
    /// How many were sent, including those that were in flight before.
    used: u64,
    /// The time since which answers are awaited.
    begun: Option<Timestamp>,
}

impl Opening {
    /// Creates the state after a hold: `room` is what was left plus the one unit that its end brings, and `used` of
    /// it may already be used up.
    pub(super) fn new(since: Timestamp, room: u64, used: u64) -> Self {
        Self { since, room, used, begun: None }
    }

    /// Records that another hold has ended as well.
    pub(super) fn again(&mut self, since: Timestamp, room: u64, used: u64) {
        let more = self.room.saturating_sub(self.used).min(room.saturating_sub(used));
        self.room = self.used.saturating_add(more);
        self.since = self.since.max(since);
    }

    /// Records that a request is sent, beside those in flight. If none is in flight, the time is counted from now:
    /// the time before was not spent waiting for answers.
    pub(super) fn send(&mut self, in_flight: u64, now: Timestamp) {
        if in_flight == 0 || self.begun.is_none() {
            self.begun = Some(now);
        }
        self.used = self.used.saturating_add(1);
    }

    /// Records that a request sent since then was answered without a report of what is left.
    pub(super) fn answered(&mut self) {
        self.room = self.room.saturating_add(2);
    }

    /// Returns when another request may be sent beside those in flight, by the time that has passed; `None` if
    /// immediately.
    pub(super) fn full_until(&self, in_flight: u64, now: Timestamp) -> Option<Timestamp> {
        let begun = self.begun.unwrap_or(self.since);
        let seconds = now.since(begun).get() / 1_000_000;
        let times = u32::try_from(seconds).ok().and_then(|seconds| 1_u64.checked_shl(seconds));
        let room = times.map_or(u64::MAX, |times| self.room.max(1).saturating_mul(times));
        let full = in_flight > 0 && self.used >= room;
        full.then(|| begun.plus(Micros::from_secs(seconds.saturating_add(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::saturating(5_000_000).plus(Micros::from_secs(seconds))
    }

    #[test]
    fn room_grows_by_answers_and_by_seconds() {
        let rows = [
            // room, used, answers, in flight, seconds since: full until
            (1, 0, 0, 0, 0, None),
            (1, 1, 0, 1, 0, Some(1)),
            (1, 9, 0, 0, 0, None),
            (1, 1, 1, 1, 0, None),
            (1, 3, 1, 2, 0, Some(1)),
            (1, 1, 0, 1, 1, None),
            (1, 2, 0, 2, 1, Some(2)),
            (6, 5, 0, 5, 0, None),
            (6, 6, 0, 1, 0, Some(1)),
            (0, 1, 0, 1, 0, Some(1)),
            (1, 1_000_000, 0, 1_000_000, 20, None),
            (1, 1_000_000, 0, 1_000_000, 700, None),
            (u64::MAX, 1_000_000, 9, 1_000_000, 0, None),
        ];
        for (room, used, answers, in_flight, seconds, full) in rows {
            let mut opening = Opening::new(at(0), room, used);
            (0..answers).for_each(|_| opening.answered());
            let found = opening.full_until(in_flight, at(seconds));
            assert_eq!(found, full.map(at), "{room} {used} {answers} {in_flight} {seconds}");
        }
    }

    #[test]
    fn a_client_that_was_idle_begins_with_one_all_the_same() {
        let mut opening = Opening::new(at(0), 1, 0);
        assert_eq!(opening.full_until(0, at(900)), None);
        opening.send(0, at(900));
        assert_eq!(opening.full_until(1, at(900)), Some(at(901)));
    }

    #[test]
    fn of_two_holds_the_one_that_leaves_less_counts() {
        let mut opening = Opening::new(at(0), 1, 0);
        opening.again(at(1), 9, 0);
        opening.send(0, at(1));
        assert_eq!(opening.full_until(1, at(1)), Some(at(2)));
        let mut opening = Opening::new(at(0), 9, 0);
        opening.again(at(1), 4, 3);
        opening.send(0, at(1));
        assert_eq!(opening.full_until(1, at(1)), Some(at(2)));
    }
}
