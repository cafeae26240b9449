//! A parser for the rate limit fields in responses of other services, for their clients. No input makes it panic or use
//! much memory: fields that are malformed or too long are ignored, as the drafts require of clients.
//!
//! | file | what it is |
//! |---|---|
//! | `structured.rs` | `RateLimit` as a list (draft-8, draft-10) or a dictionary (draft-7) |

mod structured;

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{AGE, GetAll, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

pub(crate) use structured::dictionary;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The maximum number of limits read from a response.
const MAX_LIMITS: usize = 32;
/// The maximum number of bytes of a field, all lines together.
const MAX_BYTES: usize = 16 << 10;
/// The longest wait: a little over 10 years. Longer waits are clamped, so that adding one to a time cannot overflow.
const MAX_TIME: Duration = Duration::from_secs(3_660 * 86_400);
/// A reset of at least this value is not a number of seconds from now but a time in seconds since the epoch. As a time
/// it is in 2001, as a wait it is 31 years.
const UNIX_FROM: u64 = 1_000_000_000;
/// A reset of at least this value is in milliseconds since the epoch.
const MILLIS_FROM: u64 = 1_000_000_000_000;

/// The limits of a service as reported by a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamLimits {
    /// The time to wait before the next request. It takes precedence over the waits of the limits.
    pub retry_after: Option<Duration>,
    /// The limits: at most 32, in the order of the response.
    pub limits: Vec<UpstreamLimit>,
}

/// The state of a limit of another service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamLimit {
    /// The name; empty if the service does not report one.
    pub name: String,
    /// The units left.
    pub remaining: u64,
    /// The time until there are more, if the service reports it.
    pub wait: Option<Duration>,
}

/// Parses `Retry-After` (seconds or a date) and the limits. The limits come from the first of these fields that is
/// present and valid: `RateLimit` (a list as in draft-8 and draft-10, or a dictionary as in draft-7),
/// `RateLimit-Remaining`, and `X-RateLimit-Remaining`. The limits of a response from a cache are ignored: they belong
/// to another client and are old.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// let mut headers = http::HeaderMap::new();
/// headers.insert("ratelimit", r#""permin";r=0;t=5, "perhr";r=42;t=1800"#.parse()?);
/// headers.insert("retry-after", "5".parse()?);
/// let upstream = tollgate_http::parse_upstream_limits(&headers, SystemTime::now());
/// assert_eq!(upstream.retry_after, Some(Duration::from_secs(5)));
/// assert_eq!((upstream.limits[1].name.as_str(), upstream.limits[1].remaining), ("perhr", 42));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
pub fn parse_upstream_limits(headers: &HeaderMap, now: SystemTime) -> UpstreamLimits {
    let retry_after = headers.get_all(RETRY_AFTER).iter().take(MAX_LIMITS).filter_map(|value| after(value, now)).max();
    let limits = if headers.contains_key(AGE) { Vec::new() } else { limits(headers, now) };
    UpstreamLimits { retry_after, limits }
}

fn limits(headers: &HeaderMap, now: SystemTime) -> Vec<UpstreamLimit> {
    if let Some(text) = joined(headers.get_all(LIMIT))
        && let Some(limits) = structured::limits(&text)
    {
        return limits;
    }
    let pair = |remaining: HeaderName, reset: HeaderName| {
        let remaining = once(headers, &remaining).and_then(integer)?;
        let wait = once(headers, &reset).and_then(integer).map(|reset| until(reset, now));
        Some(UpstreamLimit { name: String::new(), remaining, wait })
    };
    pair(REMAINING, RESET).or_else(|| pair(X_REMAINING, X_RESET)).into_iter().collect()
}

/// Returns all lines of a field as one. Returns `None` if there is no line, or if they are too long.
fn joined(lines: GetAll<'_, HeaderValue>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for line in lines {
        if text.len() + line.len() + 2 > MAX_BYTES {
            return None;
        }
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        text.extend_from_slice(line.as_bytes());
    }
    (!text.is_empty()).then_some(text)
}

/// Returns the value of a field that occurs exactly once.
fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut lines = headers.get_all(name).iter();
    lines.next().filter(|_| lines.next().is_none())
}

/// Parses a whole number, saturating at the maximum.
pub(crate) fn integer(value: &HeaderValue) -> Option<u64> {
    let digits = value.as_bytes().trim_ascii();
    if digits.is_empty() || digits.len() > 64 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |number: u64, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

/// Parses `Retry-After`: seconds or a date.
fn after(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    if let Some(seconds) = integer(value) {
        return Some(span(seconds));
    }
    let date = httpdate::parse_http_date(value.to_str().ok().filter(|text| text.len() <= 64)?.trim()).ok()?;
    Some(date.duration_since(now).unwrap_or_default().min(MAX_TIME))
}

/// Converts a reset to a wait. Services count a reset from now or since the epoch.
fn until(reset: u64, now: SystemTime) -> Duration {
    let since_epoch = match reset {
        ..UNIX_FROM => return span(reset),
        UNIX_FROM..MILLIS_FROM => Duration::from_secs(reset),
        _ => Duration::from_millis(reset),
    };
    since_epoch.saturating_sub(now.duration_since(UNIX_EPOCH).unwrap_or_default()).min(MAX_TIME)
}

fn span(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(MAX_TIME)
}
