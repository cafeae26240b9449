//! What a response says of its service's limits, for those who call it. Whatever it says, nothing here panics or takes
//! much memory: what is malformed or too long is ignored, as the drafts ask of clients.
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

/// The most limits of a response that are read.
const MOST_LIMITS: usize = 32;
/// The most bytes of a field, all lines together.
const MOST_BYTES: usize = 16 << 10;
/// The longest wait: 10 years and a bit. Longer ones are cut, so that adding one to a time cannot overflow.
const LONGEST: Duration = Duration::from_secs(3_660 * 86_400);
/// A reset from here on is no time from now but one since the epoch, in seconds: 2001, or 31 years from now.
const UNIX_FROM: u64 = 1_000_000_000;
/// And from here on, in milliseconds.
const MILLIS_FROM: u64 = 1_000_000_000_000;

/// What a response says of its service's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// How long to wait before the next request. It takes precedence over what the limits say.
    pub retry_after: Option<Duration>,
    /// The limits: at most 32, in the order in which they were told.
    pub limits: Vec<SaidLimit>,
}

/// How a limit of another service stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidLimit {
    /// What it is called; empty where the service does not say.
    pub name: String,
    /// The units left.
    pub remaining: u64,
    /// How long until there are more, if that was told.
    pub wait: Option<Duration>,
}

/// Reads `Retry-After` (seconds or a date) and the limits: of `RateLimit` (a list as in draft-8 and draft-10, or a
/// dictionary as in draft-7), `RateLimit-Remaining` and `X-RateLimit-Remaining` the first that is there and can be read.
/// The limits of a response from a cache are ignored: they are somebody else's, and old.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// let mut headers = http::HeaderMap::new();
/// headers.insert("ratelimit", r#""permin";r=0;t=5, "perhr";r=42;t=1800"#.parse()?);
/// headers.insert("retry-after", "5".parse()?);
/// let said = tollgate_http::said(&headers, SystemTime::now());
/// assert_eq!(said.retry_after, Some(Duration::from_secs(5)));
/// assert_eq!((said.limits[1].name.as_str(), said.limits[1].remaining), ("perhr", 42));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
pub fn said(headers: &HeaderMap, now: SystemTime) -> Said {
    let retry_after = headers.get_all(RETRY_AFTER).iter().take(MOST_LIMITS).filter_map(|value| after(value, now)).max();
    let limits = if headers.contains_key(AGE) { Vec::new() } else { limits(headers, now) };
    Said { retry_after, limits }
}

fn limits(headers: &HeaderMap, now: SystemTime) -> Vec<SaidLimit> {
    if let Some(text) = joined(headers.get_all(LIMIT))
        && let Some(limits) = structured::limits(&text)
    {
        return limits;
    }
    let pair = |remaining: HeaderName, reset: HeaderName| {
        let remaining = once(headers, &remaining).and_then(integer)?;
        let wait = once(headers, &reset).and_then(integer).map(|reset| until(reset, now));
        Some(SaidLimit { name: String::new(), remaining, wait })
    };
    pair(REMAINING, RESET).or_else(|| pair(X_REMAINING, X_RESET)).into_iter().collect()
}

/// All lines of a field as one, unless there is none, or too much.
fn joined(lines: GetAll<'_, HeaderValue>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for line in lines {
        if text.len() + line.len() + 2 > MOST_BYTES {
            return None;
        }
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        text.extend_from_slice(line.as_bytes());
    }
    (!text.is_empty()).then_some(text)
}

/// A field that is there once.
fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut lines = headers.get_all(name).iter();
    lines.next().filter(|_| lines.next().is_none())
}

/// A whole number, cut to the greatest there is.
pub(crate) fn integer(value: &HeaderValue) -> Option<u64> {
    let digits = value.as_bytes().trim_ascii();
    if digits.is_empty() || digits.len() > 64 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |number: u64, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

/// `Retry-After`: seconds or a date.
fn after(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    if let Some(seconds) = integer(value) {
        return Some(span(seconds));
    }
    let date = httpdate::parse_http_date(value.to_str().ok().filter(|text| text.len() <= 64)?.trim()).ok()?;
    Some(date.duration_since(now).unwrap_or_default().min(LONGEST))
}

/// The wait that a reset tells: services count from now, or since the epoch.
fn until(reset: u64, now: SystemTime) -> Duration {
    let since_epoch = match reset {
        ..UNIX_FROM => return span(reset),
        UNIX_FROM..MILLIS_FROM => Duration::from_secs(reset),
        _ => Duration::from_millis(reset),
    };
    since_epoch.saturating_sub(now.duration_since(UNIX_EPOCH).unwrap_or_default()).min(LONGEST)
}

fn span(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(LONGEST)
}
