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

use super::limit::{QuotaReport, RemoteLimit};
use super::opening::Opening;

/// The maximum number of limits of one key. If there are more, the tightest are kept.
const MAX_LIMITS: usize = 16;

/// What an answer reports, with every wait as it is obeyed: rounded, spread, bounded.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseReport {
    /// Whether the service refused the request.
    pub(super) refused: bool,
    pub(super) retry_after: Option<Micros>,
    pub(super) limits: Vec<LimitReport>,
}

/// What an answer reports about one limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitReport {
    pub(super) name: u64,
    pub(super) left: u64,
    /// The time until the report ends. Without it, the report applies only to a limit that is already known.
    pub(super) wait: Option<Micros>,
}

/// Whether a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendCapacity {
    Free,
    /// Only the slow opening of a line prevents it, until this time or an answer.
    Opening(Timestamp),
    /// The requests in flight may use up what is left: not before this time, unless their answers report otherwise.
    Answers(Timestamp),
    /// Not before this time, as the service reported.
    Until(Timestamp),
}

/// When a request in flight was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendRecord {
    at: Timestamp,
    /// How many requests had ended when it was sent.
    mark: u64,
}

/// The requests in flight of one key, and what the answers reported about its limits.
#[derive(Debug, Default)]
pub(super) struct KeyTracker {
    in_flight: u64,
    ended: u64,
    held: Option<Timestamp>,
    limits: Vec<RemoteLimit>,
    opening: Option<Opening>,
}

impl KeyTracker {
    /// Returns whether a request may be sent now.
    pub(super) fn capacity(&mut self, now: Timestamp) -> SendCapacity {
        self.expire(now);
        if let Some(until) = self.holds_until() {
            return SendCapacity::Until(until);
        }
        let full = |limit: &RemoteLimit| limit.report().filter(|report| report.left <= self.in_flight);
        if let Some(until) = self.limits.iter().filter_map(full).map(|report| report.ends).max() {
            return SendCapacity::Answers(until);
        }
        let opening = self.opening.and_then(|opening| opening.full_until(self.in_flight, now));
        opening.map_or(SendCapacity::Free, SendCapacity::Opening)
    }

    /// Records that a request is sent.
    pub(super) fn record_send(&mut self, now: Timestamp) -> SendRecord {
        if let Some(opening) = &mut self.opening {
            opening.send(self.in_flight, now);
        }
        self.in_flight += 1;
        SendRecord { at: now, mark: self.ended }
    }

    /// Records that the service answered a request. `line` is whether other requests wait.
    pub(super) fn record_answer(&mut self, sent: SendRecord, report: &ResponseReport, line: bool, now: Timestamp) {
        self.expire(now);
        self.finish();
        self.held = self.held.max(report.retry_after.map(|wait| now.plus(wait)));
        for limit in &mut self.limits {
            if !report.limits.iter().any(|reported| reported.name == limit.name) {
                limit.record_loss();
            }
        }
        for reported in &report.limits {
            self.update(sent, reported, now);
        }
        // An answer to a request that was sent before the hold ended says nothing about the time after it.
        if let Some(opening) = self.opening.as_mut().filter(|opening| !report.refused && sent.at >= opening.since) {
            opening.answered();
            if !line || !report.limits.is_empty() {
                self.opening = None;
            }
        }
    }

    /// Records that a request ended without an answer; the service may have counted it.
    pub(super) fn record_loss(&mut self) {
        self.finish();
        self.limits.iter_mut().for_each(RemoteLimit::record_loss);
    }

