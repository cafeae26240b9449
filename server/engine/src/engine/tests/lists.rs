//! Tests of allow, deny, overrides and shadow: what is decided, and in which order.

use tollgate_kernel::{Micros, Mode, Request, Timestamp, Wait};

use super::{START, tested};
use crate::DecidingRule;

#[tokio::test]
async fn an_allowed_key_passes_uncharged_and_sees_how_the_limits_stand() {
    let tested = tested("policies: {login: {limit: 5/min, allow: [\"10.0.0.*\", health]}}");
    for key in ["10.0.0.7", "health"] {
        for _ in 0..9 {
            let verdict = tested.check_cost("login", key, 3).await;
            let decision = verdict.decision;
            assert_eq!(
                (verdict.rule, decision.allowed, decision.granted, decision.charged),
                (DecidingRule::Allow, true, 3, 0)
            );
            assert_eq!((decision.remaining, decision.retry_after, decision.limited_by), (5, Wait::NONE, None));
            assert_eq!(verdict.details.len(), 1);
        }
        // Even a request that could never fit.
        let verdict = tested.check_cost("login", key, 99).await;
        assert_eq!((verdict.decision.allowed, verdict.decision.granted), (true, 99));
    }
    assert_eq!(tested.check("login", "10.0.1.7").await.rule, DecidingRule::Policy);
    assert_eq!(tested.metric(r#"tollgate_rule_decisions_total{policy="login",rule="allow"}"#), 20.);
    assert_eq!(tested.metric(r#"tollgate_decisions_total{policy="login",decision="allowed"}"#), 21.);
}

#[tokio::test]
async fn a_denied_key_is_refused_for_ever_and_charged_nothing() {
    let tested = tested("policies: {login: {limit: 5/min, deny: [\"tor:*\"]}}");
    for request in [Request::ONE, Request::ONE.peek(), Request::ONE.mode(Mode::Uniform)] {
        let verdict = tested.ask("login", "tor:1", request).await;
        let decision = verdict.decision;
        assert_eq!(
            (verdict.rule, decision.allowed, decision.granted, decision.charged),
            (DecidingRule::Deny, false, 0, 0)
        );
        assert_eq!((decision.remaining, decision.retry_after, decision.limited_by), (0, Wait::Never, None));
        assert_eq!((decision.reset_after, decision.at.get()), (Micros::ZERO, START));
        // The limits are as if the key had never been used.
        assert_eq!(verdict.details[0].remaining, 5);
    }
    assert_eq!(tested.metric(r#"tollgate_rule_decisions_total{policy="login",rule="deny"}"#), 2., "peeks do not count");
}

#[tokio::test]
async fn allow_goes_before_deny_before_override_before_policy() {
    let tested = tested(
        "allow: [monitoring]\ndeny: [\"bad:*\"]\npolicies:\n  login:\n    limit: 5/min\n    allow: [\"bad:but-ours\", vip:1]\n    \
         deny: [vip:1, vip:2]\n    overrides: [{key: \"vip:*\", limit: 100/min}]\n  other: 7/min\n",
    );
    for (policy, key, rule, remaining) in [
        ("login", "monitoring", DecidingRule::Allow, 5),
        ("login", "bad:1", DecidingRule::Deny, 0),
        ("login", "bad:but-ours", DecidingRule::Allow, 5),
        // A key in both lists, with an override: the limits of the override are reported.
        ("login", "vip:1", DecidingRule::Allow, 100),
        ("login", "vip:2", DecidingRule::Deny, 0),
        ("login", "vip:3", DecidingRule::Override, 99),
        ("login", "user:1", DecidingRule::Policy, 4),
        ("other", "monitoring", DecidingRule::Allow, 7),
        ("other", "bad:1", DecidingRule::Deny, 0),
        ("other", "bad:but-ours", DecidingRule::Deny, 0),
        ("other", "vip:2", DecidingRule::Policy, 6),
    ] {
        let verdict = tested.check(policy, key).await;
        assert_eq!((verdict.rule, verdict.decision.remaining), (rule, remaining), "{policy} {key}");
    }
}

#[tokio::test]
async fn the_first_override_that_matches_and_has_not_ended_counts() {
    let tested = tested(
        "policies:\n  login:\n    limit: 5/min\n    overrides:\n      - {key: \"a*\", limit: 10/min, until: 2026-09-21T14:14:20Z}\n      \
         - {key: ab, limit: 20/min}\n      - {key: \"*b\", limit: 30/min}\n      - {key: ac, limit: 40/min, until: 2026-09-22}\n",
    );
    let remaining = async |key: &str| tested.peek("login", key).await.decision.remaining;
    let all = async || (remaining("ab").await, remaining("ac").await, remaining("xb").await, remaining("c").await);
    assert_eq!(all().await, (10, 10, 30, 5));
    tested.clock.advance(Micros::new(59_999_999));
    assert_eq!(all().await, (10, 10, 30, 5), "its last microsecond");
    tested.clock.advance(Micros::new(1));
    assert_eq!(all().await, (20, 40, 30, 5));
    // A date ends with its day.
    let midnight = 1_790_035_200_000_000;
    tested.clock.set(Timestamp::new(midnight + 86_400_000_000 - 1).unwrap());
    assert_eq!(remaining("ac").await, 40);
    tested.clock.advance(Micros::new(1));
    assert_eq!(remaining("ac").await, 5);
    // Ends are calendar dates, so the machine's clock applies.
    tested.clock.set_wall(Timestamp::new(START).unwrap());
    assert_eq!(remaining("ac").await, 10);
}

#[tokio::test]
async fn what_was_consumed_counts_on_under_an_override() {
    let tested =
        tested("policies: {login: {limit: 5/min, overrides: [{key: vip, limit: 8/min, until: 2026-09-21T14:13:21Z}]}}");
    assert_eq!(tested.check_cost("login", "vip", 4).await.decision.remaining, 4);
    tested.clock.advance(Micros::from_secs(1));
    assert_eq!(tested.check("login", "vip").await.decision.remaining, 0, "of five, four were consumed before");
    assert!(!tested.check("login", "vip").await.decision.allowed);
    let other = super::tested("policies: {login: {limit: 5/min, overrides: [{key: vip, limit: \"8/min, 9/h\"}]}}");
    other.check_cost("login", "vip", 8).await;
    let refused = other.check("login", "vip").await;
    assert_eq!((refused.rule, refused.decision.limited_by), (DecidingRule::Override, Some(0)));
    assert_eq!(other.metric(r#"tollgate_denied_total{policy="login",limit="override"}"#), 1.);
    other.reset("login", "vip").await;
    assert_eq!(other.peek("login", "vip").await.decision.remaining, 8, "a reset forgets it under both");
    assert_eq!(other.metric(r#"tollgate_rule_decisions_total{policy="login",rule="override"}"#), 2.);
}

#[tokio::test]
async fn shadow_decides_charges_and_refuses_nobody() {
    let tested = tested("policies: {login: {limit: 2/min, shadow: true, deny: [bad]}}");
    for (number, remaining) in [(1, 1), (2, 0)] {
        let verdict = tested.check("login", "a").await;
        assert_eq!((verdict.rule, verdict.decision.remaining), (DecidingRule::Policy, remaining), "{number}");
    }
    let verdict = tested.check_cost("login", "a", 3).await;
    let decision = verdict.decision;
    assert_eq!(
        (verdict.rule, decision.allowed, decision.granted, decision.charged),
        (DecidingRule::Shadow, true, 3, 0)
    );
    assert_eq!((decision.retry_after, decision.limited_by, decision.remaining), (Wait::NONE, Some(0), 0));
    // Nary: a partial grant becomes a full one.
    tested.clock.advance(Micros::from_secs(60));
    let three = Request { mode: Some(Mode::Nary), ..Request::cost(tollgate_kernel::Cost::new(3).unwrap()) };
    let verdict = tested.ask("login", "a", three).await;
    assert_eq!((verdict.rule, verdict.decision.granted, verdict.decision.charged), (DecidingRule::Shadow, 3, 2));
    // Uniform charges what it refuses, in shadow mode too.
    let verdict = tested.ask("login", "b", Request { mode: Some(Mode::Uniform), ..three }).await;
    assert_eq!((verdict.rule, verdict.decision.charged, verdict.decision.allowed), (DecidingRule::Shadow, 3, true));
    // A list that refuses is shadowed in the same way as the limits.
    let verdict = tested.check("login", "bad").await;
    assert_eq!((verdict.rule, verdict.decision.allowed, verdict.decision.charged), (DecidingRule::Shadow, true, 0));
    assert_eq!(tested.metric(r#"tollgate_rule_decisions_total{policy="login",rule="shadow"}"#), 4.);
    assert_eq!(tested.metric(r#"tollgate_decisions_total{policy="login",decision="denied"}"#), 0.);
    assert_eq!(tested.metric(r#"tollgate_denied_total{policy="login",limit="2/min"}"#), 3.);
}

#[tokio::test]
async fn ten_thousand_keys_of_a_list_are_found() {
    let keys: Vec<String> = (0..10_000).map(|number| format!("k{number}")).collect();
    let tested = tested(&format!("policies: {{login: {{limit: 5/min, deny: [{}]}}}}", keys.join(", ")));
    for key in ["k0", "k4711", "k9999"] {
        assert_eq!(tested.check("login", key).await.rule, DecidingRule::Deny);
    }
    assert_eq!(tested.check("login", "k10000").await.rule, DecidingRule::Policy);
}
