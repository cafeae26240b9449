//! What is answered. A refusal is an answer, not an error.

use crate::units::{Micros, Timestamp, Wait};

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at protects nothing"]
pub struct Decision {
    /// Binary, uniform: it fits. Nary: something was granted.
    pub allowed: bool,
    /// Units the caller may use.
    pub granted: u64,
    /// Units recorded; differs from granted in uniform mode.
    pub charged: u64,
    /// Units left, the least over the limits; negative only in uniform mode.
    pub remaining: i64,
    /// Zero if allowed; else the least time after which the same request passes if nobody else
    /// comes.
    pub retry_after: Wait,
    /// The same for the next request of this cost, also if this one was allowed.
    pub next_after: Wait,
    /// Until all is as new, the greatest over the limits.
    pub reset_after: Micros,
    /// The first limit that did not fit the whole request, counted from 0 in policy order.
    pub limited_by: Option<usize>,
    /// The time of the decision by the home's clock.
    pub at: Timestamp,
    /// Who decided.
    pub source: Source,
}

/// Who decided: the home that was asked, or what stands in for it while it does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Source {
    /// The home.
    #[default]
    Home,
    /// This process, by its share of the limits.
    Local,
    /// Nobody: the policy lets everything pass.
    Open,
    /// Nobody: the policy lets nothing pass.
    Closed,
}

impl Source {
    /// The word for it in every language.
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
    /// The flat reply: allowed, granted, remaining, retry_after_us (-1 never), reset_after_us,
    /// limited_by (0 none, else counted from 1).
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

    /// What a FULL reply adds before the limits: charged, next_after_us, at_us.
    pub fn flat_rest(&self) -> [i64; 3] {
        [self.charged as i64, self.next_after.as_flat(), self.at.get() as i64]
    }
}

/// One limit's part in a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Whether the whole request fits this limit.
    pub fits: bool,
    /// Units left in this limit.
    pub remaining: i64,
    /// How long this limit alone would have the same request wait from now.
    pub retry_after: Wait,
    /// Until this limit is as new.
    pub reset_after: Micros,
    /// The limit's count.
    pub count: u64,
}

impl Detail {
    /// The five integers of a FULL reply.
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
