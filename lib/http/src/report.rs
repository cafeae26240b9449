//! A decision to be reported: its tightest limit, and the waits to report.

use std::cmp::Reverse;

use tollgate_kernel::{Decision, Detail, Micros, Policy, Wait};

/// A decision to be reported to a client.
#[derive(Clone, Copy, Debug)]
pub struct DecisionReport<'a> {
    /// The policy under which the decision was made.
    pub policy: &'a Policy,
    /// The decision.
    pub decision: &'a Decision,
    /// The details of each limit, in policy order. They may be empty if the policy has one limit, because the decision
    /// then contains everything. With several limits and no details, the units left of each limit are not reported.
    pub details: &'a [Detail],
}

/// The details of each limit.
pub(crate) enum LimitDetails<'a> {
    Given(&'a [Detail]),
    Only([Detail; 1]),
}

impl LimitDetails<'_> {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[Detail] {
        match self {
            Self::Given(details) => details,
            Self::Only(details) => details,
        }
    }
}

impl<'a> DecisionReport<'a> {
    /// Returns details for each limit, or none at all.
    #[inline]
    pub(crate) fn limit_details(&self) -> LimitDetails<'a> {
        match (self.policy.limits(), self.details) {
            (limits, details) if limits.len() == details.len() => LimitDetails::Given(details),
            ([limit], _) => LimitDetails::Only([Detail {
                fits: self.decision.limited_by.is_none() && self.decision.allowed,
                remaining: self.decision.remaining,
                retry_after: self.decision.next_after,
                reset_after: self.decision.reset_after,
                count: limit.count(),
            }]),
            _ => LimitDetails::Given(&[]),
        }
    }

    /// Returns the wait to report for a limit: until it is back in its initial state, or in a refusal until the request
    /// passes it. In a refusal there is no wait for a limit that does not refuse, so that `Retry-After` is never before
    /// a reported wait.
    #[inline]
    pub(crate) fn wait(&self, detail: &Detail) -> Option<Micros> {
        match (self.decision.allowed, detail.fits) {
            (true, _) => Some(detail.reset_after),
            (false, true) => None,
            (false, false) => detail.retry_after.span(),
        }
    }

    /// Returns the wait for fields that report when more units are available, not when the limit is back in its initial
    /// state. If the limit has no room for the same request again, this is the time until it has.
    #[inline]
    pub(crate) fn wait_for_more(&self, detail: &Detail) -> Option<Micros> {
        match detail.retry_after {
            Wait::After(wait) if self.decision.allowed && wait > Micros::ZERO => Some(wait),
            _ => self.wait(detail),
        }
    }

    /// Returns the index of the limit that fields of one value describe: the one with the least left, then with the
    /// longest wait; in a refusal, among those that refuse.
    #[inline]
    pub(crate) fn tightest(&self, details: &[Detail]) -> Option<usize> {
        if details.len() == 1 {
            return Some(0);
        }
        let refuses = |detail: &Detail| !self.decision.allowed && !detail.fits;
        let wait = |detail: &Detail| match self.decision.allowed {
            true => Wait::After(detail.reset_after),
            false => detail.retry_after,
        };
        let rank = |(_, detail): &(usize, &Detail)| (Reverse(refuses(detail)), detail.remaining, Reverse(wait(detail)));
        details.iter().enumerate().min_by_key(rank).map(|(place, _)| place)
    }

    /// Returns the wait for `Retry-After`; `None` for a request that is allowed or that can never pass.
    #[inline]
    pub(crate) fn retry_after(&self, details: &[Detail]) -> Option<Micros> {
        if self.decision.allowed {
            return None;
        }
        let waits = details.iter().filter_map(|detail| self.wait(detail));
        Some(waits.fold(self.decision.retry_after.span()?, Ord::max))
    }

    /// Returns the names of the limits that refuse.
    pub(crate) fn violated(&self) -> Vec<String> {
        let details = self.limit_details();
        let limits = self.policy.limits();
        let refusing: Vec<String> = limits
            .iter()
            .zip(details.as_slice())
            .filter(|(_, detail)| !detail.fits)
            .map(|(limit, _)| limit.name())
            .collect();
        match (refusing.as_slice(), self.decision.limited_by.and_then(|place| limits.get(place))) {
            ([], Some(limit)) => vec![limit.name()],
            _ => refusing,
        }
    }
}
