//! The header fields of a decision: `RateLimit-Policy` and `RateLimit` as
//! draft-ietf-httpapi-ratelimit-headers-10 has them, `Retry-After`, and the exact figures beside them.

use std::fmt::Write;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER};
use tollgate_core::{Decision, Detail, Micros, Policy, Wait};

/// The greatest integer of a structured field.
const MOST: u64 = 999_999_999_999_999;

pub(super) const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(super) const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(super) const REMAINING: HeaderName = HeaderName::from_static("tollgate-remaining");
pub(super) const WAIT: HeaderName = HeaderName::from_static("tollgate-retry-after-us");
pub(super) const SOURCE: HeaderName = HeaderName::from_static("tollgate-source");

/// The fields that tell a decision.
pub(super) fn write(policy: &Policy, decision: &Decision, details: &[Detail], into: &mut HeaderMap) {
    for (name, value) in [(POLICY, policies(policy)), (LIMIT, limits(policy, decision, details))] {
        if let Ok(value) = HeaderValue::try_from(value) {
            into.insert(name, value);
        }
    }
    into.insert(REMAINING, HeaderValue::from(decision.remaining));
    into.insert(WAIT, HeaderValue::from(decision.retry_after.as_flat()));
    into.insert(SOURCE, HeaderValue::from_static(decision.source.name()));
    if let (false, Wait::After(wait)) = (decision.allowed, decision.retry_after) {
        into.insert(RETRY_AFTER, HeaderValue::from(seconds(wait)));
    }
}

/// `"100/min";q=100;w=60`, a member a limit.
fn policies(policy: &Policy) -> String {
    let mut text = String::new();
    for limit in policy.limits() {
        member(&mut text, &limit.name());
        let _ = write!(text, ";q={}", limit.count().min(MOST));
        // A window below a second has no whole seconds.
        if limit.period().get() >= 1_000_000 {
            let _ = write!(text, ";w={}", seconds(limit.period()));
        }
    }
    text
}

/// `"100/min";r=99;t=60`, a member a limit. Where nothing passes, a wait is told only of the limits that
/// refuse: Retry-After is then never before it.
fn limits(policy: &Policy, decision: &Decision, details: &[Detail]) -> String {
    let mut text = String::new();
    for (limit, detail) in policy.limits().iter().zip(details) {
        member(&mut text, &limit.name());
        let _ = write!(text, ";r={}", u64::try_from(detail.remaining).unwrap_or(0).min(MOST));
        let wait = match (decision.allowed, detail.fits) {
            (true, _) => Some(detail.reset_after),
            (false, true) => None,
            (false, false) => detail.retry_after.span(),
        };
        if let Some(wait) = wait {
            let _ = write!(text, ";t={}", seconds(wait));
        }
    }
    text
}

/// Begins a member: its name as a string of a structured field.
fn member(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push_str(", ");
    }
    text.push('"');
    for letter in name.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            ' '..='~' => text.push(letter),
            _ => text.push('?'),
        }
    }
    text.push('"');
}

/// Whole seconds, rounded up, so that nobody comes back early.
fn seconds(span: Micros) -> u64 {
    span.secs_up().min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::{KeyState, Request, Timestamp, explain};

    fn fields(text: &str, asked: &[(u64, u64)]) -> String {
        let policy: Policy = text.parse().unwrap();
        let mut key = KeyState::default();
        let mut last = None;
        for (at, cost) in asked {
            let request = Request::cost(tollgate_core::Cost::new(*cost).unwrap());
            last = Some(explain(&mut key, &policy, Timestamp::saturating(*at), &request));
        }
        let last = last.unwrap();
        let details: Vec<Detail> = last.limits.iter().map(|limit| limit.detail).collect();
        let mut headers = HeaderMap::new();
        write(&policy, &last.decision, &details, &mut headers);
        let lines = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn decisions_in_header_fields() {
        let start = 1_700_000_000_000_000;
        let allowed = fields("10/min", &[(start, 1)]);
        assert_eq!(
            allowed,
            "ratelimit-policy: \"10/min\";q=10;w=60\nratelimit: \"10/min\";r=9;t=60\n\
             tollgate-remaining: 9\ntollgate-retry-after-us: 0\ntollgate-source: home"
        );
        let refused = fields("2/5s name=short, 100/h", &[(start, 2), (start + 1_500_000, 1)]);
        assert_eq!(
            refused,
            "ratelimit-policy: \"short\";q=2;w=5, \"100/h\";q=100;w=3600\n\
             ratelimit: \"short\";r=0;t=4, \"100/h\";r=98\n\
             tollgate-remaining: 0\ntollgate-retry-after-us: 3500000\ntollgate-source: home\nretry-after: 4"
        );
        let never = fields("10/min", &[(start, 11)]);
        assert!(never.contains("ratelimit: \"10/min\";r=10\n") && !never.contains("retry-after: "), "{never}");
        let quick = fields("5/100ms", &[(start, 1)]);
        assert!(quick.contains("ratelimit-policy: \"5/100ms\";q=5\n"), "{quick}");
        assert!(quick.contains("ratelimit: \"5/100ms\";r=4;t=1\n"), "{quick}");
    }

    #[test]
    fn names_are_strings_of_structured_fields() {
        let mut text = String::new();
        member(&mut text, "a\"b\\c\u{e9}");
        assert_eq!(text, "\"a\\\"b\\\\c?\"");
    }
}
