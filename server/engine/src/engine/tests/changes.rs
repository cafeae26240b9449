//! Tests of the change from one generation to the next: consumption, counters, and visibility.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate_kernel::Micros;

use super::{config, tested};
use crate::{AdoptionOutcome, DecidingRule};

#[tokio::test]
async fn a_policy_that_stays_keeps_everything_and_one_that_goes_is_unknown() {
    let tested = tested("policies: {a: 5/min, b: {limit: 5/min, ban: 1h after 1/min refusals}, c: 5/min}");
    let first = tested.engine.policy(b"a", None).unwrap();
    for policy in ["a", "b", "c"] {
        tested.check_cost(policy, "k", 5).await;
        tested.check(policy, "k").await;
    }
    let next = config("policies: {a: 5/min, b: {limit: 6/min, ban: 1h after 1/min refusals}, d: 7/min}");
    assert_eq!(tested.engine.adopt(next.clone()).unwrap(), AdoptionOutcome::As(2));
    assert_eq!(tested.engine.adopt(next).unwrap(), AdoptionOutcome::Unchanged);
    assert_eq!(tested.engine.generation().number, 2);
    let second = tested.engine.policy(b"a", None).unwrap();
    assert_eq!((first.generation, second.generation), (1, 2));
    assert!(!tested.engine.policies.is_current(&first) && tested.engine.policies.is_current(&second));
    // A request that holds the old one decides by it, and is counted in the same place.
    let mut decisions = Vec::new();
    tested.engine.check_many(&first, &[b"k"], &tollgate_kernel::Request::ONE, &mut decisions).await.unwrap();
    assert!(!decisions[0].allowed);
    assert_eq!(tested.metric(r#"tollgate_decisions_total{policy="a",decision="denied"}"#), 2.);
    assert_eq!(tested.check("b", "k").await.rule, DecidingRule::Ban, "a ban outlives a change of the limit");
    assert_eq!(tested.check("d", "k").await.decision.remaining, 6);
    let error = tested.engine.policy(b"c", None).unwrap_err().text;
    assert!(error.contains("or a name (a, b, d), found \"c\""), "{error}");
    // Bare text belongs to no generation.
    let bare = tested.engine.policy(b"5/min", None).unwrap();
    assert_eq!(bare.generation, 0);
    tested.engine.adopt(config("policies: {}")).unwrap();
    assert!(
        Arc::ptr_eq(&bare, &tested.engine.policy(b"5/min", None).unwrap()) && tested.engine.policies.is_current(&bare)
    );
}

#[tokio::test]
async fn a_gcra_limit_made_smaller_keeps_what_was_consumed() {
    let tested = tested("policies: {a: 60/min gcra}");
    assert!(tested.check_cost("a", "k", 60).await.decision.allowed);
    tested.clock.advance(Micros::from_secs(10));
    tested.engine.adopt(config("policies: {a: 20/min gcra}")).unwrap();
    let refused = tested.check("a", "k").await.decision;
    let wait = tollgate_kernel::Wait::After(Micros::from_secs(31));
    assert_eq!((refused.allowed, refused.remaining, refused.retry_after), (false, 0, wait));
    tested.clock.advance(Micros::from_secs(31));
    assert!(tested.check("a", "k").await.decision.allowed);
}

#[tokio::test]
async fn what_cannot_be_used_changes_nothing() {
    let tested = tested("policies: {a: 5/min}");
    let mut twice = config("policies: {a: 6/min, b: 1/s}");
    twice.policies.push(Arc::clone(&twice.policies[0]));
    let error = tested.engine.adopt(twice).unwrap_err().to_string();
    assert!(error.contains("policies.a: expected a name of its own"), "{error}");
    let mut beside = config("policies: {a: 6/min}");
    let named = beside.policies[0].policy.clone().with_name("a--refusals").unwrap();
    beside.policies.push(Arc::new(tollgate_config::PolicyEntry::new(named)));
    assert!(tested.engine.adopt(beside).unwrap_err().to_string().contains("without --"));
    assert_eq!(tested.engine.generation().number, 1);
    assert_eq!(tested.check("a", "k").await.decision.remaining, 4);
    // The name of a policy with rules is exclusive.
    tested.engine.adopt(config("policies: {a: {limit: 5/min, deny: [x]}}")).unwrap();
    let error = tested.engine.policy(b"a", Some(b"other")).unwrap_err().text;
    assert!(error.contains("NAME: expected none beside a"), "{error}");
}

/// Stops threads when it is dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Threads check while generations change, a tenth of them invalid.
#[test]
fn a_thousand_reloads_lose_nothing_and_give_nothing_away() {
    const RELOADS: u64 = 1_000;
    const KEYS: u64 = 8;
    // The clock stands still, so a key admits in total as many as the limit's count: `steady` is never changed,
    // `moving` changes between 300 and 200. While its count is 200 it admits only below 200, while it is 300 below 300;
    // a change that refilled a key, or lost its consumption, would admit more than 300 in total. At the end it is 300
    // for long enough for every key to be used up, so each key has admitted exactly 300.
    let yaml = |count: u64, more: u64| {
        let more: String = (0..more).map(|number| format!("\n  extra-{number}: {}/min", number + 1)).collect();
        config(&format!("policies:\n  steady: 300/min\n  moving: {count}/min, {}/h{more}", count * 2))
    };
    let tested = tested("policies: {steady: 300/min, moving: \"300/min, 600/h\"}");
    let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let check = |policy: &str, number: u64| {
        let key = format!("k{}", number % KEYS);
        let known = tested.engine.policy(policy.as_bytes(), None).expect("no request is without a policy");
        let count = known.policy.limits()[0].count();
        // A generation is consistent: both limits of the policy are from the same one.
        assert_eq!(known.policy.limits().get(1).map_or(2 * count, |limit| limit.count()), 2 * count);
        let mut decisions = Vec::new();
        let done =
            tested.engine.check_many_now(&known, &[key.as_bytes()], &tollgate_kernel::Request::ONE, &mut decisions);
        done.unwrap().unwrap();
        if decisions[0].allowed {
            assert!(decisions[0].remaining >= 0 && decisions[0].remaining < count as i64);
        }
        (u64::from(decisions[0].allowed), known.generation)
    };
    let (steady, moving) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3u64)
            .map(|thread| {
                let (check, stop, seen) = (&check, &stop, &seen);
                scope.spawn(move || {
                    let (mut admitted, mut last) = ([0u64; 2], 0);
                    for number in 0u64.. {
                        for (place, policy) in ["steady", "moving"].into_iter().enumerate() {
                            let (allowed, generation) = check(policy, number + thread);
                            admitted[place] += allowed;
                            assert!(generation >= last, "generations do not come back");
                            last = generation;
                        }
                        seen.fetch_max(last, Ordering::Relaxed);
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    admitted
                })
            })
            .collect();
        // Also if an assertion below fails.
        let _stops = StopOnDrop(&stop);
        let mut right = 0;
        for number in 0..RELOADS {
            let before = tested.engine.generation().number;
            if number % 10 == 3 {
                let mut wrong = yaml(100_000, 2);
                wrong.policies.push(Arc::clone(&wrong.policies[0]));
                tested.engine.adopt(wrong).unwrap_err();
                assert_eq!(tested.engine.generation().number, before);
                continue;
            }
            let count = [200, 300][(right % 2) as usize];
            right += 1;
            assert_eq!(tested.engine.adopt(yaml(count, number % 3)).unwrap(), AdoptionOutcome::As(before + 1));
        }
        tested.engine.adopt(yaml(300, 5)).unwrap();
        assert_eq!(tested.engine.generation().number, 1 + right + 1);
        stop.store(true, Ordering::Relaxed);
        let mut sums = [0; 2];
        for thread in threads {
            let admitted = thread.join().unwrap();
            (sums[0], sums[1]) = (sums[0] + admitted[0], sums[1] + admitted[1]);
        }
        // Uses up what is left.
        for number in 0..2 * 300 * KEYS {
            (sums[0], sums[1]) = (sums[0] + check("steady", number).0, sums[1] + check("moving", number).0);
        }
        (sums[0], sums[1])
    });
    assert_eq!((steady, moving), (300 * KEYS, 300 * KEYS));
    assert!(seen.load(Ordering::Relaxed) > 1, "threads saw generations go by");
    // Not a unit is restored before its time.
    tested.clock.advance(Micros::new(59_999_999));
    assert_eq!((0..KEYS).map(|number| check("moving", number).0).sum::<u64>(), 0);
    let counted =
        |word: &str| tested.metric(&format!("tollgate_decisions_total{{policy=\"moving\",decision=\"{word}\"}}"));
    assert_eq!(counted("allowed"), 300. * KEYS as f64);
}
