//! A decision to be told: which limit is the tightest, and which wait is told of it.

use std::cmp::Reverse;

use tollgate_core::{Decision, Detail, Micros, Policy, Wait};

/// A decision to be told.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The policy that decided.
    pub policy: &'a Policy,
    /// What was decided.
    pub decision: &'a Decision,
    /// Each limit's part, in policy order. May be empty if the policy has one limit: then the decision says it all. Of
    /// several limits without their parts, what is left of each is not told.
    pub details: &'a [Detail],
}

/// Each limit's part.
pub(crate) enum Each<'a> {
    Given(&'a [Detail]),
    Only([Detail; 1]),
}

impl Each<'_> {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[Detail] {
        match self {
            Self::Given(details) => details,
            Self::Only(details) => details,
        }
    }
}

impl<'a> Told<'a> {
    /// A part for each limit, or none at all.
    #[inline]
    pub(crate) fn each(&self) -> Each<'a> {
        match (self.policy.limits(), self.details) {
            (limits, details) if limits.len() == details.len() => Each::Given(details),
            ([limit], _) => Each::Only([Detail {
                fits: self.decision.limited_by.is_none() && self.decision.allowed,
                remaining: self.decision.remaining,
                retry_after: self.decision.next_after,
                reset_after: self.decision.reset_after,
                count: limit.count(),
            }]),
            _ => Each::Given(&[]),
        }
    }

    /// The wait that is told of a limit: until it is as new, and where nothing passes, until the request passes it.
    /// None of a limit that does not refuse then, so that `Retry-After` is never before it.
    #[inline]
    pub(crate) fn wait(&self, detail: &Detail) -> Option<Micros> {
        match (self.decision.allowed, detail.fits) {
            (true, _) => Some(detail.reset_after),
            (false, true) => None,
            (false, false) => detail.retry_after.span(),
        }
    }

    /// The same for fields that tell when there is more, not when all is as new: of a limit that has no room for the
    /// same request again, until it has.
    #[inline]
    pub(crate) fn wait_for_more(&self, detail: &Detail) -> Option<Micros> {
        match detail.retry_after {
            Wait::After(wait) if self.decision.allowed && wait > Micros::ZERO => Some(wait),
            _ => self.wait(detail),
        }
    }

    /// The place of the limit that fields of one value tell of: the one with the least left, then with the longest
    /// wait; where nothing passes, of those that refuse.
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

    /// What `Retry-After` tells: nothing of what passes, or never will.
    #[inline]
    pub(crate) fn retry_after(&self, details: &[Detail]) -> Option<Micros> {
        if self.decision.allowed {
            return None;
        }
        let waits = details.iter().filter_map(|detail| self.wait(detail));
        Some(waits.fold(self.decision.retry_after.span()?, Ord::max))
    }

    /// The names of the limits that refuse.
    pub(crate) fn violated(&self) -> Vec<String> {
        let each = self.each();
        let limits = self.policy.limits();
        let refusing: Vec<String> = limits
            .iter()
            .zip(each.as_slice())
            .filter(|(_, detail)| !detail.fits)
            .map(|(limit, _)| limit.name())
            .collect();
        match (refusing.as_slice(), self.decision.limited_by.and_then(|place| limits.get(place))) {
            ([], Some(limit)) => vec![limit.name()],
            _ => refusing,
        }
    }
}
