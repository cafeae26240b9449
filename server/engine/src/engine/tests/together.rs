//! Tests of several keys, all or none, under policies with rules.

use tollgate_kernel::{Cost, Micros, Together, Wait};

use super::{Tested, tested};
use crate::{Answer, Part, Question, Rule};

async fn all(tested: &Tested, parts: &[(&str, &str, u64)]) -> (Together, Vec<Rule>) {
    let part = |(policy, key, cost): &(&str, &str, u64)| Part {
        known: tested.engine.policy(policy.as_bytes(), None).unwrap(),
        key: (*key).into(),
        cost: Cost::new(*cost).unwrap(),
    };
    match tested.engine.answer(&Question::All(parts.iter().map(part).collect())).await.unwrap() {
        Answer::Together(together, verdicts) => (together, verdicts.iter().map(|verdict| verdict.rule).collect()),
        other => panic!("{other:?}"),
    }
}

const YAML: &str = "policies:\n  user: {limit: 5/min, allow: [free], deny: [bad], overrides: [{key: vip, limit: 50/min}], \
                    ban: 10s after 2/min refusals}\n  team: 9/min\n  shown: {limit: 1/min, shadow: true}\n";

#[tokio::test]
async fn rules_take_part() {
    let tested = tested(YAML);
    let (told, rules) =
        all(&tested, &[("user", "a", 2), ("team", "t", 2), ("user", "free", 99), ("user", "vip", 20)]).await;
    assert!(told.allowed && told.retry_after == Wait::NONE);
    assert_eq!(rules, [Rule::Policy, Rule::Policy, Rule::Allow, Rule::Override]);
    let granted: Vec<u64> = told.decisions.iter().map(|decision| decision.granted).collect();
    let charged: Vec<u64> = told.decisions.iter().map(|decision| decision.charged).collect();
    assert_eq!((granted, charged), (vec![2, 2, 99, 20], vec![2, 2, 0, 20]));
    // A part that is refused by a list refuses all, and nothing is charged.
    let (told, rules) = all(&tested, &[("user", "a", 1), ("user", "bad", 1), ("shown", "s", 1)]).await;
    assert_eq!((told.allowed, told.retry_after), (false, Wait::Never));
    assert_eq!(rules, [Rule::Policy, Rule::Deny, Rule::Policy]);
    let fits: Vec<bool> = told.decisions.iter().map(|decision| decision.allowed).collect();
    assert_eq!(fits, [true, false, true], "which of them fit by themselves");
    assert!(told.decisions.iter().all(|decision| decision.granted == 0 && decision.charged == 0));
    assert_eq!(tested.peek("user", "a").await.decision.remaining, 3);
    assert_eq!(tested.peek("shown", "s").await.decision.remaining, 1);
}

#[tokio::test]
async fn shadow_stands_in_nobodys_way() {
    let tested = tested(YAML);
    for remaining in [8, 7, 6] {
        let (told, _) = all(&tested, &[("team", "t", 1), ("shown", "s", 1)]).await;
        assert!(told.allowed && told.decisions.iter().all(|decision| decision.allowed && decision.granted == 1));
        assert_eq!(told.decisions[0].remaining, remaining);
    }
    assert_eq!(tested.metric(r#"tollgate_rule_decisions_total{policy="shown",rule="shadow"}"#), 2.);
    // It is not charged if the others do not pass.
    let (told, _) = all(&tested, &[("team", "t", 9), ("shown", "x", 1)]).await;
    assert!(!told.allowed);
    assert_eq!(tested.peek("shown", "x").await.decision.remaining, 1);
}

#[tokio::test]
async fn refusals_bring_bans_and_bans_refuse() {
    let tested = tested(YAML);
    for _ in 0..2 {
        let (told, rules) = all(&tested, &[("team", "t", 1), ("user", "a", 6)]).await;
        assert_eq!((told.allowed, rules), (false, vec![Rule::Policy, Rule::Policy]));
    }
    let (told, rules) = all(&tested, &[("team", "t", 1), ("user", "a", 1)]).await;
    assert_eq!((told.allowed, told.retry_after), (false, Wait::After(Micros::from_secs(10))));
    assert_eq!(rules, [Rule::Policy, Rule::Ban]);
    assert_eq!(tested.peek("team", "t").await.decision.remaining, 9);
    tested.clock.advance(Micros::from_secs(10));
    assert!(all(&tested, &[("team", "t", 1), ("user", "a", 1)]).await.0.allowed);
}

#[tokio::test]
async fn a_key_is_there_once() {
    let tested = tested(YAML);
    let part = |policy: &str| Part {
        known: tested.engine.policy(policy.as_bytes(), None).unwrap(),
        key: "free".into(),
        cost: Cost::ONE,
    };
    let parts = vec![part("team"), part("user"), part("user")];
    let said = tested.engine.answer(&Question::All(parts)).await.unwrap_err().text;
    assert!(said.contains("items 2 and 3"), "{said}");
}
