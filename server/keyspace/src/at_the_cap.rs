//! Tests that callers cannot push out state that a key remembers, and that at the cap no key loses its state.

use tollgate_kernel::Timestamp;

use super::{CallEffect, KeyChange, Keyspace, KeyspaceStats};
use crate::fault::{Fault, FaultCode};
use crate::samples::parse_call;

const NOW: u64 = 1_700_000_040_000_000;
const CAP: usize = 512 << 10;

fn ask(keys: &mut Keyspace, text: &str, t: u64) -> Result<String, Fault> {
    let decided = keys.decide(&parse_call(text), Timestamp::saturating(t)).map(|reply| reply.to_string());
    let KeyspaceStats { bytes, .. } = keys.counts();
    // One eighth of the cap is for shared states, and another for bans, which are not keys.
    assert!(bytes <= keys.table.cap() / 6 * 7 + 8, "{text}: {bytes} bytes counted");
    decided
}

/// Fills all memory for keys.
fn fill(keys: &mut Keyspace, t: u64) {
    for key in 0.. {
        ask(keys, &format!("fixed_window 1 filler:{key} 5 86400"), t).unwrap();
        if keys.counts().overflowed > 20 {
            return;
        }
    }
}

#[test]
fn more_namespaces_than_a_key_keeps_are_refused() {
    let mut keys = Keyspace::new(1 << 24);
    let slots = |count: u64, namespace: &str| format!("slot_window 1 k {count} {namespace} [[5,60,1]] 1700000040 0");
    ask(&mut keys, &slots(5, "mine"), NOW).unwrap();
    let refused = ask(&mut keys, &slots(1, "mine"), NOW).unwrap();
    for other in 0..63 {
        let long = format!("slot_window 1 k 1 ns{other} [[5,86400,60]] 1700000040 0");
        ask(&mut keys, &long, NOW).unwrap();
    }
    let bytes = keys.counts().bytes;
    for count in [0, 1] {
        let fault = ask(&mut keys, &slots(count, "more"), NOW).unwrap_err();
        assert_eq!(fault.code, FaultCode::Wrong);
        assert!(fault.text.contains("expected at most 64 namespaces and clocks"), "{fault}");
    }
    assert_eq!(keys.counts().bytes, bytes);
    assert_eq!(ask(&mut keys, &slots(1, "mine"), NOW + 1).unwrap(), refused);
    // Another limiter in a namespace that is known is none more, and what is at a name already opens no namespace.
    ask(&mut keys, "ar1 1 k 1 mine [[5,2,1]] 1700000040 0", NOW + 1).unwrap();
    ask(&mut keys, "fixed_window 1 more:{k} 5 60", NOW + 1).unwrap();
    assert_eq!(ask(&mut keys, &slots(1, "more"), NOW + 1).unwrap_err().code, FaultCode::Wrong);
    // A minute later the key's own namespace has expired, and makes room.
    ask(&mut keys, "slot_window 1 k 1 more [[5,60,1]] 1700000200 0", NOW + 160_000_000).unwrap();
}

#[test]
fn more_limits_than_a_key_keeps_are_refused() {
    let mut keys = Keyspace::new(1 << 24);
    let mine = "fixed_window 1 k 1 60";
    ask(&mut keys, mine, NOW).unwrap();
    let refused = ask(&mut keys, mine, NOW).unwrap();
    assert!(refused.contains("block"), "{refused}");
    for days in 1..=80u64 {
        let asked = ask(&mut keys, &format!("fixed_window 1 k 1 {}", 86_400 * days), NOW);
        assert_eq!(asked.is_ok(), days <= 64, "{days}: {asked:?}");
        if let Err(fault) = asked {
            assert!(fault.text.contains("expected at most 64 other limits remembered for a key, found 65"), "{fault}");
        }
    }
    assert_eq!(ask(&mut keys, mine, NOW + 1).unwrap(), refused);
}

#[test]
fn what_charges_nothing_leaves_a_key_as_it_was() {
    let mut keys = Keyspace::new(1 << 24);
    ask(&mut keys, "slot_window 1 k 5 ns [[5,60,1]] 1700000040 1", NOW).unwrap();
    let bytes = keys.counts().bytes;
    for other in ["other [[5,60,1]]", "other [[9,3600,60]]", "third [[1,1,1]]"] {
        ask(&mut keys, &format!("slot_window 1 k 0 {other} 1700000040 1"), NOW).unwrap();
    }
    ask(&mut keys, "ar1 1 k 0 ns [[5,2,1]] 1700000040 1", NOW).unwrap();
    assert_eq!(keys.counts().bytes, bytes, "no scope is kept for a look");
    let refused = ask(&mut keys, "slot_window 1 k 1 ns [[5,60,1]] 1700000040 0", NOW).unwrap();
    assert_eq!(refused, "1");
}

