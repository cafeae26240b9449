//! Tests of the tests: the player notices what is wrong.

use tollgate_conformance::{Adapter, Kernel, Tally, play};
use tollgate_random::Rng;

const VECTORS: &str = r#"{"scenario": "s", "limiter": "plug_fixed_window", "policy": {"limit": 1, "window_s": 60}, "t_unit": "ms"}
{"t": 1700000000000, "key": "k", "n": 1, "expect": {"result": "allow", "headers": ["1", "60", "0"]}}
{"t": 1700000000100, "key": "k", "n": 1, "expect": {"result": "block", "headers": ["1", "60", "0"], "accept_headers": [["1", "59", "0"]]}}
{"scenario": "bad", "limiter": "plug_fixed_window", "policy": {"limit": 1, "window_s": 0}, "policy_error": true}
{"scenario": "negative", "limiter": "leaky_bucket", "policy": {"capacity": 5, "limit": 1, "period_ms": 1000}}
{"t": 1, "key": "k", "n": -1, "expect": {"error": true}}
{"scenario": "large", "limiter": "leaky_bucket", "policy": {"capacity": 5, "limit": 1, "period_ms": 1000}, "big": true}
{"t": 1, "key": "k", "n": 1, "expect": {"allowed": true, "remaining": 4}}
{"t": 1, "key": "k", "n": 9007199254740992, "expect": {"allowed": false, "retry_after_ms": -1}}
{"t": 1, "key": "k", "n": 1, "expect": {"allowed": true}}
"#;

/// Plays the vectors, letting `change` falsify the answers by their line.
fn played(mut change: impl FnMut(usize, String) -> Option<String>) -> Tally {
    let mut adapter = Adapter::new(Box::new(Kernel::default()));
    let mut line = 0;
    play(VECTORS, |shown| {
        line += 1;
        change(line, adapter.answer(shown.as_bytes()).0.to_string())
    })
    .unwrap()
}

/// As [`played`], with the answer to one line replaced.
fn with(place: usize, instead: Option<&str>) -> Tally {
    played(|line, answer| if line == place { instead.map(str::to_owned) } else { Some(answer) })
}

#[test]
fn right_answers_are_right() {
    let tally = played(|_, answer| Some(answer));
    assert!(tally.is_clean(), "{:?}", tally.complaints);
    assert_eq!((tally.scenarios, tally.operations, tally.right), (4, 4, 8));
    assert_eq!((tally.big, tally.big_refused, tally.unjudged), (1, 1, 2));
}

#[test]
fn what_is_expected_is_not_shown() {
    play(VECTORS, |shown| {
        assert!(!shown.contains("expect") && !shown.contains("accept_headers"), "{shown}");
        None
    })
    .unwrap();
}

#[test]
fn a_wrong_answer_is_noticed() {
    let tally = with(2, Some(r#"{"result": "block", "headers": ["1", "60", "0"]}"#));
    assert_eq!((tally.wrong, tally.missing), (1, 0));
    assert_eq!(tally.complaints, [r#"line 2 of s: result: expected "allow", found "block""#]);
    assert_eq!(with(3, Some(r#"{"result": "block", "headers": ["1", "58", "0"]}"#)).wrong, 1);
    assert!(with(3, Some(r#"{"result": "block", "headers": ["1", "59", "0"]}"#)).is_clean());
}

#[test]
fn a_missing_field_is_noticed() {
    let tally = with(2, Some(r#"{"result": "allow"}"#));
    assert_eq!((tally.wrong, tally.missing), (0, 1));
    assert_eq!(tally.complaints, ["line 2 of s: headers is missing"]);
}

#[test]
fn a_missing_or_broken_answer_is_noticed() {
    assert_eq!(with(2, None).missing, 1);
    assert_eq!(with(1, None).missing, 1);
    assert_eq!(with(2, Some("{")).missing, 1);
    assert_eq!(with(2, Some("[]")).wrong, 1);
    assert_eq!(with(1, Some("[]")).wrong, 1);
}

#[test]
fn an_error_where_none_is_expected_is_noticed() {
    assert_eq!(with(2, Some(r#"{"error": true}"#)).wrong, 1);
    assert_eq!(with(1, Some(r#"{"error": true}"#)).wrong, 1);
}

#[test]
fn an_expected_error_that_does_not_come_is_noticed() {
    assert_eq!(with(4, Some("{}")).wrong, 1);
    assert_eq!(with(6, Some(r#"{"allowed": false}"#)).wrong, 1);
}

#[test]
fn big_numbers_may_be_refused_but_not_answered_wrongly() {
    // Refused from the start, nothing of it is judged.
    let refused = with(7, Some(r#"{"error": true}"#));
    assert!(refused.is_clean());
    assert_eq!((refused.operations, refused.unjudged), (3, 3));
    assert_eq!(with(9, Some(r#"{"allowed": true, "retry_after_ms": 0}"#)).wrong, 1);
    // Answered, what follows is judged too.
    let answered = with(9, Some(r#"{"allowed": false, "retry_after_ms": -1}"#));
    assert!(answered.is_clean());
    assert_eq!((answered.operations, answered.big_refused, answered.unjudged), (6, 0, 0));
}

#[test]
fn a_file_that_is_none_is_an_error() {
    let error = play("{}\n[]\n", |_| Some("{}".to_owned())).unwrap_err();
    assert!(error.to_string().starts_with("line 2: "), "{error}");
}

/// Mutated vectors never make the adapter panic, and every line gets an answer.
#[test]
fn no_line_makes_the_adapter_panic() {
    let mut adapter = Adapter::new(Box::new(Kernel::default()));
    let text = include_str!("../../vectors/risingstack.jsonl")
        .lines()
        .chain(include_str!("../../vectors/o1_ar1.jsonl").lines());
    let lines: Vec<&str> = text.chain(VECTORS.lines()).collect();
    let mut rng = Rng::new(1);
    for _ in 0..50_000 {
        let mut line = rng.pick(&lines).as_bytes().to_vec();
        for _ in 0..rng.below(3) {
            let at = rng.index(line.len());
            let digits = b"0123456789-.e\"{}[],";
            line[at] = if rng.one_in(4) { rng.next_u64() as u8 } else { rng.pick(digits) };
        }
        let (answer, reason) = adapter.answer(&line);
        assert!(answer.is_object());
        assert_eq!(answer.get("error").is_some(), reason.is_some());
    }
}
