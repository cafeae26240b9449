//! What is counted is not less than what is taken, and neither passes the cap.

use allocation_counter::measure;
use tollgate_core::Timestamp;
use tollgate_dialects::Wording;

use super::{Keys, Spoken};
use crate::fault::{Code, Fault};

const NOW: u64 = 1_700_000_040_000_000;

/// Calls of every dialect; KEY and N are replaced.
pub(crate) const CALLS: &[&str] = &[
    "fixed_window 1 KEY 5 60",
    "token_bucket 1 KEY 5 60 2",
    "sliding_window 1 KEY 60000 5",
    "sliding_window 1 KEY 60000 500 90000 900 10N 50",
    "cl.throttle 1 KEY 5 5 60",
    "slot_window 1 KEY 1 ns [[5,60,1],[9,3600,60]] 1700000040 0",
    "slot_window 1 KEY 1 nsN [[5,60,1]] 1700000040 0",
    "ar1 1 KEY 1 ns [[5,2,1]] 1700000040 0",
    "rolling 2 KEYa KEYb 1 1 1700000040000000 0 0 5 9 6000 60000 10000 10000",
    "api_counter 1 {api:KEY} 5",
];

pub(crate) fn speak(text: &str) -> Spoken {
    let mut words = text.split(' ');
    let dialect = tollgate_dialects::find(words.next().unwrap()).unwrap();
    let count = words.next().unwrap().parse().unwrap();
    let words: Vec<Vec<u8>> = words.map(|word| word.as_bytes().to_vec()).collect();
    let (keys, args) = words.split_at(count);
    let slices = |all: &[Vec<u8>]| -> Vec<&'static [u8]> { all.iter().map(|one| &*one.clone().leak()).collect() };
    let call = (dialect.parse)(&slices(keys), &slices(args)).unwrap();
    Spoken { dialect, call, db: 0, keys: keys.to_vec(), args: args.to_vec(), wording: Wording::Document }
}

fn decide(keys: &mut Keys, text: &str, t: u64) -> Result<(), Fault> {
    keys.decide(&speak(text), Timestamp::saturating(t)).map(|_| ())
}

/// Bytes that `keys` take, found by letting them go.
fn taken(keys: Keys) -> i64 {
    -measure(|| drop(keys)).bytes_current
}

#[test]
fn of_every_dialect() {
    for call in CALLS {
        let mut keys = Keys::new(1 << 28);
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
        let mut keys = Keys::new(CAP);
        let (mut decided, mut full) = (0, 0);
        for key in 0..6_000u64 {
            // Old keys and new ones, and now and then another policy.
            for name in [key, key / 2] {
                let text = call.replace("KEY", &format!("key:{name}")).replace('N', &(key % 100).to_string());
                match decide(&mut keys, &text, NOW + key) {
                    Ok(()) => decided += 1,
                    Err(fault) => {
                        assert_eq!(fault.code, Code::Full, "{fault}");
                        full += 1;
                    }
                }
            }
        }
        let counts = keys.counts();
        let taken = taken(keys);
        assert!(counts.bytes <= CAP && taken <= CAP as i64, "{call}: {counts:?}, {taken} taken");
        // Of ever more policies there is nothing that could be shared.
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
    let mut keys = Keys::new(CAP);
    for step in 0..100_000u64 {
        decide(&mut keys, "sliding_window 1 long 3600000 1000000", NOW + step).unwrap();
    }
    // Its events count on, each a little longer than it should.
    assert_eq!(keys.counts().overflowed, 0);
    let (counted, taken) = (keys.counts().bytes, taken(keys));
    // The first leaves of trees, which hardly anything is in, are not counted.
    assert!(counted <= CAP && taken <= counted as i64 + 2_048, "{counted} counted, {taken} taken");
}
