//! Tests of several keys, all or none, under policies with rules.

use tollgate_kernel::{Cost, JointDecision, Micros, Wait};

use super::{EngineFixture, tested};
use crate::{DecidingRule, EngineAnswer, EngineQuestion, QuestionPart};

async fn all(tested: &EngineFixture, parts: &[(&str, &str, u64)]) -> (JointDecision, Vec<DecidingRule>) {
    let part = |(policy, key, cost): &(&str, &str, u64)| QuestionPart {
        known: tested.engine.policy(policy.as_bytes(), None).unwrap(),
        key: (*key).into(),
        cost: Cost::new(*cost).unwrap(),
    };
    match tested.engine.answer(&EngineQuestion::All(parts.iter().map(part).collect())).await.unwrap() {
        EngineAnswer::Together(together, verdicts) => (together, verdicts.iter().map(|verdict| verdict.rule).collect()),
        other => panic!("{other:?}"),
    }
}

const YAML: &str = "policies:\n  user: {limit: 5/min, allow: [free], deny: [bad], overrides: [{key: vip, limit: 50/min}], \
                    ban: 10s after 2/min refusals}\n  team: 9/min\n  shown: {limit: 1/min, shadow: true}\n";

#[tokio::test]
async fn rules_take_part() {
    let tested = tested(YAML);
    let (together, rules) =
        all(&tested, &[("user", "a", 2), ("team", "t", 2), ("user", "free", 99), ("user", "vip", 20)]).await;
    assert!(together.allowed && together.retry_after == Wait::NONE);
    assert_eq!(rules, [DecidingRule::Policy, DecidingRule::Policy, DecidingRule::Allow, DecidingRule::Override]);
    let granted: Vec<u64> = together.decisions.iter().map(|decision| decision.granted).collect();
    let charged: Vec<u64> = together.decisions.iter().map(|decision| decision.charged).collect();
    assert_eq!((granted, charged), (vec![2, 2, 99, 20], vec![2, 2, 0, 20]));
    // A part that is refused by a list refuses all, and nothing is charged.
    let (together, rules) = all(&tested, &[("user", "a", 1), ("user", "bad", 1), ("shown", "s", 1)]).await;
    assert_eq!((together.allowed, together.retry_after), (false, Wait::Never));
    assert_eq!(rules, [DecidingRule::Policy, DecidingRule::Deny, DecidingRule::Policy]);
    let fits: Vec<bool> = together.decisions.iter().map(|decision| decision.allowed).collect();
    assert_eq!(fits, [true, false, true], "which of them fit by themselves");
    assert!(together.decisions.iter().all(|decision| decision.granted == 0 && decision.charged == 0));
    assert_eq!(tested.peek("user", "a").await.decision.remaining, 3);
    assert_eq!(tested.peek("shown", "s").await.decision.remaining, 1);
}

#[tokio::test]
async fn shadow_stands_in_nobodys_way() {
    let tested = tested(YAML);
    for remaining in [8, 7, 6] {
        let (together, _) = all(&tested, &[("team", "t", 1), ("shown", "s", 1)]).await;
        assert!(
            together.allowed && together.decisions.iter().all(|decision| decision.allowed && decision.granted == 1)
        );
        assert_eq!(together.decisions[0].remaining, remaining);
    }
    assert_eq!(tested.metric(r#"tollgate_rule_decisions_total{policy="shown",rule="shadow"}"#), 2.);
    // It is not charged if the others do not pass.
    let (together, _) = all(&tested, &[("team", "t", 9), ("shown", "x", 1)]).await;
    assert!(!together.allowed);
    assert_eq!(tested.peek("shown", "x").await.decision.remaining, 1);
}

#[tokio::test]
async fn refusals_bring_bans_and_bans_refuse() {
    let tested = tested(YAML);
    for _ in 0..2 {
        let (together, rules) = all(&tested, &[("team", "t", 1), ("user", "a", 6)]).await;
        assert_eq!((together.allowed, rules), (false, vec![DecidingRule::Policy, DecidingRule::Policy]));
    }
    let (together, rules) = all(&tested, &[("team", "t", 1), ("user", "a", 1)]).await;
    assert_eq!((together.allowed, together.retry_after), (false, Wait::After(Micros::from_secs(10))));
    assert_eq!(rules, [DecidingRule::Policy, DecidingRule::Ban]);
    assert_eq!(tested.peek("team", "t").await.decision.remaining, 9);
    tested.clock.advance(Micros::from_secs(10));
    assert!(all(&tested, &[("team", "t", 1), ("user", "a", 1)]).await.0.allowed);
}

#[tokio::test]
async fn a_key_is_there_once() {
    let tested = tested(YAML);
    let part = |policy: &str| QuestionPart {
        known: tested.engine.policy(policy.as_bytes(), None).unwrap(),
        key: "free".into(),
        cost: Cost::ONE,
    };
    let parts = vec![part("team"), part("user"), part("user")];
    let error = tested.engine.answer(&EngineQuestion::All(parts)).await.unwrap_err().text;
    assert!(error.contains("items 2 and 3"), "{error}");
}