#[test]
fn at_the_cap_a_key_is_limited_by_what_it_remembers() {
    let mut keys = Keyspace::new(CAP);
    let slots = |limits: &str, second: u64| format!("slot_window 1 k 1 ns [{limits}] {second} 0");
    let (second, now) = (1_700_000_040, NOW);
    for _ in 0..5 {
        assert_eq!(ask(&mut keys, &slots("[5,60,1]", second), now).unwrap(), "nil");
    }
    let refused = ask(&mut keys, &slots("[5,60,1]", second), now).unwrap();
    fill(&mut keys, now);
    // Another limit beside it, for which there is no memory.
    for duration in [90, 80, 70] {
        let both = slots(&format!("[5,60,1],[900,{duration},1]"), second);
        assert_eq!(ask(&mut keys, &both, now + 1).unwrap(), refused);
    }
    // The key is also reported as changed, for persistence.
    keys.watch();
    ask(&mut keys, &slots("[5,60,1],[900,90,1]", second), now + 1).unwrap();
    assert!(matches!(keys.call_effect(), CallEffect::Shared(_)));
    assert!(keys.take_changes().contains(&KeyChange::Key(0, b"ns:{k}".as_slice().into())));
    // A charge on it counts for both limits.
    let (second, later) = (second + 61, now + 61_000_000);
    let both = slots("[5,60,1],[3,3600,1]", second);
    let passed: Vec<String> = (0..5).map(|step| ask(&mut keys, &both, later + step).unwrap()).collect();
    assert_eq!(passed, ["nil", "nil", "nil", "1", "1"]);
    assert_eq!(ask(&mut keys, &slots("[5,60,1]", second), later + 9).unwrap(), "1");
}

#[test]
fn at_the_cap_a_known_key_counts_beside_new_ones() {
    let mut keys = Keyspace::new(CAP);
    let alone = "rolling 1 a 1 1 1700000040000000 0 5 6000 10000";
    for _ in 0..5 {
        ask(&mut keys, alone, NOW).unwrap();
    }
    for _ in 0..2 {
        ask(&mut keys, &alone.replace(" a ", " c "), NOW).unwrap();
    }
    let refused = |reply: &str| reply.replace(' ', "").contains("0,0,") || reply.contains("[0, 0");
    let full = ask(&mut keys, alone, NOW).unwrap();
    assert!(refused(&full), "{full}");
    fill(&mut keys, NOW);
    let pair = |other: u64| format!("rolling 2 a new{other} 1 1 1700000040000000 0 0 5 900 6000 6000 10000 10000");
    for other in 0..20 {
        let both = ask(&mut keys, &pair(other), NOW).unwrap();
        assert!(refused(&both), "{both}");
    }
    // A pair passes as often as the known key allows, whichever states the other keys share.
    let pair = |other: u64| format!("rolling 2 c new{other} 1 1 1700000040000000 0 0 5 900 6000 6000 10000 10000");
    let passed = (0..20).filter(|other| !refused(&ask(&mut keys, &pair(*other), NOW + *other).unwrap())).count();
    assert_eq!(passed, 3);
}

#[test]
fn keys_with_many_scopes_limits_and_long_logs_stay_within_the_cap() {
    let mut keys = Keyspace::new(CAP);
    let mut refused = 0;
    for step in 0..12_000u64 {
        let key = step % 7;
        let text = match step % 5 {
            0 => format!("slot_window 1 k{key} 1 ns{} [[5,86400,60],[9,3600,1]] 1700000040 0", step / 5 % 90),
            1 => format!("sliding_window 1 k{key} {} 100000", 3_600_000 + step / 5 % 90),
            2 => format!("sliding_window 1 long{key} 3600000 100000"),
            3 => format!("fixed_window 1 k{key} {} {}", 1 + step % 9, 60 + step / 5 % 80),
            _ => format!("rolling 2 k{key} new{step} 0 1 {} 0 0 50 50 36000 36000 100 10000", NOW + step),
        };
        if let Err(fault) = ask(&mut keys, &text, NOW + step) {
            assert!(matches!(fault.code, FaultCode::Full | FaultCode::Wrong), "{fault}");
            refused += 1;
        }
    }
    let counted = keys.counts().bytes;
    let taken = -allocation_counter::measure(|| drop(keys)).bytes_current;
    assert!(counted <= CAP && taken <= CAP as i64 && refused > 100, "{counted} counted, {taken} taken, {refused}");
}
