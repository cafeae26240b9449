//! Policies and states as words: words that were written read back equal, and other words are refused without a panic
//! and without taking much memory.

use tollgate_kernel::algorithms::{Rule, sliding::Sliding, slots::Slots};
use tollgate_kernel::{
    Cost, EXACT, KeyState, Limit, Micros, Mode, OnError, Options, Policy, Reader, Request, Timestamp, Writer,
};
use tollgate_random::Rng;

const START: u64 = 1_700_000_000_000_000;

const TEXTS: [&str; 16] = [
    "5/s",
    "100/min grain=1s",
    "2M/ms grain=2us",
    "10/s gcra burst=20",
    "7/3s gcra",
    "1000/h fixed align=clock",
    "9/min fixed",
    "15/60s bucket burst=3",
    "5/h slots resolution=10min",
    "9/min estimate",
    "5/10s decay factor=1.25",
    "100/s spacing=10ms",
    "3/s name=a, 20/min gcra name=b, 100/h fixed spacing=1s",
    "1/5s, 5/h",
    "8/min gcra spacing=1ms name=a-name-of-64-letters-which-is-the-longest-that-a-limit-may-have-",
    "1/ms gcra",
];

/// Limits that policy text cannot express.
fn unnameable() -> Vec<Limit> {
    let rolling = |buckets| Options { buckets: Some(buckets), ..Options::default() };
    let decay = Options { factor: Some(1.1), level: Some(2.5), ..Options::default() };
    vec![
        Limit::new(Rule::Sliding(Sliding::of_single_units(5, Micros::new(60_000_001)).unwrap())),
        Limit::new(Rule::Sliding(Sliding::of_single_units(EXACT, Micros::new((1 << 47) - 1)).unwrap())),
        Limit::new(Rule::Sliding(Sliding::of_single_units(0, Micros::new(1)).unwrap())),
        Limit::new(Rule::Slots(Slots::unrefunded(3, Micros::from_secs(1_000), Micros::new(1_000)).unwrap())),
        Limit::new(Rule::Slots(Slots::unrefunded(EXACT, Micros::new(EXACT - 1), Micros::new(1 << 33)).unwrap())),
        Limit::build("rolling", 10, Micros::new(1_000), &rolling(3)).unwrap(),
        Limit::build("rolling", 10, Micros::from_secs(60), &Options::default()).unwrap(),
        Limit::build("decay", 2, Micros::from_secs(10), &decay).unwrap(),
        Limit::build("fixed", EXACT, Micros::new(EXACT - 1), &Options::default()).unwrap(),
        Limit::build("fixed", 0, Micros::new(1), &Options::default()).unwrap(),
    ]
}

fn policies() -> Vec<Policy> {
    let mut policies: Vec<Policy> = TEXTS.iter().map(|text| text.parse().unwrap()).collect();
    for (number, limit) in unnameable().into_iter().enumerate() {
        let spaced = limit.clone().spaced(Micros::new(7)).unwrap().named(&format!("spaced-{number}")).unwrap();
        policies.push(Policy::new(vec![limit]).unwrap());
        policies.push(Policy::new(vec![spaced]).unwrap().with_name(&format!("policy_{number}")).unwrap());
    }
    let modes = Mode::ALL.into_iter().cycle().zip(OnError::ALL.into_iter().cycle().skip(1));
    policies
        .into_iter()
        .zip(modes)
        .map(|(policy, (mode, on_error))| policy.with_mode(mode).with_on_error(on_error))
        .collect()
}

fn words_of(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut to = Writer::default();
    write(&mut to);
    to.into_bytes()
}

/// The state of a key that was used under some of the policies, with a clock that may go back.
fn used(rng: &mut Rng, policies: &[Policy], steps: u64) -> KeyState {
    let (mut state, mut t) = (KeyState::default(), START);
    for _ in 0..steps {
        t = match rng.below(30) {
            0 => t.saturating_sub(rng.below(100_000_000_000)),
            1 => rng.below(EXACT),
            2..8 => t + rng.below(10_000_000),
            _ => t + rng.below(10_000),
        }
        .min(EXACT - 1);
        let (policy, now) = (&policies[rng.index(policies.len())], Timestamp::new(t).unwrap());
        // Limits of single units are charged one unit at a time.
        let single =
            policy.limits().iter().any(|limit| matches!(limit.rule(), Rule::Sliding(_)) && limit.count() > 1 << 46);
        let cost = if single { 1 } else { rng.pick(&[1, 1, 1, 2, 5, EXACT - 1]) };
        let request = Request::cost(Cost::new(cost).unwrap()).mode(rng.pick(&Mode::ALL));
        match rng.below(12) {
            0 => {
                let (units, charged) = (1 + rng.below(4), Timestamp::new(t - t.min(rng.below(9_000))).unwrap());
                state.refund(policy, now, units, charged);
            }
            1 => state.reset(policy, now),
            2 => state.thin(),
            _ => drop(state.decide(policy, now, &request)),
        }
    }
    state
}

