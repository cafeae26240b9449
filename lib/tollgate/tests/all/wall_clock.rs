//! The machine's clock set back and forward an hour during load.

use tollgate::{Decision, Gate, ManualClock, Micros, Timestamp};

const HOUR: u64 = 3_600_000_000;
const START: u64 = 1_700_000_000_000_000;
const POLICIES: [(&str, &str); 9] = [
    ("sliding", "20/10s"),
    ("gcra", "20/10s gcra burst=5"),
    ("fixed", "20/10s fixed"),
    ("bucket", "15/10s bucket burst=3"),
    ("slots", "20/10s slots resolution=1s"),
    ("estimate", "20/10s estimate"),
    ("decay", "10/s decay factor=2"),
    ("several", "3/s, 20/10s gcra, 1000/h fixed"),
    ("spaced", "20/10s spacing=100ms"),
];

/// Decisions of the same load, the machine's clock being set by `jump` as the load goes on.
fn decisions(text: &str, jump: impl Fn(u64) -> i64) -> Vec<Decision> {
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let gate = Gate::builder().policy(text).clock(clock.clone()).build().unwrap();
    let mut decisions = Vec::new();
    for step in 0..3_000u64 {
        clock.advance(Micros::new(7_919 + step % 13 * 3_001));
        let now = tollgate::Clock::now(&clock).get();
        clock.set_wall(Timestamp::new(now.checked_add_signed(jump(step)).unwrap()).unwrap());
        decisions.push(gate.ask(&[step as u8 % 3]).cost(1 + step % 2).check().unwrap());
    }
    decisions
}

fn an_hour_back_then_forward(step: u64) -> i64 {
    match step / 1_000 {
        0 => 0,
        1 => -(HOUR as i64),
        _ => HOUR as i64,
    }
}

#[test]
fn nothing_changes_for_windows_that_are_not_aligned_to_it() {
    for (name, text) in POLICIES {
        let (steady, jumping) = (decisions(text, |_| 0), decisions(text, an_hour_back_then_forward));
        assert_eq!(steady, jumping, "{name}");
        assert!(steady.iter().any(|decision| decision.allowed) && steady.iter().any(|decision| !decision.allowed));
    }
}

#[test]
fn windows_aligned_to_it_follow_it_and_admit_no_more_than_a_window_each() {
    let text = "100/h fixed align=clock";
    let clock = ManualClock::at(Timestamp::new(START - START % HOUR + HOUR / 2).unwrap());
    let gate = Gate::builder().policy(text).clock(clock.clone()).build().unwrap();
    let drain = || (0..300).filter(|_| gate.check("k").unwrap().allowed).count();
    assert_eq!(drain(), 100);
    let now = tollgate::Clock::now(&clock).get();
    // Back: the window that is remembered lies ahead, and stays used up.
    clock.set_wall(Timestamp::new(now - HOUR).unwrap());
    assert_eq!(drain(), 0);
    // Forward, into the next window: it is new, once.
    clock.set_wall(Timestamp::new(now + HOUR).unwrap());
    assert_eq!((drain(), drain()), (100, 0));
}

#[test]
fn a_policy_that_mixes_both_is_decided_by_the_steady_clock() {
    let text = "5/s, 30/min fixed align=clock";
    assert_eq!(decisions(text, |_| 0), decisions(text, an_hour_back_then_forward));
}
