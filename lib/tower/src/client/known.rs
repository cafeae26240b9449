//! What is known of one key: its requests in flight, and what the service's answers reported. Pure: the time is an
//! argument, and nothing waits here.
//!
//! The rules:
//! - `Retry-After` of a refusal holds all requests until then. Nothing shortens it: an answer could only be known
//!   to be newer if its request was sent after the refusal was received, and from then on nothing is sent. Another
//!   refusal can lengthen it.
//! - A limit with `n` left until `t` permits `n` more requests until then, including those in flight. `limit.rs`
//!   defines which answer counts. If there are several limits, each is obeyed.
//! - Once a hold has ended nothing is known, and waiting requests are sent as `opening.rs` defines.

use tollgate_kernel::{Micros, Timestamp};

use super::limit::{Limit, Report};
use super::opening::Opening;

/// The maximum number of limits of one key. If there are more, the tightest are kept.
const MAX_LIMITS: usize = 16;

/// What an answer reports, with every wait as it is obeyed: rounded, spread, bounded.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// Whether the service refused the request.
    pub(super) refused: bool,
    pub(super) retry_after: Option<Micros>,
    pub(super) limits: Vec<HeardLimit>,
}

/// What an answer reports about one limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeardLimit {
    pub(super) name: u64,
    pub(super) left: u64,
    /// The time until the report ends. Without it, the report applies only to a limit that is already known.
    pub(super) wait: Option<Micros>,
}

/// Whether a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// Only the slow opening of a line prevents it, until this time or an answer.
    Opening(Timestamp),
    /// The requests in flight may use up what is left: not before this time, unless their answers report otherwise.
    Answers(Timestamp),
    /// Not before this time, as the service reported.
    Until(Timestamp),
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    at: Timestamp,
    /// How many requests had ended when it was sent.
    mark: u64,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    in_flight: u64,
    ended: u64,
    held: Option<Timestamp>,
    limits: Vec<Limit>,
    opening: Option<Opening>,
}

impl Known {
    /// Returns whether a request may be sent now.
    pub(super) fn room(&mut self, now: Timestamp) -> Room {
        self.expire(now);
        if let Some(until) = self.holds_until() {
            return Room::Until(until);
        }
        let full = |limit: &Limit| limit.report().filter(|report| report.left <= self.in_flight);
        if let Some(until) = self.limits.iter().filter_map(full).map(|report| report.ends).max() {
            return Room::Answers(until);
        }
        let opening = self.opening.and_then(|opening| opening.full_until(self.in_flight, now));
        opening.map_or(Room::Free, Room::Opening)
    }

    /// Records that a request is sent.
    pub(super) fn send(&mut self, now: Timestamp) -> Sent {
        if let Some(opening) = &mut self.opening {
            opening.send(self.in_flight, now);
        }
        self.in_flight += 1;
        Sent { at: now, mark: self.ended }
    }

    /// Records that the service answered a request. `line` is whether other requests wait.
    pub(super) fn answered(&mut self, sent: Sent, heard: &Heard, line: bool, now: Timestamp) {
        self.expire(now);
        self.end();
        self.held = self.held.max(heard.retry_after.map(|wait| now.plus(wait)));
        for limit in &mut self.limits {
            if !heard.limits.iter().any(|said| said.name == limit.name) {
                limit.lose();
            }
        }
        for said in &heard.limits {
            self.hear(sent, said, now);
        }
        // An answer to a request that was sent before the hold ended says nothing about the time after it.
        if let Some(opening) = self.opening.as_mut().filter(|opening| !heard.refused && sent.at >= opening.since) {
            opening.answered();
            if !line || !heard.limits.is_empty() {
                self.opening = None;
            }
        }
    }

    /// Records that a request ended without an answer; the service may have counted it.
    pub(super) fn lost(&mut self) {
        self.end();
        self.limits.iter_mut().for_each(Limit::lose);
    }

    /// Records that a cache answered a request; the service does not know of it.
    pub(super) fn cached(&mut self) {
        self.end();
    }

