//! Every dialect, byte for byte: one window, two windows, a bucket that is filled, empty, and refuses.

use http::HeaderName;

use super::{DecisionCase, START, decided, lines};
use crate::dialect::{HeaderDialect, HeaderNames, Reset};
use crate::fields::HeaderFields;

/// 15 in 60 seconds, 3 at once: the example of PlugLimit, with a token every 5 seconds.
const BUCKET: &str = "15/min bucket burst=3 name=bucket";
const TWO: &str = "10/min name=permin, 100/h name=perhr";

fn one_window() -> DecisionCase {
    decided("10/min fixed name=default", &[(0, 1)])
}

/// Half an hour after the first charge of the hourly window.
fn two_windows() -> DecisionCase {
    decided(&TWO.replace("/h", "/h fixed"), &[(0, 10), (600_000_000, 10), (1_800_000_000, 1)])
}

fn bucket_filled() -> DecisionCase {
    decided(BUCKET, &[(0, 1)])
}

fn bucket_empty() -> DecisionCase {
    decided(BUCKET, &[(0, 1), (0, 1), (0, 1)])
}

/// A partial token counts.
fn bucket_refused() -> DecisionCase {
    decided(BUCKET, &[(0, 3), (1_500_000, 1)])
}

/// Refused by the first of two limits.
fn two_refused() -> DecisionCase {
    decided("2/5s name=short, 100/h", &[(0, 2), (1_500_000, 1)])
}

fn never() -> DecisionCase {
    decided("10/min name=default", &[(0, 11)])
}

fn all() -> [DecisionCase; 7] {
    [one_window(), two_windows(), bucket_filled(), bucket_empty(), bucket_refused(), two_refused(), never()]
}

fn check(fields: &HeaderFields, expected: [&str; 7]) {
    for (decided, expected) in all().iter().zip(expected) {
        assert_eq!(lines(fields, decided), expected, "{fields:?} {decided:?}");
    }
}

fn in_dialect(name: &str) -> HeaderFields {
    HeaderFields::new([HeaderDialect::from_name(name).unwrap()])
}

#[test]
fn draft_10_and_8() {
    for fields in [HeaderFields::default(), in_dialect("draft-10"), in_dialect("draft-8")] {
        check(
            &fields,
            [
                "ratelimit-policy: \"default\";q=10;w=60\nratelimit: \"default\";r=9;t=60",
                "ratelimit-policy: \"permin\";q=10;w=60, \"perhr\";q=100;w=3600\n\
                 ratelimit: \"permin\";r=9;t=60, \"perhr\";r=79;t=1800",
                "ratelimit-policy: \"bucket\";q=15;w=60\nratelimit: \"bucket\";r=14;t=60",
                "ratelimit-policy: \"bucket\";q=15;w=60\nratelimit: \"bucket\";r=0;t=5",
                "ratelimit-policy: \"bucket\";q=15;w=60\nratelimit: \"bucket\";r=0;t=4\nretry-after: 4",
                "ratelimit-policy: \"short\";q=2;w=5, \"100/h\";q=100;w=3600\n\
                 ratelimit: \"short\";r=0;t=4, \"100/h\";r=98\nretry-after: 4",
                "ratelimit-policy: \"default\";q=10;w=60\nratelimit: \"default\";r=10",
            ],
        );
    }
}

#[test]
fn draft_7() {
    check(
        &in_dialect("draft-7"),
        [
            "ratelimit: limit=10, remaining=9, reset=60\nratelimit-policy: 10;w=60",
            "ratelimit: limit=10, remaining=9, reset=60\nratelimit-policy: 10;w=60, 100;w=3600",
            "ratelimit: limit=15, remaining=14, reset=60\nratelimit-policy: 15;w=60",
            "ratelimit: limit=15, remaining=12, reset=60\nratelimit-policy: 15;w=60",
            "ratelimit: limit=15, remaining=12, reset=4\nratelimit-policy: 15;w=60\nretry-after: 4",
            "ratelimit: limit=2, remaining=0, reset=4\nratelimit-policy: 2;w=5, 100;w=3600\nretry-after: 4",
            "ratelimit: limit=10, remaining=10, reset=0\nratelimit-policy: 10;w=60",
        ],
    );
}

#[test]
fn draft_6() {
    let three = |limit, remaining, reset, policy| {
        format!(
            "ratelimit-limit: {limit}\nratelimit-remaining: {remaining}\nratelimit-reset: {reset}\nratelimit-policy: {policy}"
        )
    };
    check(
        &in_dialect("draft-6"),
        [
            &three(10, 9, 60, "10;w=60"),
            &three(10, 9, 60, "10;w=60, 100;w=3600"),
            &three(15, 14, 60, "15;w=60"),
            &three(15, 12, 60, "15;w=60"),
            &three(15, 12, 4, "15;w=60\nretry-after: 4"),
            &three(2, 0, 4, "2;w=5, 100;w=3600\nretry-after: 4"),
            &three(10, 10, 0, "10;w=60"),
        ],
    );
}

/// Returns the `x-ratelimit-*` fields of limit, remaining and reset, followed by `rest`.
fn x(limit: &str, remaining: u64, reset: u64, rest: &str) -> String {
    format!("x-ratelimit-limit: {limit}\nx-ratelimit-remaining: {remaining}\nx-ratelimit-reset: {reset}{rest}")
}

