//! Combined dialects, windows below a second, large numbers, missing details, jitter.

use http::{HeaderMap, HeaderName};
use tollgate_kernel::{EXACT, Limit, Micros, Options, Policy, Request, Wait};

use super::{DecisionCase, S, decided, lines};
use crate::dialect::{HeaderDialect, HeaderNames, Reset};
use crate::fields::HeaderFields;

fn refused() -> DecisionCase {
    decided("2/5s name=short, 100/h", &[(0, 2), (1_500_000, 1)])
}

#[test]
fn an_empty_selection_writes_no_field() {
    assert_eq!(lines(&HeaderFields::none(), &refused()), "");
    assert_eq!(lines(&HeaderFields::new([]), &refused()), "retry-after: 4");
    assert!(!lines(&HeaderFields::default().without_retry_after(), &refused()).contains("retry-after"));
}

#[test]
fn a_field_of_two_dialects_is_written_by_the_earlier_one() {
    let fields = HeaderFields::new([
        HeaderDialect::Draft10,
        HeaderDialect::Draft8,
        HeaderDialect::Draft7,
        HeaderDialect::Draft6,
    ]);
    assert_eq!(
        lines(&fields, &decided("10/min", &[(0, 1)])),
        "ratelimit-policy: \"10/min\";q=10;w=60\nratelimit: \"10/min\";r=9;t=60\n\
         ratelimit-limit: 10\nratelimit-remaining: 9\nratelimit-reset: 60"
    );
    // A dictionary and a list in the same field would make each other invalid.
    let fields = HeaderFields::new([HeaderDialect::Draft7, HeaderDialect::Draft10]);
    assert_eq!(
        lines(&fields, &decided("10/min", &[(0, 1)])),
        "ratelimit: limit=10, remaining=9, reset=60\nratelimit-policy: 10;w=60"
    );
    let own = HeaderNames::new()
        .remaining(HeaderName::from_static("x-ratelimit-remaining"))
        .limit(HeaderName::from_static("x-l"));
    let fields = HeaderFields::new([
        HeaderDialect::Envoy,
        HeaderDialect::XRateLimit(Reset::Unix),
        HeaderDialect::Plug,
        HeaderDialect::Names(own),
    ]);
    assert_eq!(
        lines(&fields, &decided("10/min", &[(0, 1)])),
        "x-ratelimit-limit: 10, 10;w=60;name=\"10/min\"\nx-ratelimit-remaining: 9\nx-ratelimit-reset: 60\nx-l: 10"
    );
}

#[test]
fn windows_below_a_second_are_left_out_and_waits_rounded_up() {
    let quick = decided("5/100ms", &[(0, 1)]);
    assert_eq!(
        lines(&HeaderFields::default(), &quick),
        "ratelimit-policy: \"5/100ms\";q=5\nratelimit: \"5/100ms\";r=4;t=1"
    );
    let in_dialect = |dialect| lines(&HeaderFields::new([dialect]), &quick);
    assert_eq!(in_dialect(HeaderDialect::Draft7), "ratelimit: limit=5, remaining=4, reset=1\nratelimit-policy: 5");
    assert!(in_dialect(HeaderDialect::Envoy).starts_with("x-ratelimit-limit: 5, 5;name=\"5/100ms\"\n"));
    let uneven = decided("5/1500ms", &[(0, 1)]);
    assert!(lines(&HeaderFields::default(), &uneven).starts_with("ratelimit-policy: \"5/1500ms\";q=5;w=2\n"));
}

#[test]
fn numbers_that_are_too_great_are_clamped() {
    let limit = Limit::build("gcra", EXACT, Micros::from_secs(60), &Options::default()).unwrap();
    let policy = Policy::new(vec![limit.named("great").unwrap()]).unwrap();
    let (decision, details) = tollgate_kernel::KeyState::default().decide_full(
        &policy,
        tollgate_kernel::Timestamp::saturating(S),
        &Request::ONE,
    );
    let great = DecisionCase { policy, decision, details };
    let most = "999999999999999";
    assert_eq!(
        lines(&HeaderFields::default(), &great),
        format!("ratelimit-policy: \"great\";q={most};w=60\nratelimit: \"great\";r={most};t=1")
    );
    assert!(
        lines(&HeaderFields::new([HeaderDialect::Draft7]), &great)
            .starts_with(&format!("ratelimit: limit={most}, remaining={most}"))
    );
}

#[test]
fn a_negative_remainder_is_written_as_0() {
    let policy: Policy = "2/min".parse().unwrap();
    let policy = policy.with_mode(tollgate_kernel::Mode::Uniform);
    let mut key = tollgate_kernel::KeyState::default();
    let at = tollgate_kernel::Timestamp::saturating(S);
    let _ = key.decide_full(&policy, at, &Request::cost(tollgate_kernel::Cost::new(9).unwrap()));
    let (decision, details) = key.decide_full(&policy, at, &Request::ONE);
    assert!(decision.remaining < 0);
    let below = DecisionCase { policy, decision, details };
    let fields = HeaderFields::new([HeaderDialect::Draft10, HeaderDialect::Draft6]).exact();
    let lines = lines(&fields, &below);
    assert!(lines.contains("ratelimit: \"2/min\";r=0") && lines.contains("ratelimit-remaining: 0"), "{lines}");
    assert!(lines.contains("tollgate-remaining: -"), "{lines}");
}

