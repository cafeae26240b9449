//! Times: RFC 3339 in, RFC 3339 out, microseconds between.

use jiff::Timestamp;
use tollgate_kernel::EXACT;

/// Parses an RFC 3339 time to microseconds since 1970, rounded down; returns `None` if it is not one, or lies before
/// 1970 or after the year 2255.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let moment: Timestamp = text.parse().ok()?;
    let us = u64::try_from(moment.as_microsecond()).ok()?;
    // jiff rounds towards zero, so a time just before 1970 would become 1970.
    (us < EXACT && moment.as_nanosecond() >= 0).then_some(us)
}

/// Formats as RFC 3339 in UTC, with as many decimals as needed.
pub(crate) fn print(us: u64) -> String {
    let moment = i64::try_from(us).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
    moment.map_or_else(|| "after the year 9999".to_owned(), |moment| moment.to_string())
}

/// Formats as RFC 3339 in UTC with at most milliseconds, for tables that people read.
pub(crate) fn print_short(us: u64) -> String {
    print(us - us % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact_to_the_microsecond() {
        for (text, us) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-10-10T13:55:36-07:00", Some(971_211_336_000_000)),
            ("2023-11-14T22:13:20.1234567Z", Some(1_700_000_000_123_456)),
            ("2023-11-14 22:13:20Z", Some(1_700_000_000_000_000)),
            ("1969-12-31T23:59:59.9999999Z", None),
            ("2300-01-01T00:00:00Z", None),
            ("2023-11-14T22:13:20", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(parse(text), us, "{text}");
        }
        assert_eq!(print(1_700_000_000_123_456), "2023-11-14T22:13:20.123456Z");
        assert_eq!(print_short(1_700_000_000_123_456), "2023-11-14T22:13:20.123Z");
    }
}
