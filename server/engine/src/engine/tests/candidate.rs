//! Tests of candidates: the counts are those of two kernels that decide the same requests.

use std::collections::HashMap;

use tollgate_kernel::{Cost, KeyState, Micros, Policy, Request, Timestamp};
use tollgate_random::Rng;

use super::{START, config, mode, tested};
use crate::Flips;

/// Replays requests through the two policies, as `tollgate replay` does.
fn replayed(live: &str, tried: &str, requests: &[(u64, String, Request)]) -> Flips {
    let policies: [Policy; 2] = [live, tried].map(|text| text.parse().unwrap());
    let mut states: [HashMap<String, KeyState>; 2] = Default::default();
    let mut flips = Flips::default();
    for (at, key, request) in requests {
        let mut decide = |place: usize| {
            let state = states[place].entry(key.clone()).or_default();
            state.decide(&policies[place], Timestamp::new(*at).unwrap(), request).allowed
        };
        let (live, tried) = (decide(0), decide(1));
        flips.decided += 1;
        flips.would_refuse += u64::from(live && !tried);
        flips.would_allow += u64::from(!live && tried);
    }
    flips
}

#[tokio::test]
async fn flips_are_those_of_two_kernels_on_the_same_requests() {
    for (seed, live, tried) in [
        (1, "5/min, 20/h", "3/min, 20/h"),
        (2, "5/min gcra", "5/min"),
        (3, "10/30s gcra burst=20", "12/30s fixed"),
        (4, "30/min slots resolution=10s", "30/min estimate"),
        (5, "15/min bucket burst=3", "15/min decay factor=2"),
        (6, "4/10s", "4/10s"),
    ] {
        let tested = tested(&format!("policies: {{api: {{limit: \"{live}\", candidate: \"{tried}\"}}}}"));
        let (mut rng, mut requests) = (Rng::new(seed), Vec::new());
        let mut now = START;
        for _ in 0..3_000 {
            now += rng.pick(&[0, 1, 1_000, 700_000, 5_000_000]);
            tested.clock.set(Timestamp::new(now).unwrap());
            let key = format!("k{}", rng.below(7));
            let cost = Cost::new(rng.below(4)).unwrap();
            let request = Request { mode: mode(&mut rng), ..Request::cost(cost) };
            if rng.one_in(10) {
                // A peek does not reach a candidate.
                tested.ask("api", &key, request.peek()).await;
                continue;
            }
            requests.push((now, key.clone(), request));
            // One by one, or several of the same kind in one call.
            if rng.one_in(3) {
                let known = tested.engine.policy(b"api", None).unwrap();
                let keys = [key.as_bytes(), b"other", key.as_bytes()];
                tested.engine.check_many(&known, &keys, &request, &mut Vec::new()).await.unwrap();
                requests.push((now, "other".to_owned(), request));
                requests.push((now, key, request));
            } else {
                tested.ask("api", &key, request).await;
            }
        }
        let expected = replayed(live, tried, &requests);
        let known = tested.engine.policy(b"api", None).unwrap();
        let found = known.rules.as_ref().unwrap().candidate().unwrap().flips();
        assert_eq!(found, expected, "{live} | {tried}");
        assert!(seed == 6 || found.would_refuse + found.would_allow > 20, "{live} | {tried}: {found:?}");
        assert!(seed != 6 || found.would_refuse + found.would_allow == 0, "the same limits flip nothing");
        for (flip, count) in [("would_refuse", found.would_refuse), ("would_allow", found.would_allow)] {
            let id = format!("tollgate_candidate_flips_total{{policy=\"api\",flip=\"{flip}\"}}");
            assert_eq!(tested.metric(&id), count as f64);
        }
    }
}

#[tokio::test]
async fn keys_that_a_rule_decides_do_not_reach_a_candidate() {
    let tested = tested(
        "policies: {api: {limit: 5/min, candidate: 1/min, allow: [a], deny: [d], overrides: [{key: o, limit: 9/min}]}}",
    );
    for key in ["a", "d", "o", "a", "d", "o"] {
        tested.check("api", key).await;
    }
    let flips = || {
        let known = tested.engine.policy(b"api", None).unwrap();
        known.rules.as_ref().unwrap().candidate().unwrap().flips()
    };
    assert_eq!(flips(), Flips::default());
    tested.check("api", "k").await;
    tested.check("api", "k").await;
    let one = Flips { decided: 2, would_refuse: 1, would_allow: 0 };
    assert_eq!(flips(), one);
    // It keeps its counts while the same limits are compared, and starts from zero when they change.
    let with = |limit: &str, candidate: &str| {
        config(&format!("policies: {{api: {{limit: {limit}, candidate: {candidate}, allow: [b]}}}}"))
    };
    tested.engine.adopt(with("5/min", "1/min")).unwrap();
    assert_eq!(flips(), one);
    tested.engine.adopt(with("6/min", "1/min")).unwrap();
    assert_eq!(flips(), Flips::default());
    // Its own state is kept anyway.
    tested.check("api", "k").await;
    assert_eq!(flips(), Flips { decided: 1, would_refuse: 1, would_allow: 0 });
    // A reset also resets the key there.
    tested.reset("api", "k").await;
    tested.check("api", "k").await;
    assert_eq!(flips(), Flips { decided: 2, would_refuse: 1, would_allow: 0 });
    tested.clock.advance(Micros::from_secs(1));
}

#[tokio::test]
async fn a_candidate_is_compared_with_what_shadow_would_have_refused() {
    let tested = tested("policies: {api: {limit: 1/min, candidate: 2/min, shadow: true}}");
    for _ in 0..3 {
        assert!(tested.check("api", "k").await.decision.allowed);
    }
    let known = tested.engine.policy(b"api", None).unwrap();
    let found = known.rules.as_ref().unwrap().candidate().unwrap().flips();
    assert_eq!(found, Flips { decided: 3, would_refuse: 0, would_allow: 1 });
}
