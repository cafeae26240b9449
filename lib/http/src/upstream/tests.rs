//! Tests of what is parsed and what is ignored, and that no response of a service does harm.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_random::Rng;

use super::{MAX_BYTES, MAX_LIMITS, MAX_TIME, UpstreamLimit, UpstreamLimits, parse_upstream_limits};

/// 2026-09-21 14:13:20 UTC.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_790_000_000)
}

fn read(lines: &[(&str, &[u8])]) -> UpstreamLimits {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value).unwrap());
    }
    parse_upstream_limits(&headers, now())
}

fn limit(name: &str, remaining: u64, wait: Option<u64>) -> UpstreamLimit {
    UpstreamLimit { name: name.to_owned(), remaining, wait: wait.map(Duration::from_secs) }
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let longest = Some(MAX_TIME.as_secs());
    for (value, seconds) in [
        ("0", Some(0)),
        ("5", Some(5)),
        (" 120\t", Some(120)),
        ("0005", Some(5)),
        ("99999999999", longest),
        ("18446744073709551616", longest),
        ("Mon, 21 Sep 2026 14:13:50 GMT", Some(30)),
        ("Monday, 21-Sep-26 14:13:50 GMT", Some(30)),
        ("Mon Sep 21 14:13:50 2026", Some(30)),
        // In the past.
        ("Fri, 31 Dec 1999 23:59:59 GMT", Some(0)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", longest),
        // Neither seconds nor a date.
        ("", None),
        ("-1", None),
        ("+5", None),
        ("1.5", None),
        ("5s", None),
        ("5, 6", None),
        ("soon", None),
        ("Mon, 21 Sep 2026 14:13:50", None),
        ("2026-09-21T14:13:50Z", None),
        ("Mon, 99 Sep 2026 14:13:50 GMT", None),
    ] {
        let parsed = read(&[("retry-after", value.as_bytes())]);
        assert_eq!(parsed.retry_after, seconds.map(Duration::from_secs), "{value:?}");
        assert_eq!(parsed.limits, []);
    }
    // The latest of several.
    let several: [(&str, &[u8]); 3] = [("retry-after", b"5"), ("retry-after", b"x"), ("retry-after", b"9")];
    assert_eq!(read(&several).retry_after, Some(Duration::from_secs(9)));
}

#[test]
fn limits_of_every_dialect() {
    type Row = (&'static [(&'static str, &'static [u8])], Vec<UpstreamLimit>);
    let rows: Vec<Row> = vec![
        (&[], vec![]),
        (&[("ratelimit", b"\"default\";r=9;t=60")], vec![limit("default", 9, Some(60))]),
        (&[("ratelimit", b"\"default\"; r=9; t=60")], vec![limit("default", 9, Some(60))]),
        (&[("ratelimit", b"\"default\";r=9")], vec![limit("default", 9, None)]),
        (&[("ratelimit", b"\"default\";r=9;t=60;pk=:MTI=:;x=y")], vec![limit("default", 9, Some(60))]),
        (
            &[("ratelimit", b"\"a\";r=9;t=60,\"b\";r=42;t=1800"), ("ratelimit", b"\"c\\\"\";r=0")],
            vec![limit("a", 9, Some(60)), limit("b", 42, Some(1800)), limit("c\"", 0, None)],
        ),
        // A member without figures is ignored; the others are read.
        (&[("ratelimit", b"\"a\";t=60, \"b\";r=42")], vec![limit("b", 42, None)]),
        (&[("ratelimit", b"\"a\";r=-1, \"b\";r=1.5, \"c\";r=\"1\", (\"d\");r=1, e;r=1, 6;r=1")], vec![]),
        (&[("ratelimit", b"\"a\";r=5;t=-1")], vec![limit("a", 5, None)]),
        (&[("ratelimit", b"\"a\";r=999999999999999")], vec![limit("a", 999_999_999_999_999, None)]),
        // An integer of a structured field has at most 15 digits.
        (&[("ratelimit", b"\"a\";r=1000000000000000")], vec![]),
        // A malformed field is ignored as a whole.
        (&[("ratelimit", b"\"a\";r=5,")], vec![]),
        (&[("ratelimit", b"\"a;r=5")], vec![]),
        (&[("ratelimit", b"\"a\";r=5 \"b\";r=6")], vec![]),
        (&[("ratelimit", b"\"\xc3\xa9\";r=5")], vec![]),
        (&[("ratelimit", b"\"a\";r=5"), ("ratelimit", b"junk\"")], vec![]),
        // draft-7
        (&[("ratelimit", b"limit=10, remaining=9, reset=60")], vec![limit("", 9, Some(60))]),
        (&[("ratelimit", b"limit=10, remaining=9")], vec![limit("", 9, None)]),
        (&[("ratelimit", b"limit=10"), ("ratelimit", b"remaining=9, reset=60")], vec![limit("", 9, Some(60))]),
        (&[("ratelimit", b"limit=10, reset=60")], vec![]),
        // draft-6
        (&[("ratelimit-remaining", b"9"), ("ratelimit-reset", b"60")], vec![limit("", 9, Some(60))]),
        (&[("ratelimit-remaining", b"9")], vec![limit("", 9, None)]),
        (&[("ratelimit-reset", b"60")], vec![]),
        // The different meanings of X-RateLimit-Reset.
        (&[("x-ratelimit-remaining", b"9"), ("x-ratelimit-reset", b"60")], vec![limit("", 9, Some(60))]),
        (&[("x-ratelimit-remaining", b"9"), ("x-ratelimit-reset", b"1790000030")], vec![limit("", 9, Some(30))]),
        (&[("x-ratelimit-remaining", b"9"), ("x-ratelimit-reset", b"1789999999")], vec![limit("", 9, Some(0))]),
        (&[("x-ratelimit-remaining", b"9"), ("x-ratelimit-reset", b"1790000030000")], vec![limit("", 9, Some(30))]),
        (&[("x-ratelimit-remaining", b"9"), ("x-ratelimit-reset", b"6m0s")], vec![limit("", 9, None)]),
        (&[("x-ratelimit-remaining", b"9.5"), ("x-ratelimit-reset", b"60")], vec![]),
        (&[("x-ratelimit-remaining", b"-9"), ("x-ratelimit-reset", b"60")], vec![]),
        (&[("x-ratelimit-remaining", b"9"), ("x-ratelimit-remaining", b"8")], vec![]),
        // A service that uses several dialects reports the same in each: the first valid one is used.
        (&[("x-ratelimit-remaining", b"9"), ("ratelimit", b"\"a\";r=8")], vec![limit("a", 8, None)]),
        (&[("x-ratelimit-remaining", b"9"), ("ratelimit-remaining", b"7")], vec![limit("", 7, None)]),
        (&[("x-ratelimit-remaining", b"9"), ("ratelimit", b"junk\"")], vec![limit("", 9, None)]),
        // From a cache.
        (&[("ratelimit", b"\"a\";r=8"), ("age", b"3")], vec![]),
    ];
    for (lines, limits) in rows {
        let shown: Vec<_> = lines.iter().map(|(name, value)| (name, String::from_utf8_lossy(value))).collect();
        assert_eq!(read(lines).limits, limits, "{shown:?}");
    }
}

#[test]
fn long_and_repeated_fields_are_ignored() {
    let members = |count: usize| (0..count).map(|place| format!("\"l{place}\";r=1")).collect::<Vec<_>>().join(", ");
    assert_eq!(read(&[("ratelimit", members(MAX_LIMITS).as_bytes())]).limits.len(), MAX_LIMITS);
    assert_eq!(read(&[("ratelimit", members(500).as_bytes())]).limits.len(), MAX_LIMITS);
    let name = |length: usize| format!("\"{}\";r=1", "n".repeat(length));
    assert_eq!(read(&[("ratelimit", name(MAX_BYTES - 8).as_bytes())]).limits.len(), 1);
    assert_eq!(read(&[("ratelimit", name(MAX_BYTES - 7).as_bytes())]).limits, []);
    let line = name(1_000);
    let lines = |count: usize| vec![("ratelimit", line.as_bytes()); count];
    assert_eq!(read(&lines(16)).limits.len(), 16);
    assert_eq!(read(&lines(17)).limits, []);
    let digits = "1".repeat(65);
    assert_eq!(
        read(&[("retry-after", digits.as_bytes()), ("ratelimit-remaining", digits.as_bytes())]),
        UpstreamLimits::default()
    );
}

#[test]
fn a_wait_added_to_the_time_does_not_overflow() {
    for value in ["18446744073709551615", "999999999999999", "9007199254740993", "1790000000000"] {
        let parsed = read(&[
            ("ratelimit-remaining", b"0"),
            ("ratelimit-reset", value.as_bytes()),
            ("retry-after", value.as_bytes()),
        ]);
        assert!(parsed.retry_after.unwrap() <= MAX_TIME && parsed.limits[0].wait.unwrap() <= MAX_TIME, "{value}");
        assert!(now().checked_add(parsed.retry_after.unwrap()).is_some());
    }
}

/// No hostile bytes cause a panic, and the results are within the bounds.
#[test]
fn random_bytes_cause_no_panic() {
    let pieces: [&[u8]; 22] = [
        b"\"",
        b"\\",
        b";r=",
        b";t=",
        b"9",
        b"0",
        b", ",
        b",",
        b"=",
        b"limit",
        b"remaining=",
        b"reset=",
        b"-",
        b"(",
        b")",
        b":",
        b"\xff",
        b"\xc3\xa9",
        b" ",
        b"?1",
        b"99999999999999999999",
        b"Mon, 21 Sep 2026 14:13:50 GMT",
    ];
    let names = [
        "ratelimit",
        "retry-after",
        "ratelimit-remaining",
        "ratelimit-reset",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ];
    for seed in 0..30_000u64 {
        let mut rng = Rng::new(seed);
        let mut headers = HeaderMap::new();
        for _ in 0..rng.below(5) {
            let mut value = if rng.one_in(2) { b"\"a\";r=5;t=7, \"b\";r=1".to_vec() } else { Vec::new() };
            for _ in 0..rng.below(12) {
                let place = rng.index(value.len() + 1);
                if rng.one_in(3) && place < value.len() {
                    value[place] = rng.next_u64() as u8;
                } else {
                    value.splice(place..place, rng.pick(&pieces).iter().copied());
                }
            }
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(rng.pick(&names), value);
            }
        }
        let parsed = parse_upstream_limits(&headers, now());
        assert!(parsed.limits.len() <= MAX_LIMITS, "seed {seed}");
        assert!(parsed.retry_after.is_none_or(|wait| wait <= MAX_TIME), "seed {seed}");
        assert!(parsed.limits.iter().all(|limit| limit.wait.is_none_or(|wait| wait <= MAX_TIME)), "seed {seed}");
        assert!(parsed.limits.iter().all(|limit| limit.name.len() <= MAX_BYTES), "seed {seed}");
    }
}

/// The fields that Tollgate writes can be parsed.
#[test]
fn written_fields_are_parsed() {
    use crate::{DecisionReport, HeaderDialect, HeaderFields};
    use tollgate_kernel::{KeyState, Policy, Request, Timestamp};
    let policy: Policy = "1/5s name=a, 100/h name=b".parse().unwrap();
    let (mut key, at) = (KeyState::default(), Timestamp::saturating(1_790_000_000_000_000));
    let _ = key.decide_full(&policy, at, &Request::ONE);
    let (decision, details) = key.decide_full(&policy, at, &Request::ONE);
    for (name, dialect) in HeaderDialect::NAMED {
        let mut headers = HeaderMap::new();
        let report = DecisionReport { policy: &policy, decision: &decision, details: &details };
        HeaderFields::new([dialect]).write(&report, &mut headers);
        let read = parse_upstream_limits(&headers, now());
        let expected = match name {
            "draft-10" | "draft-8" => vec![limit("a", 0, Some(5)), limit("b", 99, None)],
            _ => vec![limit("", 0, Some(5))],
        };
        assert_eq!(read.limits, expected, "{name}");
        let after = (name != "pluglimit").then_some(Duration::from_secs(5));
        assert_eq!(read.retry_after, after, "{name}");
    }
}
