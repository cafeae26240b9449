//! Tests that no fewer bytes are counted than are taken, and that neither number exceeds the cap.

use allocation_counter::measure;
use tollgate_kernel::Timestamp;

use crate::Keyspace;
use crate::fault::{Fault, FaultCode};
use crate::samples::{CALLS, parse_call};

const NOW: u64 = 1_700_000_040_000_000;

fn decide(keys: &mut Keyspace, text: &str, t: u64) -> Result<(), Fault> {
    keys.decide(&parse_call(text), Timestamp::saturating(t)).map(|_| ())
}

/// Returns the bytes that `keys` take, measured by dropping them.
fn taken(keys: Keyspace) -> i64 {
    -measure(|| drop(keys)).bytes_current
}

#[test]
fn of_every_dialect() {
    for call in CALLS {
        let mut keys = Keyspace::new(1 << 28);
        for key in 0..300u64 {
            for round in 0..20 {
                let text = call.replace("KEY", &format!("key:{key}")).replace('N', &(round % 4).to_string());
                decide(&mut keys, &text, NOW + 1_000 * round).unwrap();
            }
        }
        let (counted, taken) = (keys.counts().bytes as i64, taken(keys));
        assert!(counted >= taken && taken > 300 * 100, "{call}: {counted} counted, {taken} taken");
        println!("{call}: {} counted and {} taken a key", counted / 300, taken / 300);
    }
}

#[test]
fn at_the_cap() {
    const CAP: usize = 512 << 10;
    for call in CALLS {
        let mut keys = Keyspace::new(CAP);
        let (mut decided, mut full) = (0, 0);
        for key in 0..6_000u64 {
            // Old keys and new ones, and from time to time another policy.
            for name in [key, key / 2] {
                let text = call.replace("KEY", &format!("key:{name}")).replace('N', &(key % 100).to_string());
                match decide(&mut keys, &text, NOW + key) {
                    Ok(()) => decided += 1,
                    Err(fault) => {
                        assert_eq!(fault.code, FaultCode::Full, "{fault}");
                        full += 1;
                    }
                }
            }
        }
        let counts = keys.counts();
        let taken = taken(keys);
        assert!(counts.bytes <= CAP && taken <= CAP as i64, "{call}: {counts:?}, {taken} taken");
        // Calls whose policy changes every time have no states that could be shared.
        let most = if call.contains('N') { usize::MAX } else { 0 };
        assert!(
            counts.overflowed > 0 && full <= most && decided > 100,
            "{call}: {counts:?}, {decided} decided, {full} not"
        );
    }
}

#[test]
fn of_a_log_that_would_not_fit() {
    const CAP: usize = 256 << 10;
    let mut keys = Keyspace::new(CAP);
    for step in 0..100_000u64 {
        decide(&mut keys, "sliding_window 1 long 3600000 1000000", NOW + step).unwrap();
    }
    // Its events continue to count, each slightly longer than it should.
    assert_eq!(keys.counts().overflowed, 0);
    let (counted, taken) = (keys.counts().bytes, taken(keys));
    // The first leaves of the trees, which are almost empty, are not counted.
    assert!(counted <= CAP && taken <= counted as i64 + 2_048, "{counted} counted, {taken} taken");
}
