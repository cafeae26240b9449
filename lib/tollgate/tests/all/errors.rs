//! Bad input: an error that says what was expected, and nothing is changed.

use tollgate::{Gate, MAX_CAP, MIN_CAP, StoreError};

#[test]
fn a_gate_that_cannot_be_built_reports_the_reason() {
    let cap = |bytes| Gate::builder().policy("1/s").memory_cap(bytes);
    for (builder, says) in [
        (Gate::builder(), r#"expected a policy; for example .policy("100/min")"#.to_owned()),
        (Gate::builder().policy("1/s").policy("2/s"), "expected one policy without a name, found two".to_owned()),
        (
            Gate::builder().named("a", "1/s").named("a", "2/s"),
            "expected policy names that differ, found a twice".to_owned(),
        ),
        (
            Gate::builder().named("no name", "1/s"),
            "expected a policy name of 1 to 64 letters, digits, - and _".to_owned(),
        ),
        (
            Gate::builder().policy("1/parsec"),
            r#"column 3: expected a unit (us, ms, s, min, h, d, w), found "parsec"; for example "100/min""#.to_owned(),
        ),
        (cap(MIN_CAP - 1), format!("expected a memory cap from {MIN_CAP} to {MAX_CAP} bytes, found {}", MIN_CAP - 1)),
        (cap(usize::MAX), format!("expected a memory cap from {MIN_CAP} to {MAX_CAP} bytes, found {}", usize::MAX)),
    ] {
        assert_eq!(builder.build().unwrap_err().to_string(), says);
    }
}

#[test]
fn an_invalid_request_charges_nothing() {
    let gate = Gate::memory("3/h").unwrap();
    let other = Gate::memory("3/h").unwrap();
    let long = "x".repeat(513);
    assert!(matches!(gate.check_many(&["a", &long]), Err(StoreError::Key(513))));
    assert!(matches!(gate.check_many(&["a", ""]), Err(StoreError::Key(0))));
    assert!(matches!(gate.check_all(&[gate.ask("a"), gate.ask("")]), Err(StoreError::Key(0))));
    assert!(matches!(gate.check_all(&[gate.ask("a"), gate.ask("a")]), Err(StoreError::Twice(0, 1))));
    assert!(matches!(gate.check_all(&[gate.ask("a"), other.ask("b")]), Err(StoreError::OtherHome)));
    assert!(matches!(gate.ask("a").cost(1 << 53).check(), Err(StoreError::Cost(_))));
    assert!(matches!(gate.refund("a", u64::MAX, gate.peek("a").unwrap().at), Err(StoreError::Cost(_))));
    assert!(gate.reset("").is_err() && gate.refund("", 1, gate.peek("a").unwrap().at).is_err());
    assert_eq!((gate.peek("a").unwrap().remaining, gate.stats().keys, other.stats().keys), (3, 0, 0));
    // More than can ever fit is an answer, not an error.
    assert_eq!(gate.ask("a").cost(4).check().unwrap().retry_after.to_string(), "never");
}
