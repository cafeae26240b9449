//! How long a million keys take to be saved and restored, as a measurement to be run by hand:
//! `cargo test --release -p tollgate-memory --test all warm -- --ignored --nocapture`.

use std::time::Instant;

use tollgate_kernel::{Clock, Micros, Policy, Request, Timestamp};
use tollgate_memory::{ManualClock, Memory};

const KEYS: u32 = 1_000_000;
const CAP: usize = 1 << 30;

/// How many of a hundred keys are under each policy, and how often each is charged.
const MIX: [(&str, u32, u32); 4] =
    [("100/min gcra burst=20", 50, 2), ("20/min fixed", 10, 2), ("100/min", 30, 4), ("10/s, 1000/h gcra", 10, 3)];

#[test]
#[ignore = "a measurement"]
fn a_million_keys() {
    let clock = ManualClock::at(Timestamp::new(1_700_000_000_000_000).unwrap());
    let memory = Memory::with_clock(CAP, Box::new(clock.clone()));
    let policies: Vec<Policy> = MIX
        .iter()
        .enumerate()
        .map(|(number, (text, ..))| text.parse::<Policy>().unwrap().with_name(&format!("policy-{number}")).unwrap())
        .collect();
    for (policy, (_, share, charges)) in policies.iter().zip(MIX) {
        let policy = memory.prepare(policy).unwrap();
        for _ in 0..charges {
            for key in 0..KEYS / 100 * share {
                let key = format!("user:{key:011}");
                assert!(memory.check(&policy, key.as_bytes(), &Request::ONE).unwrap().allowed);
            }
            clock.advance(Micros::from_millis(10));
        }
    }
    println!("{:?}", memory.stats());
    for _ in 0..3 {
        let mut bytes = Vec::new();
        let started = Instant::now();
        let written = memory.save_to(&mut bytes).unwrap();
        let saved = started.elapsed();
        let started = Instant::now();
        let clock: Box<dyn Clock> = Box::new(clock.clone());
        let again = Memory::restore_from(&mut &bytes[..], CAP, Some(clock), &policies).unwrap();
        let restored = started.elapsed();
        println!(
            "{written} keys, {} MB: saved in {:.3} s, restored in {:.3} s",
            bytes.len() >> 20,
            saved.as_secs_f64(),
            restored.as_secs_f64()
        );
        assert_eq!((written, again.stats().keys), (KEYS as usize, KEYS as usize));
    }
    // The same charges, replayed as from a journal.
    let replayed = Memory::with_clock(CAP, Box::new(clock.clone()));
    let prepared: Vec<_> = policies.iter().map(|policy| replayed.prepare(policy).unwrap()).collect();
    let keys: Vec<String> = (0..KEYS).map(|key| format!("user:{key:011}")).collect();
    for round in ["new", "known", "known"] {
        for (policy, (text, ..)) in prepared.iter().zip(MIX) {
            let started = Instant::now();
            for key in keys.iter().take(KEYS as usize / 4) {
                replayed.charge_at(policy, key.as_bytes(), 1, clock.now());
            }
            let seconds = started.elapsed().as_secs_f64();
            println!("{} charges of {round} keys replayed in {seconds:.3} s: {text}", KEYS / 4);
        }
        clock.advance(Micros::from_millis(10));
    }
}