    /// Returns whether requests are in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Returns the time at which everything known has expired.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        let limits = self.limits.iter().filter_map(|limit| limit.report());
        limits.map(|report| report.ends).max().max(self.held)
    }

    /// Returns whether a hold has ended and nothing was reported since.
    #[cfg(test)]
    pub(super) fn is_opening(&mut self, now: Timestamp) -> bool {
        self.expire(now);
        self.opening.is_some()
    }

    fn end(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.ended += 1;
    }

    fn holds_until(&self) -> Option<Timestamp> {
        let spent = self.limits.iter().filter_map(Limit::report).filter(|report| report.left == 0);
        spent.map(|report| report.ends).max().max(self.held)
    }

    fn hear(&mut self, sent: Sent, said: &HeardLimit, now: Timestamp) {
        let ends = said.wait.map(|wait| now.plus(wait));
        if let Some(limit) = self.limits.iter_mut().find(|limit| limit.name == said.name) {
            let ends = ends.or(limit.report().map(|report| report.ends)).unwrap_or(now);
            return limit.hear(Report { left: said.left, ends }, sent.mark, self.ended);
        }
        let Some(ends) = ends else { return };
        let limit = Limit::new(said.name, Report { left: said.left, ends }, sent.mark, self.ended);
        if self.limits.len() < MAX_LIMITS {
            return self.limits.push(limit);
        }
        let left = |limit: &Limit| limit.report().map_or(0, |report| report.left);
        if let Some(widest) = self.limits.iter_mut().max_by_key(|limit| left(limit))
            && left(widest) > said.left
        {
            *widest = limit;
        }
    }

    /// Removes what has expired. What was left then is what a line opens with.
    fn expire(&mut self, now: Timestamp) {
        let mut opening = self.opening;
        let mut over = |since: Timestamp, room: u64, used: u64| match &mut opening {
            // An opening without any report since is not replaced by a later one with more room.
            Some(opening) => opening.again(since, room, used),
            None => opening = Some(Opening::new(since, room, used)),
        };
        if let Some(until) = self.held.take_if(|until| *until <= now) {
            // A refusal says nothing about the requests in flight, so they are not counted against the first one
            // sent.
            over(until, 1, 0);
        }
        for report in self.limits.iter_mut().filter_map(|limit| limit.expire(now)) {
            over(report.ends, report.left.saturating_add(1), self.in_flight);
        }
        self.limits.retain(|limit| !limit.is_over());
        self.opening = opening;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::saturating(seconds * 1_000_000)
    }

    #[test]
    fn an_answer_from_before_a_hold_ended_lets_nobody_go_after_it() {
        let mut known = Known::default();
        let (refused, early) = (known.send(at(0)), known.send(at(0)));
        let refusal = Heard { refused: true, retry_after: Some(Micros::from_secs(5)), limits: Vec::new() };
        known.answered(refused, &refusal, true, at(1));
        assert_eq!(known.room(at(5)), Room::Until(at(6)));
        assert_eq!(known.room(at(6)), Room::Free);
        let first = known.send(at(6));
        assert_eq!(known.room(at(6)), Room::Opening(at(7)));
        known.answered(early, &Heard::default(), true, at(6));
        assert_eq!(known.room(at(6)), Room::Opening(at(7)));
        known.answered(first, &Heard::default(), true, at(6));
        assert_eq!(known.room(at(6)), Room::Free);
    }

    #[test]
    fn a_limit_named_without_a_time_is_told_of_if_it_is_known() {
        let mut known = Known::default();
        let limit = |left, wait| Heard { limits: vec![HeardLimit { name: 1, left, wait }], ..Heard::default() };
        let sent = known.send(at(0));
        known.answered(sent, &limit(0, None), false, at(0));
        assert_eq!(known.room(at(0)), Room::Free, "nobody knows until when");
        let sent = known.send(at(0));
        known.answered(sent, &limit(5, Some(Micros::from_secs(60))), false, at(0));
        let sent = known.send(at(1));
        known.answered(sent, &limit(0, None), false, at(1));
        assert_eq!(known.room(at(1)), Room::Until(at(60)));
    }

    #[test]
    fn what_a_cache_answers_uses_nothing_up() {
        let mut known = Known::default();
        let sent = known.send(at(0));
        let limits = vec![HeardLimit { name: 1, left: 1, wait: Some(Micros::from_secs(60)) }];
        known.answered(sent, &Heard { limits, ..Heard::default() }, false, at(0));
        for _ in 0..100 {
            assert_eq!(known.room(at(1)), Room::Free);
            known.send(at(1));
            known.cached();
        }
        known.send(at(1));
        known.lost();
        assert_eq!(known.room(at(1)), Room::Until(at(60)));
    }
}