#[test]
fn one_limit_needs_no_details() {
    for requests in [&[(0, 1)][..], &[(0, 10), (1_500_000, 1)], &[(0, 11)]] {
        let with = decided("10/min", requests);
        let without = DecisionCase { details: Vec::new(), ..with.clone() };
        for (name, dialect) in HeaderDialect::NAMED {
            let fields = HeaderFields::new([dialect]).exact();
            assert_eq!(lines(&fields, &with), lines(&fields, &without), "{name}");
        }
        assert_eq!(crate::problem(&with.report()), crate::problem(&without.report()));
    }
}

#[test]
fn several_limits_without_details_have_only_their_policy() {
    let without = DecisionCase { details: Vec::new(), ..refused() };
    let fields = HeaderFields::new([HeaderDialect::Draft10, HeaderDialect::Draft6, HeaderDialect::Plug]);
    assert_eq!(lines(&fields, &without), "ratelimit-policy: \"short\";q=2;w=5, \"100/h\";q=100;w=3600\nretry-after: 4");
    let problem = String::from_utf8(crate::problem(&without.report())).unwrap();
    assert!(problem.contains("\"violated-policies\":[\"short\"]"), "{problem}");
}

#[test]
fn the_tightest_has_the_least_left_then_the_longest_wait() {
    let limit = |decided: &DecisionCase| {
        let lines = lines(&HeaderFields::new([HeaderDialect::Draft6]).without_retry_after(), decided);
        lines.lines().next().unwrap().to_owned()
    };
    assert_eq!(limit(&decided("10/min, 5/h", &[(0, 1)])), "ratelimit-limit: 5");
    assert_eq!(limit(&decided("5/min, 5/h gcra burst=5, 6/h", &[(0, 1)])), "ratelimit-limit: 5");
    let equal = decided("5/min, 5/h", &[(0, 1)]);
    assert!(lines(&HeaderFields::new([HeaderDialect::Draft6]), &equal).contains("ratelimit-reset: 3600"));
    // In a refusal, the tightest limit is one that refuses, however much it has left.
    let spaced = decided("100/min spacing=10s, 5/h", &[(0, 1), (1_000_000, 1)]);
    assert!(!spaced.decision.allowed);
    assert_eq!(limit(&spaced), "ratelimit-limit: 100");
    assert!(lines(&HeaderFields::default(), &spaced).contains("r=0;t=9, \"5/h\";r=4\nretry-after: 9"));
}

#[test]
fn retry_after_is_never_before_what_a_limit_says() {
    // No store in this workspace makes such a decision; others may.
    let mut strange = refused();
    strange.decision.retry_after = Wait::After(Micros::from_secs(1));
    assert!(lines(&HeaderFields::default(), &strange).ends_with("t=4, \"100/h\";r=98\nretry-after: 4"));
}

#[test]
fn a_decision_of_another_policy_is_written_too() {
    let prepared = HeaderFields::default().prepare(&"10/min".parse().unwrap());
    for text in ["10/min", "11/min", "10/h", "10/min, 9/h", "10/min name=x"] {
        let other = decided(text, &[(0, 1)]);
        let (mut written, mut expected) = (HeaderMap::new(), HeaderMap::new());
        prepared.write(&other.report(), &mut written);
        HeaderFields::default().write(&other.report(), &mut expected);
        assert_eq!(written, expected, "{text}");
        assert!(
            written["ratelimit-policy"]
                .to_str()
                .unwrap()
                .starts_with(&format!("\"{}\"", other.policy.limits()[0].name()))
        );
    }
}

#[test]
fn jitter_extends_all_waits_of_a_response_by_the_same_factor() {
    let hour = decided("2/h name=short, 100/d", &[(0, 2), (1_500_000, 1)]);
    let prepared =
        HeaderFields::new([HeaderDialect::Draft10, HeaderDialect::Draft6]).exact().jitter(10).prepare(&hour.policy);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let mut headers = HeaderMap::new();
        prepared.write(&hour.report(), &mut headers);
        let retry_after: u64 = headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((3_599..=3_599 + 359).contains(&retry_after), "{retry_after}");
        assert_eq!(headers["ratelimit"], format!("\"short\";r=0;t={retry_after}, \"100/d\";r=98"));
        assert_eq!(headers["ratelimit-reset"], retry_after.to_string());
        assert_eq!(headers["tollgate-retry-after-us"], "3598500000", "exact figures stay exact");
        seen.insert(retry_after);
    }
    assert!(seen.len() > 50, "{seen:?}");
    assert!(lines(&HeaderFields::default().jitter(0), &hour).ends_with("retry-after: 3599"));
}