#[test]
fn x_ratelimit_with_seconds_from_now() {
    check(
        &in_dialect("x-ratelimit"),
        [
            &x("10", 9, 60, ""),
            &x("10", 9, 60, ""),
            &x("15", 14, 60, ""),
            &x("15", 12, 60, ""),
            // The time until the initial state, not until a request passes.
            &x("15", 12, 59, "\nretry-after: 4"),
            &x("2", 0, 4, "\nretry-after: 4"),
            &x("10", 10, 0, ""),
        ],
    );
}

#[test]
fn x_ratelimit_with_seconds_since_the_epoch() {
    let start = START / 1_000_000;
    check(
        &in_dialect("x-ratelimit-unix"),
        [
            &x("10", 9, start + 60, ""),
            &x("10", 9, start + 1_860, ""),
            &x("15", 14, start + 60, ""),
            &x("15", 12, start + 60, ""),
            &x("15", 12, start + 60, "\nretry-after: 4"),
            &x("2", 0, start + 5, "\nretry-after: 4"),
            // Rounding up changes nothing: now is a whole second.
            &x("10", 10, start, ""),
        ],
    );
}

#[test]
fn envoy() {
    let two = "10, 10;w=60;name=\"permin\", 100;w=3600;name=\"perhr\"";
    check(
        &in_dialect("envoy"),
        [
            &x("10, 10;w=60;name=\"default\"", 9, 60, ""),
            &x(two, 9, 60, ""),
            &x("15, 15;w=60;name=\"bucket\"", 14, 60, ""),
            &x("15, 15;w=60;name=\"bucket\"", 12, 60, ""),
            &x("15, 15;w=60;name=\"bucket\"", 12, 4, "\nretry-after: 4"),
            &x("2, 2;w=5;name=\"short\", 100;w=3600;name=\"100/h\"", 0, 4, "\nretry-after: 4"),
            &x("10, 10;w=60;name=\"default\"", 10, 0, ""),
        ],
    );
}

#[test]
fn pluglimit() {
    let bucket = "15 15;w=60;burst=3;policy=token_bucket";
    let list = |limit: &str, reset: u64, remaining: u64, rest: &str| {
        format!("x-ratelimit-limit: {limit}\nx-ratelimit-reset: {reset}\nx-ratelimit-remaining: {remaining}{rest}")
    };
    check(
        &in_dialect("pluglimit"),
        [
            &list("10", 60, 9, ""),
            &list("10", 60, 9, ""),
            &list(bucket, 60, 14, ""),
            // Written as soon as the bucket is empty, not only in refusals.
            &list(bucket, 60, 12, "\nretry-after: 5"),
            &list(bucket, 59, 12, "\nretry-after: 4"),
            // A window has no `retry-after`.
            &list("2", 4, 0, ""),
            &list("10", 0, 10, ""),
        ],
    );
    // Together with another dialect, refusals by windows have it too.
    let both = HeaderFields::new([HeaderDialect::Plug, HeaderDialect::Draft10]);
    assert!(lines(&both, &two_refused()).ends_with("retry-after: 4"));
    assert!(lines(&both, &bucket_empty()).contains("retry-after: 5"));
}

#[test]
fn custom_names() {
    let name = HeaderName::from_static;
    let names = HeaderNames::new()
        .limit(name("x-acme-limit"))
        .remaining(name("x-acme-left"))
        .reset(name("x-acme-reset"), Reset::Unix)
        .retry_after(name("x-acme-wait"));
    let fields = HeaderFields::new([HeaderDialect::Names(names)]).without_retry_after();
    let start = START / 1_000_000;
    assert_eq!(
        lines(&fields, &one_window()),
        format!("x-acme-limit: 10\nx-acme-left: 9\nx-acme-reset: {}", start + 60)
    );
    assert_eq!(
        lines(&fields, &two_refused()),
        format!("x-acme-limit: 2\nx-acme-left: 0\nx-acme-reset: {}\nx-acme-wait: 4", start + 5)
    );
    assert_eq!(
        lines(&fields, &never()),
        format!("x-acme-limit: 10\nx-acme-left: 10\nx-acme-reset: {start}"),
        "what never passes has no wait"
    );
    // Each name may be left out.
    let left = HeaderFields::new([HeaderDialect::Names(HeaderNames::new().remaining(name("x-acme-left")))]);
    assert_eq!(lines(&left, &one_window()), "x-acme-left: 9");
    assert_eq!(lines(&HeaderFields::new([HeaderDialect::Names(HeaderNames::new())]), &one_window()), "");
}

#[test]
fn the_exact_figures() {
    assert_eq!(
        lines(&HeaderFields::default().exact(), &two_refused()),
        "ratelimit-policy: \"short\";q=2;w=5, \"100/h\";q=100;w=3600\nratelimit: \"short\";r=0;t=4, \"100/h\";r=98\n\
         tollgate-remaining: 0\ntollgate-retry-after-us: 3500000\ntollgate-source: home\nretry-after: 4"
    );
    assert_eq!(
        lines(&HeaderFields::none().exact(), &never()),
        "tollgate-remaining: 10\ntollgate-retry-after-us: -1\ntollgate-source: home"
    );
}
