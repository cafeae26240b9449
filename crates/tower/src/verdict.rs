//! What a limiter answered.

use http::{HeaderName, HeaderValue};
use tollgate_core::{Cost, Decision, Detail, Micros, Policy, Source, Wait};

/// The answer to one request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// A policy decided.
    Decided(Decision, Details),
    /// A limiter of one's own did.
    Custom(Custom),
}

impl Verdict {
    /// Whether the request passes.
    pub fn allowed(&self) -> bool {
        match self {
            Self::Decided(decision, _) => decision.allowed,
            Self::Custom(custom) => custom.allowed,
        }
    }

    /// Who decided.
    pub fn source(&self) -> Source {
        match self {
            Self::Decided(decision, _) => decision.source,
            Self::Custom(custom) => custom.source,
        }
    }

    /// How long a refused request has to wait; `None` if it passed, or nobody knows.
    pub fn retry_after(&self) -> Option<Wait> {
        match self {
            Self::Decided(decision, _) => (!decision.allowed).then_some(decision.retry_after),
            Self::Custom(custom) => custom.retry_after.map(Wait::After),
        }
    }

    /// The same of a request that has passed already: what is left is told, and no wait.
    pub(crate) fn of_passed(self) -> Self {
        match self {
            Self::Decided(decision, details) => {
                Self::Decided(Decision { allowed: true, retry_after: Wait::NONE, ..decision }, details)
            }
            custom => custom,
        }
    }

    /// A refusal whose wait is told in whole seconds, and so later than it ends. Only a bucket may have less then: at the
    /// end of its window it starts over with its burst. A request for more than that which would come too late is told
    /// that waiting does not help.
    pub(crate) fn in_seconds(mut self, policy: &Policy, cost: Cost) -> Self {
        let Self::Decided(decision, details) = &mut self else { return self };
        let Wait::After(wait) = decision.retry_after else { return self };
        // The most that is told, with all of the jitter there may be.
        let seconds = wait.secs_up();
        let latest = Micros::from_secs(seconds.saturating_add(seconds.div_ceil(10)));
        let too_late = policy.limits().iter().zip(details.as_slice()).any(|(limit, detail)| {
            let burst = limit.rule().numbers().2.burst;
            let starts_over = limit.rule().name() == "bucket" && burst.is_some_and(|burst| burst < cost.get());
            starts_over && detail.reset_after <= latest
        });
        if too_late {
            decision.retry_after = Wait::Never;
            details.as_mut_slice().iter_mut().for_each(|detail| detail.retry_after = Wait::Never);
        }
        self
    }
}

/// Each limit's part in a decision, in policy order.
#[derive(Clone, Debug)]
pub enum Details {
    /// Of a policy of one limit.
    One(Detail),
    /// Of one with several.
    Many(Vec<Detail>),
}

impl Details {
    /// The parts.
    pub fn as_slice(&self) -> &[Detail] {
        match self {
            Self::One(detail) => std::slice::from_ref(detail),
            Self::Many(details) => details,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [Detail] {
        match self {
            Self::One(detail) => std::slice::from_mut(detail),
            Self::Many(details) => details,
        }
    }

    /// What the decision of a policy of one limit says of it, without asking again.
    pub(crate) fn of_one(decision: &Decision, count: u64) -> Self {
        Self::One(Detail {
            fits: decision.limited_by.is_none() && decision.allowed,
            remaining: decision.remaining,
            retry_after: decision.next_after,
            reset_after: decision.reset_after,
            count,
        })
    }
}

/// What a limiter of one's own decided.
#[derive(Clone, Debug, Default)]
pub struct Custom {
    /// Whether the request passes.
    pub allowed: bool,
    /// Header fields for the response, which replace those of the same name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// How long a refused request has to wait, if it is known.
    pub retry_after: Option<Micros>,
    /// Who decided.
    pub source: Source,
    /// What else it answered, as it came: for response functions.
    pub raw: Option<Raw>,
}

/// An answer as it came, of whatever type the limiter has.
pub type Raw = std::sync::Arc<dyn std::any::Any + Send + Sync>;
