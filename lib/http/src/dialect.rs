//! The header dialects in which a decision is written.

use http::HeaderName;

/// A set of header fields that describes a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderDialect {
    /// draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy: "10/min";q=10;w=60`, `RateLimit: "10/min";r=9;t=60`.
    Draft10,
    /// The same fields as defined by draft-8. Tollgate writes the same text in both.
    Draft8,
    /// `RateLimit: limit=10, remaining=9, reset=60`, `RateLimit-Policy: 10;w=60`.
    Draft7,
    /// `RateLimit-Limit: 10`, `RateLimit-Remaining: 9`, `RateLimit-Reset: 60`, `RateLimit-Policy: 10;w=60`.
    Draft6,
    /// `X-RateLimit-Limit: 10`, `X-RateLimit-Remaining: 9`, `X-RateLimit-Reset: 60`. The reset is when the limit is
    /// back in its initial state.
    XRateLimit(Reset),
    /// Envoy's fields: `x-ratelimit-limit: 10, 10;w=60;name="10/min"`, `x-ratelimit-remaining: 9`, `x-ratelimit-reset:
    /// 60`.
    Envoy,
    /// PlugLimit's fields: `x-ratelimit-limit: 10`, `x-ratelimit-reset: 60`, `x-ratelimit-remaining: 9`. For a bucket
    /// the limit is `15 15;w=60;burst=3;policy=token_bucket`, and `retry-after` is written while the bucket is empty.
    /// If this is the only dialect, `Retry-After` is written at no other time.
    Plug,
    /// Custom header names.
    Names(HeaderNames),
}

/// The unit of a reset field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reset {
    /// Seconds from now.
    #[default]
    Delta,
    /// Seconds since the epoch, by the clock of the home that decided.
    Unix,
}

impl HeaderDialect {
    /// The dialects that have a name, with their names.
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

    /// Returns the dialect with this name.
    ///
    /// ```
    /// use tollgate_http::{HeaderDialect, Reset};
    /// assert_eq!(HeaderDialect::from_name("x-ratelimit-unix"), Some(HeaderDialect::XRateLimit(Reset::Unix)));
    /// assert_eq!(HeaderDialect::from_name("draft-9"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(own, _)| *own == name).map(|(_, dialect)| dialect)
    }
}

/// Custom header names. A value without a header name is not written.
///
/// ```
/// use http::HeaderName;
/// use tollgate_http::{HeaderDialect, HeaderFields, HeaderNames, Reset};
/// let names = HeaderNames::new()
///     .remaining(HeaderName::from_static("x-acme-left"))
///     .reset(HeaderName::from_static("x-acme-new-at"), Reset::Unix);
/// let fields = HeaderFields::new([HeaderDialect::Names(names), HeaderDialect::Draft10]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderNames {
    pub(crate) limit: Option<HeaderName>,
    pub(crate) remaining: Option<HeaderName>,
    pub(crate) reset: Option<(HeaderName, Reset)>,
    pub(crate) retry_after: Option<HeaderName>,
}

impl HeaderNames {
    /// Creates a set without any names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the field for the count of the tightest limit.
    #[must_use]
    pub fn limit(self, name: HeaderName) -> Self {
        Self { limit: Some(name), ..self }
    }

    /// Sets the field for the units that remain in the tightest limit.
    #[must_use]
    pub fn remaining(self, name: HeaderName) -> Self {
        Self { remaining: Some(name), ..self }
    }

    /// Sets the field for the time when the tightest limit is back in its initial state.
    #[must_use]
    pub fn reset(self, name: HeaderName, counts: Reset) -> Self {
        Self { reset: Some((name, counts)), ..self }
    }

    /// Sets the field for the number of seconds after which a refused request would pass.
    #[must_use]
    pub fn retry_after(self, name: HeaderName) -> Self {
        Self { retry_after: Some(name), ..self }
    }
}
