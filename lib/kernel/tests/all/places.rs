//! The cells that a key keeps of limits that its latest policy does not have.

use tollgate_kernel::{Cost, KeyState, MAX_OTHER_LIMITS, Policy, Reader, Request, StoreError, Timestamp, Writer};

const START: u64 = 1_700_000_000_000_000;

fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

fn t(after: u64) -> Timestamp {
    Timestamp::new(START + after).unwrap()
}

fn units(cost: u64) -> Request {
    Request::cost(Cost::new(cost).unwrap())
}

#[test]
fn a_name_under_another_algorithm_is_another_limit() {
    let (mine, other) = (policy("5/min name=api"), policy("1/s gcra name=api"));
    for looks in [Request::ONE.peek(), units(0), units(9), Request::ONE] {
        let mut state = KeyState::default();
        assert!(state.decide(&mine, t(0), &units(5)).allowed);
        let _ = state.decide(&other, t(1), &looks);
        assert_eq!(state.refund(&other, t(1), 0, t(0)), 0);
        assert!(!state.decide(&mine, t(2), &Request::ONE).allowed, "{looks:?}");
    }
}

#[test]
fn a_name_under_a_shorter_period_does_not_expire_sooner_by_looks() {
    let (mine, shorter) = (policy("5/min fixed name=api"), policy("1/ms fixed name=api"));
    for looks in [Request::ONE.peek(), units(0), units(9)] {
        let mut state = KeyState::default();
        assert!(state.decide(&mine, t(0), &units(5)).allowed);
        let _ = state.decide(&shorter, t(1), &looks);
        let _ = state.decide(&policy("1/d"), t(5_000), &Request::ONE);
        assert!(!state.decide(&mine, t(6_000), &Request::ONE).allowed, "{looks:?}");
    }
}

#[test]
fn others_are_kept_and_then_refused() {
    let mine = policy("5/min");
    let mut state = KeyState::default();
    assert!(state.decide(&mine, t(0), &units(5)).allowed);
    let others: Vec<Policy> = (1..=MAX_OTHER_LIMITS + 1).map(|days| policy(&format!("1/{days}d"))).collect();
    for (place, other) in others.iter().enumerate() {
        assert_eq!(state.has_place_for(other, t(1)), place < MAX_OTHER_LIMITS, "{place}");
        if place < MAX_OTHER_LIMITS {
            let _ = state.decide(other, t(1), &Request::ONE);
        }
    }
    let said = state.check_place_for(&others[MAX_OTHER_LIMITS], t(1)).unwrap_err();
    assert!(matches!(said, StoreError::Crowded(found) if found == MAX_OTHER_LIMITS + 1));
    let expected = "expected at most 64 other limits remembered for a key, found 65; use fewer policies on a key or wait \
                    until they expire";
    assert_eq!(said.to_string(), expected);
    // Limits that are stored stay usable, even if the last policy added many at once.
    assert!(
        state.has_place_for(&mine, t(1)) && others[..MAX_OTHER_LIMITS].iter().all(|it| state.has_place_for(it, t(1)))
    );
    assert!(!state.decide(&mine, t(2), &Request::ONE).allowed);
    // An hour later the first limit has expired, which leaves a place for another.
    assert!(state.has_place_for(&others[MAX_OTHER_LIMITS], t(3_600_000_000)));
}

#[test]
fn a_policy_of_many_limits_shuts_out_none_that_is_known() {
    let mine = policy("5/min");
    let mut state = KeyState::default();
    assert!(state.decide(&mine, t(0), &units(5)).allowed);
    for days in 1..MAX_OTHER_LIMITS {
        let _ = state.decide(&policy(&format!("1/{days}d")), t(1), &Request::ONE);
    }
    let many: Vec<String> = (100..132).map(|days| format!("1/{days}d")).collect();
    let many = policy(&many.join(", "));
    assert!(state.has_place_for(&many, t(1)));
    let _ = state.decide(&many, t(1), &Request::ONE);
    assert!(state.has_place_for(&mine, t(2)));
    assert!(!state.decide(&mine, t(2), &Request::ONE).allowed);
    assert!(!state.has_place_for(&policy("1/300d"), t(2)));
    // The whole state can be written and read back.
    let mut to = Writer::default();
    state.write(&mut to);
    let read = KeyState::read(&mut Reader::new(&to.into_bytes())).unwrap();
    assert_eq!(read.sorted(t(2)), state.sorted(t(2)));
}