#[test]
fn every_policy_reads_back_equal() {
    for policy in policies() {
        let words = words_of(|to| policy.write(to));
        let from = &mut Reader::new(&words);
        assert_eq!(Policy::read(from), Some(policy));
        assert!(from.is_done());
    }
}

#[test]
fn every_state_reads_back_equal_and_decides_alike() {
    let (policies, mut rng) = (policies(), Rng::new(1));
    let mut cells = 0;
    for round in 0..3_000 {
        // The state of one policy, or of several that alternate.
        let some =
            if round % 2 == 0 { std::slice::from_ref(&policies[round / 2 % policies.len()]) } else { &policies[..] };
        let steps = 1 + rng.below(60);
        let mut state = used(&mut rng, some, steps);
        let words = words_of(|to| state.write(to));
        let from = &mut Reader::new(&words);
        let mut read = KeyState::read(from).unwrap_or_else(|| panic!("round {round}: {state:?}"));
        assert!(from.is_done() && read == state, "round {round}");
        cells += state.each().count();
        for step in 0..8 {
            let t = Timestamp::saturating(START + step * rng.below(1_000_000));
            let policy = &some[rng.index(some.len())];
            assert_eq!(read.decide_full(policy, t, &Request::ONE), state.decide_full(policy, t, &Request::ONE));
        }
    }
    assert!(cells > 10_000, "{cells} cells");
}

#[test]
fn a_long_log_reads_back_equal() {
    let policy: Policy = "50k/h".parse().unwrap();
    let mut state = KeyState::default();
    for step in 0..40_000 {
        assert!(state.decide(&policy, Timestamp::new(START + step).unwrap(), &Request::ONE).allowed);
    }
    let words = words_of(|to| state.write(to));
    assert_eq!(KeyState::read(&mut Reader::new(&words)).as_ref(), Some(&state));
}

/// Changes some of the bytes.
fn mutate(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=rng.below(3) {
        let words = (bytes.len() / 8).max(1) as u64;
        let place = rng.below(words) as usize * 8;
        match rng.below(6) {
            0 => bytes.truncate(place),
            1 => drop(bytes.splice(place..place, rng.below(u64::MAX).to_le_bytes())),
            2 if place < bytes.len() => bytes[place + rng.below(8) as usize] ^= 1 << rng.below(8),
            3 if place < bytes.len() => drop(bytes.drain(place..place + 8)),
            _ if place < bytes.len() => {
                let word = rng.pick(&[0, 1, 2, 12, EXACT, u64::MAX, u64::MAX - 1, 1 << 63, 1 << 47, START]);
                bytes[place..place + 8].copy_from_slice(&word.to_le_bytes());
            }
            _ => {}
        }
    }
    bytes
}

#[test]
fn words_that_nobody_wrote_harm_nothing() {
    let (policies, mut rng) = (policies(), Rng::new(2));
    let (mut refused, mut read) = (0, 0);
    for round in 0..60_000 {
        let words = match round % 3 {
            0 => (0..rng.below(40)).flat_map(|_| (rng.below(u64::MAX) >> rng.below(64)).to_le_bytes()).collect(),
            1 => mutate(&words_of(|to| policies[rng.index(policies.len())].write(to)), &mut rng),
            _ => {
                let (policy, steps) = (policies[rng.index(policies.len())].clone(), rng.below(12));
                let state = used(&mut rng, &[policy], steps);
                mutate(&words_of(|to| state.write(to)), &mut rng)
            }
        };
        let policy = Policy::read(&mut Reader::new(&words));
        let state = KeyState::read(&mut Reader::new(&words));
        refused += u32::from(policy.is_none() && state.is_none());
        let Some(mut state) = state else { continue };
        read += 1;
        let bytes = state.heap_bytes();
        assert!(bytes <= 1_000 + 4 * words.len(), "{bytes} bytes of {}", words.len());
        // A state that was accepted can be used.
        for (limit, t) in state.each().map(|(limit, _)| limit.clone()).zip([0, START, EXACT - 1]).collect::<Vec<_>>() {
            let (policy, t) = (Policy::new(vec![Limit::clone(&limit)]).unwrap(), Timestamp::new(t).unwrap());
            for cost in [0, 1, EXACT - 1] {
                for mode in Mode::ALL {
                    let _ = state.decide_full(&policy, t, &Request::cost(Cost::new(cost).unwrap()).mode(mode));
                }
            }
            state.refund(&policy, t, 3, Timestamp::new(START.min(t.get())).unwrap());
            state.thin();
        }
    }
    assert!(refused > 20_000 && read > 3_000, "{refused} refused, {read} read");
}
