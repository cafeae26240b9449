//! The answer of a limiter.

use http::{HeaderName, HeaderValue};
use tollgate_kernel::{Cost, Decision, Detail, Micros, Policy, Source, Wait};

/// The answer to one request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LimiterVerdict {
    /// A policy decided.
    Decided(Decision, Details),
    /// A custom limiter decided.
    Custom(CustomDecision),
}

impl LimiterVerdict {
    /// Returns whether the request passes.
    pub fn allowed(&self) -> bool {
        match self {
            Self::Decided(decision, _) => decision.allowed,
            Self::Custom(custom) => custom.allowed,
        }
    }

    /// Returns the source of the decision.
    pub fn source(&self) -> Source {
        match self {
            Self::Decided(decision, _) => decision.source,
            Self::Custom(custom) => custom.source,
        }
    }

    /// Returns how long a refused request has to wait; `None` if it passed or the wait is unknown.
    pub fn retry_after(&self) -> Option<Wait> {
        match self {
            Self::Decided(decision, _) => (!decision.allowed).then_some(decision.retry_after),
            Self::Custom(custom) => custom.retry_after.map(Wait::After),
        }
    }

    /// Turns the verdict into that of a request that has already passed: it reports what is left, and no wait.
    pub(crate) fn into_passed(self) -> Self {
        match self {
            Self::Decided(decision, details) => {
                Self::Decided(Decision { allowed: true, retry_after: Wait::NONE, ..decision }, details)
            }
            custom => custom,
        }
    }

    /// Adjusts a refusal whose wait is reported in whole seconds, and so ends later than the exact wait. Only a
    /// bucket may have fewer units by then: at the end of its window it starts over with its burst. If the request
    /// needs more than that burst and the window may end first, the wait becomes `Never`.
    pub(crate) fn in_seconds(mut self, policy: &Policy, cost: Cost) -> Self {
        let Self::Decided(decision, details) = &mut self else { return self };
        let Wait::After(wait) = decision.retry_after else { return self };
        // The longest wait that may be reported, with the maximum jitter.
        let seconds = wait.secs_up();
        let latest = Micros::from_secs(seconds.saturating_add(seconds.div_ceil(10)));
        let too_late = policy.limits().iter().zip(details.as_slice()).any(|(limit, detail)| {
            let burst = limit.rule().numbers().2.burst;
            let starts_over = limit.rule().loses_room() && burst.is_some_and(|burst| burst < cost.get());
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
    /// The detail of a policy with one limit.
    One(Detail),
    /// The details of a policy with several limits.
    Many(Vec<Detail>),
}

impl Details {
    /// Returns the details as a slice.
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

    /// Derives the detail of a policy's only limit from the decision, without asking again.
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

/// The decision of a custom limiter.
#[derive(Clone, Debug, Default)]
pub struct CustomDecision {
    /// Whether the request passes.
    pub allowed: bool,
    /// Header fields for the response, which replace those of the same name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// How long a refused request has to wait, if known.
    pub retry_after: Option<Micros>,
    /// The source of the decision.
    pub source: Source,
    /// The limiter's original answer, for response functions.
    pub raw: Option<RawReply>,
}

/// An answer in the limiter's own type.
pub type RawReply = std::sync::Arc<dyn std::any::Any + Send + Sync>;
