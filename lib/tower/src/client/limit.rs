//! One limit of a service, derived from its answers.
//!
//! Answers may arrive in another order than that in which the service gave them, so the last one received need not
//! be the newest. Law: if `p` is the answer that the service gave last of all that were received, then at least
//! `p.left - in flight` units are left, since whatever the service decided after `p` is still in flight. Which
//! answer is `p` cannot be determined, but it is one of those that no other is known to follow, and an answer is
//! known to follow all answers received before its request was sent. So the least of those candidates is kept, in
//! two generations: once a request that was sent after the older generation had ended is answered, that answer
//! follows the older generation, and the newer generation takes its place.

use tollgate_kernel::Timestamp;

/// The knowledge of one limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteLimit {
    /// A hash of the limit's name, because a service may choose names of any length.
    pub(super) name: u64,
    newer: ReportGeneration,
    older: ReportGeneration,
    /// How many requests had ended when the newer generation began.
    epoch: u64,
}

/// The answers of one generation.
#[derive(Clone, Copy, Debug, Default)]
struct ReportGeneration {
    least: Option<QuotaReport>,
    /// The number of requests that ended without a report about this limit: the service may have counted them.
    lost: u64,
}

/// The number of units left until a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaReport {
    pub(super) left: u64,
    pub(super) ends: Timestamp,
}

impl RemoteLimit {
    /// Creates a limit from the first answer that reports it. Requests that ended while that answer was in flight
    /// reported nothing about the limit that is still known, and may have been counted after it.
    pub(super) fn new(name: u64, report: QuotaReport, mark: u64, ended: u64) -> Self {
        let lost = ended.saturating_sub(mark).saturating_sub(1);
        let older = ReportGeneration { least: Some(report), lost };
        Self { name, newer: ReportGeneration::default(), older, epoch: ended }
    }

    /// Records what an answer reports. `mark` is the number of requests that had ended when its request was sent,
    /// `ended` the number now.
    pub(super) fn update(&mut self, report: QuotaReport, mark: u64, ended: u64) {
        self.newer.add(report);
        if mark >= self.epoch {
            self.older = std::mem::take(&mut self.newer);
            self.epoch = ended;
        }
    }

    /// Records that a request ended without a report about this limit.
    pub(super) fn record_loss(&mut self) {
        self.newer.lost = self.newer.lost.saturating_add(1);
    }

    /// Returns the tightest report that has not expired, less the requests that may have been counted without a
    /// report.
    pub(super) fn report(&self) -> Option<QuotaReport> {
        let lost = self.newer.lost.saturating_add(self.older.lost);
        let least = [self.older.least, self.newer.least].into_iter().flatten().reduce(QuotaReport::tighter)?;
        Some(QuotaReport { left: least.left.saturating_sub(lost), ..least })
    }

    /// Removes reports that have expired, and returns the tightest of them.
    pub(super) fn expire(&mut self, now: Timestamp) -> Option<QuotaReport> {
        let lost = self.newer.lost.saturating_add(self.older.lost);
        let over =
            [self.older.expire(now), self.newer.expire(now)].into_iter().flatten().reduce(QuotaReport::tighter)?;
        Some(QuotaReport { left: over.left.saturating_sub(lost), ..over })
    }

    /// Returns whether nothing is known any more.
    pub(super) fn is_over(&self) -> bool {
        self.older.least.is_none() && self.newer.least.is_none()
    }
}

impl ReportGeneration {
    fn add(&mut self, report: QuotaReport) {
        self.least = Some(self.least.map_or(report, |least| least.tighter(report)));
    }

    fn expire(&mut self, now: Timestamp) -> Option<QuotaReport> {
        self.least.take_if(|least| least.ends <= now)
    }
}

impl QuotaReport {
    /// Returns the report with less left, unchanged: combining the end of one with the rest of another would hold a
    /// client back longer than any service intended. If both have the same left, the one that ends later is
    /// returned.
    fn tighter(self, other: Self) -> Self {
        if (other.left, self.ends) < (self.left, other.ends) { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(left: u64, ends: u64) -> QuotaReport {
        QuotaReport { left, ends: Timestamp::saturating(ends) }
    }

    #[test]
    fn an_answer_replaces_those_heard_before_its_question_was_sent() {
        let mut limit = RemoteLimit::new(1, report(3, 10), 0, 1);
        limit.update(report(9, 20), 1, 2);
        assert_eq!(limit.report(), Some(report(9, 20)));
    }

    #[test]
    fn of_answers_whose_order_is_unknown_the_tightest_counts_until_one_follows_them_all() {
        // Three requests sent at once; the answers arrive in another order than that in which they were given.
        let mut limit = RemoteLimit::new(1, report(7, 10), 0, 1);
        for (ended, left) in [(2, 9), (3, 8)] {
            limit.update(report(left, 10), 0, ended);
            assert_eq!(limit.report(), Some(report(7, 10)));
        }
        // Sent when two had ended: follows 7 and 9, but not 8.
        limit.update(report(20, 11), 2, 4);
        assert_eq!(limit.report(), Some(report(8, 10)));
        limit.update(report(19, 12), 4, 5);
        assert_eq!(limit.report(), Some(report(19, 12)));
    }

    #[test]
    fn what_was_lost_counts_until_an_answer_must_include_it() {
        let mut limit = RemoteLimit::new(1, report(5, 10), 0, 1);
        limit.record_loss();
        assert_eq!(limit.report(), Some(report(4, 10)));
        limit.update(report(4, 10), 1, 3);
        assert_eq!(limit.report(), Some(report(3, 10)), "its question was sent before the loss");
        limit.update(report(3, 10), 3, 4);
        assert_eq!(limit.report(), Some(report(3, 10)));
    }

    #[test]
    fn what_ended_while_the_first_answer_was_under_way_may_have_been_counted_after_it() {
        let mut limit = RemoteLimit::new(1, report(5, 10), 3, 6);
        assert_eq!(limit.report(), Some(report(3, 10)));
        limit.update(report(4, 10), 6, 7);
        assert_eq!(limit.report(), Some(report(4, 10)));
    }

    #[test]
    fn a_report_is_forgotten_at_its_end_and_not_before() {
        let mut limit = RemoteLimit::new(1, report(0, 10), 0, 1);
        assert_eq!(limit.expire(Timestamp::saturating(9)), None);
        assert_eq!(limit.expire(Timestamp::saturating(10)), Some(report(0, 10)));
        assert!(limit.is_over());
    }

    #[test]
    fn an_old_window_does_not_hold_for_as_long_as_a_new_one_lasts() {
        let mut limit = RemoteLimit::new(1, report(0, 10), 0, 1);
        limit.update(report(9, 70), 0, 2);
        assert_eq!(limit.report(), Some(report(0, 10)));
        limit.expire(Timestamp::saturating(10));
        assert_eq!(limit.report(), Some(report(9, 70)));
    }
}