    /// Records that a cache answered a request; the service does not know of it.
    pub(super) fn record_cached(&mut self) {
        self.finish();
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

    fn finish(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.ended += 1;
    }

    fn holds_until(&self) -> Option<Timestamp> {
        let spent = self.limits.iter().filter_map(RemoteLimit::report).filter(|report| report.left == 0);
        spent.map(|report| report.ends).max().max(self.held)
    }

    fn update(&mut self, sent: SendRecord, reported: &LimitReport, now: Timestamp) {
        let ends = reported.wait.map(|wait| now.plus(wait));
        if let Some(limit) = self.limits.iter_mut().find(|limit| limit.name == reported.name) {
            let ends = ends.or(limit.report().map(|report| report.ends)).unwrap_or(now);
            return limit.update(QuotaReport { left: reported.left, ends }, sent.mark, self.ended);
        }
        let Some(ends) = ends else { return };
        let limit = RemoteLimit::new(reported.name, QuotaReport { left: reported.left, ends }, sent.mark, self.ended);
        if self.limits.len() < MAX_LIMITS {
            return self.limits.push(limit);
        }
        let left = |limit: &RemoteLimit| limit.report().map_or(0, |report| report.left);
        if let Some(widest) = self.limits.iter_mut().max_by_key(|limit| left(limit))
            && left(widest) > reported.left
        {
            *widest = limit;
        }
    }

    /// Removes what has expired. What was left then is what a line opens with.
    fn expire(&mut self, now: Timestamp) {
        let mut opening = self.opening;
        let mut open = |since: Timestamp, room: u64, used: u64| match &mut opening {
            // An opening without any report since is not replaced by a later one with more room.
            Some(opening) => opening.again(since, room, used),
            None => opening = Some(Opening::new(since, room, used)),
        };
        if let Some(until) = self.held.take_if(|until| *until <= now) {
            // A refusal says nothing about the requests in flight, so they are not counted against the first one
            // sent.
            open(until, 1, 0);
        }
        for report in self.limits.iter_mut().filter_map(|limit| limit.expire(now)) {
            open(report.ends, report.left.saturating_add(1), self.in_flight);
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
        let mut tracker = KeyTracker::default();
        let (refused, early) = (tracker.record_send(at(0)), tracker.record_send(at(0)));
        let refusal = ResponseReport { refused: true, retry_after: Some(Micros::from_secs(5)), limits: Vec::new() };
        tracker.record_answer(refused, &refusal, true, at(1));
        assert_eq!(tracker.capacity(at(5)), SendCapacity::Until(at(6)));
        assert_eq!(tracker.capacity(at(6)), SendCapacity::Free);
        let first = tracker.record_send(at(6));
        assert_eq!(tracker.capacity(at(6)), SendCapacity::Opening(at(7)));
        tracker.record_answer(early, &ResponseReport::default(), true, at(6));
        assert_eq!(tracker.capacity(at(6)), SendCapacity::Opening(at(7)));
        tracker.record_answer(first, &ResponseReport::default(), true, at(6));
        assert_eq!(tracker.capacity(at(6)), SendCapacity::Free);
    }

    #[test]
    fn a_limit_named_without_a_time_is_told_of_if_it_is_known() {
        let mut tracker = KeyTracker::default();
        let limit = |left, wait| ResponseReport {
            limits: vec![LimitReport { name: 1, left, wait }],
            ..ResponseReport::default()
        };
        let sent = tracker.record_send(at(0));
        tracker.record_answer(sent, &limit(0, None), false, at(0));
        assert_eq!(tracker.capacity(at(0)), SendCapacity::Free, "nobody knows until when");
        let sent = tracker.record_send(at(0));
        tracker.record_answer(sent, &limit(5, Some(Micros::from_secs(60))), false, at(0));
        let sent = tracker.record_send(at(1));
        tracker.record_answer(sent, &limit(0, None), false, at(1));
        assert_eq!(tracker.capacity(at(1)), SendCapacity::Until(at(60)));
    }

    #[test]
    fn what_a_cache_answers_uses_nothing_up() {
        let mut tracker = KeyTracker::default();
        let sent = tracker.record_send(at(0));
        let limits = vec![LimitReport { name: 1, left: 1, wait: Some(Micros::from_secs(60)) }];
        tracker.record_answer(sent, &ResponseReport { limits, ..ResponseReport::default() }, false, at(0));
        for _ in 0..100 {
            assert_eq!(tracker.capacity(at(1)), SendCapacity::Free);
            tracker.record_send(at(1));
            tracker.record_cached();
        }
        tracker.record_send(at(1));
        tracker.record_loss();
        assert_eq!(tracker.capacity(at(1)), SendCapacity::Until(at(60)));
    }
}
