//! The dialects in which header fields tell a decision.

use http::HeaderName;

/// A set of header fields that tells a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy: "10/min";q=10;w=60`, `RateLimit: "10/min";r=9;t=60`.
    Draft10,
    /// The same as draft-8 has it. What Tollgate writes is the same in both.
    Draft8,
    /// `RateLimit: limit=10, remaining=9, reset=60`, `RateLimit-Policy: 10;w=60`.
    Draft7,
    /// `RateLimit-Limit: 10`, `RateLimit-Remaining: 9`, `RateLimit-Reset: 60`, `RateLimit-Policy: 10;w=60`.
    Draft6,
    /// `X-RateLimit-Limit: 10`, `X-RateLimit-Remaining: 9`, `X-RateLimit-Reset: 60`, the latter until all is as new.
    XRateLimit(Reset),
    /// Envoy's: `x-ratelimit-limit: 10, 10;w=60;name="10/min"`, `x-ratelimit-remaining: 9`, `x-ratelimit-reset: 60`.
    Envoy,
    /// PlugLimit's: `x-ratelimit-limit: 10`, `x-ratelimit-reset: 60`, `x-ratelimit-remaining: 9`; of a bucket the limit
    /// is `15 15;w=60;burst=3;policy=token_bucket`, and `retry-after` is there while it is empty. By itself it has
    /// `Retry-After` at no other time.
    Plug,
    /// Header names of one's own.
    Names(Names),
}

/// What a field named Reset counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reset {
    /// Seconds from now.
    #[default]
    Delta,
    /// Seconds since the epoch, by the clock of the home that decided.
    Unix,
}

impl Dialect {
    /// Those that have a name, by it.
    pub const NAMED: [(&'static str, Self); 8] = [
        ("draft-10", Self::Draft10),
        ("draft-8", Self::Draft8),
        ("draft-7", Self::Draft7),
        ("draft-6", Self::Draft6),
        ("x-ratelimit", Self::XRateLimit(Reset::Delta)),
        ("x-ratelimit-unix", Self::XRateLimit(Reset::Unix)),
        ("envoy", Self::Envoy),
        ("pluglimit", Self::Plug),
    ];

    /// The one of that name.
    ///
    /// ```
    /// use tollgate_http::{Dialect, Reset};
    /// assert_eq!(Dialect::from_name("x-ratelimit-unix"), Some(Dialect::XRateLimit(Reset::Unix)));
    /// assert_eq!(Dialect::from_name("draft-9"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(own, _)| *own == name).map(|(_, dialect)| dialect)
    }
}

/// Header names of one's own. What is not named is not told.
///
/// ```
/// use http::HeaderName;
/// use tollgate_http::{Dialect, Fields, Names, Reset};
/// let names = Names::new()
///     .remaining(HeaderName::from_static("x-acme-left"))
///     .reset(HeaderName::from_static("x-acme-new-at"), Reset::Unix);
/// let fields = Fields::new([Dialect::Names(names), Dialect::Draft10]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub(crate) limit: Option<HeaderName>,
    pub(crate) remaining: Option<HeaderName>,
    pub(crate) reset: Option<(HeaderName, Reset)>,
    pub(crate) retry_after: Option<HeaderName>,
}

impl Names {
    /// No names yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The count of the tightest limit.
    #[must_use]
    pub fn limit(self, name: HeaderName) -> Self {
        Self { limit: Some(name), ..self }
    }

    /// What is left of it.
    #[must_use]
    pub fn remaining(self, name: HeaderName) -> Self {
        Self { remaining: Some(name), ..self }
    }

    /// When it is as new.
    #[must_use]
    pub fn reset(self, name: HeaderName, counts: Reset) -> Self {
        Self { reset: Some((name, counts)), ..self }
    }

    /// In a refusal, the seconds after which the same request passes.
    #[must_use]
    pub fn retry_after(self, name: HeaderName) -> Self {
        Self { retry_after: Some(name), ..self }
    }
}
