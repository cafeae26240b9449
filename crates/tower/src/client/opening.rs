//! How a line begins to move again after a hold.
//!
//! When a hold is over the service has room for some, but has not said for how many. So those who wait go one by one
//! at first, and two more for each answer: twice as many a round trip, until an answer tells what is left. Answers that
//! do not come must not hold others up: each second after the first has gone doubles the number too, and one may
//! always go when none is in flight.

use tollgate_core::{Micros, Timestamp};

/// A hold is over, and nothing was heard since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// When the hold ended.
    pub(super) since: Timestamp,
    /// How many may go.
    room: u64,
    /// How many went, with those that were in flight before.
    used: u64,
    /// Since when answers are waited for.
    begun: Option<Timestamp>,
}

impl Opening {
    /// A hold is over: `room` were left with the one unit that its end brings, and `used` may be used up already.
    pub(super) fn new(since: Timestamp, room: u64, used: u64) -> Self {
        Self { since, room, used, begun: None }
    }

    /// Another hold is over as well.
    pub(super) fn again(&mut self, since: Timestamp, room: u64, used: u64) {
        let more = self.room.saturating_sub(self.used).min(room.saturating_sub(used));
        self.room = self.used.saturating_add(more);
        self.since = self.since.max(since);
    }

    /// A request goes, beside those in flight. One that goes alone begins anew: the time before it was not spent waiting
    /// for answers.
    pub(super) fn send(&mut self, in_flight: u64, now: Timestamp) {
        if in_flight == 0 || self.begun.is_none() {
            self.begun = Some(now);
        }
        self.used = self.used.saturating_add(1);
    }

    /// A request that went since was answered, without a word of what is left.
    pub(super) fn answered(&mut self) {
        self.room = self.room.saturating_add(2);
    }

    /// When another may go beside those in flight, by the time that has passed: `None` if at once.
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
