//! The answer to a request. A refusal is an answer, not an error.

use std::sync::Arc;

use crate::limit::Limit;
use crate::policy::Policy;
use crate::units::{Micros, Timestamp, Wait};

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a decision that is ignored limits nothing"]
pub struct Decision {
    /// In binary and uniform mode: whether the request fits. In nary mode: whether any units were granted.
    pub allowed: bool,
    /// The units that the caller may use.
    pub granted: u64,
    /// The units recorded; differs from `granted` in uniform mode.
    pub charged: u64,
    /// The units left in the limit that has the fewest; negative only in uniform mode.
    pub remaining: i64,
    /// Zero if allowed; else the least time after which the same request passes if there are no other requests.
    pub retry_after: Wait,
    /// The same for the next request of this cost, even if this one was allowed.
    pub next_after: Wait,
    /// The time until every limit is back in its initial state: the greatest over the limits.
    pub reset_after: Micros,
    /// The first limit that did not fit the whole request, counted from 0 in policy order.
    pub limited_by: Option<usize>,
    /// The time of the decision, by the home's clock.
    pub at: Timestamp,
    /// What made the decision.
    pub source: Source,
}

/// What made a decision: the home, or the fallback that replaces it while it does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Source {
    /// The home.
    #[default]
    Home,
    /// This process, using its share of the limits.
    Local,
    /// No store: the policy lets every request pass.
    Open,
    /// No store: the policy lets no request pass.
    Closed,
}

impl Source {
    /// Returns the name, which is the same in every language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

impl Decision {
    /// Returns the decision that allows a request which no store decided. Nothing was counted, so all of the smallest
    /// limit is reported as remaining.
    pub fn open(policy: &Policy, granted: u64, at: Timestamp) -> Self {
        let left = policy.limits().iter().map(|limit| limit.count()).min().unwrap_or(0);
        Self {
            allowed: true,
            granted,
            charged: 0,
            remaining: left as i64,
            retry_after: Wait::NONE,
            next_after: Wait::NONE,
            reset_after: Micros::ZERO,
            limited_by: None,
            at,
            source: Source::Open,
        }
    }

    /// Returns the decision that refuses a request which no store decided; the caller may retry after `wait`.
    #[inline]
    pub const fn closed(wait: Micros, at: Timestamp) -> Self {
        Self {
            allowed: false,
            granted: 0,
            charged: 0,
            remaining: 0,
            retry_after: Wait::After(wait),
            next_after: Wait::After(wait),
            reset_after: wait,
            limited_by: None,
            at,
            source: Source::Closed,
        }
    }

    /// Returns each limit's part of a decision that [`Decision::open`] or [`Decision::closed`] made.
    pub fn details(&self, policy: &Policy) -> Vec<Detail> {
        let detail = |limit: &Arc<Limit>| Detail {
            fits: self.allowed,
            remaining: if self.allowed { limit.count() as i64 } else { 0 },
            retry_after: self.retry_after,
            reset_after: self.reset_after,
            count: limit.count(),
        };
        policy.limits().iter().map(detail).collect()
    }

    /// Returns the flat reply: allowed, granted, remaining, retry_after_us (-1 for never), reset_after_us, limited_by
    /// (0 for no limit, else counted from 1).
    pub fn flat(&self) -> [i64; 6] {
        [
            i64::from(self.allowed),
            self.granted as i64,
            self.remaining,
            self.retry_after.as_flat(),
            self.reset_after.get() as i64,
            self.limited_by.map_or(0, |index| index as i64 + 1),
        ]
    }

    /// Returns what a FULL reply adds before the limits: charged, next_after_us, at_us.
    pub fn flat_rest(&self) -> [i64; 3] {
        [self.charged as i64, self.next_after.as_flat(), self.at.get() as i64]
    }
}

/// One limit's part in a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Whether the whole request fits this limit.
    pub fits: bool,
    /// The units left in this limit.
    pub remaining: i64,
    /// How long this limit alone would make the same request wait from now.
    pub retry_after: Wait,
    /// The time until this limit is back in its initial state.
    pub reset_after: Micros,
    /// The limit's count.
    pub count: u64,
}

impl Detail {
    /// Returns the five integers of a FULL reply.
    pub fn flat(&self) -> [i64; 5] {
        [
            i64::from(self.fits),
            self.remaining,
            self.retry_after.as_flat(),
            self.reset_after.get() as i64,
            self.count as i64,
        ]
    }
}
