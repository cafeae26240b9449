//! A store that is restored or replayed takes no more memory than the original.

use std::collections::HashMap;

use tollgate_kernel::{Clock, Micros, Policy, Request, Timestamp};
use tollgate_memory::{MIN_CAP, ManualClock, Memory, MemoryPolicy};
use tollgate_random::Rng;

const START: Timestamp = Timestamp::saturating(1_700_000_000_000_000);

/// A text of so many limits, of one of three kinds, that are remembered for minutes or for days.
fn wide(limits: u64, kind: u64, unit: &str) -> String {
    let algorithm = ["fixed", "gcra", ""][kind as usize];
    let limits = (1..=limits).map(|number| format!("1000/{}{unit} {algorithm}", 40 * kind + number));
    limits.collect::<Vec<_>>().join(", ")
}

fn text(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 | 1 => "1/w gcra".to_owned(),
        2 => "1/h".to_owned(),
        3 => format!("3/{}h", 25 + rng.below(40)),
        4 => wide(1 + rng.below(32), rng.below(3), "min"),
        _ => wide(1 + rng.below(32), rng.below(3), "d"),
    }
}

/// Charges random keys under random texts until there is no room for another.
fn fill(memory: &Memory, clock: &ManualClock, rng: &mut Rng, rounds: u64) {
    for _ in 0..rounds {
        let text: Policy = text(rng).parse().unwrap();
        let text = if rng.one_in(8) { text.with_name("named").unwrap() } else { text };
        let policy = memory.prepare_for_caller(&text).unwrap();
        let (from, keys) = (rng.below(30_000), 200 + rng.below(1_000));
        for key in from..from + keys {
            let _ = memory.check(&policy, &key.to_le_bytes(), &Request::ONE);
        }
        clock.advance(Micros::from_secs(rng.below(60)));
    }
}

#[test]
fn a_full_store_takes_no_more_after_it_was_read_back() {
    for seed in 0..3 {
        let (clock, mut rng) = (ManualClock::at(START), Rng::new(seed));
        let mut memory = Memory::with_clock(MIN_CAP, Box::new(clock.clone()));
        for life in 0..4 {
            fill(&memory, &clock, &mut rng, 150);
            let (before, mut bytes) = (memory.stats(), Vec::new());
            memory.save_to(&mut bytes).unwrap();
            memory = Memory::restore_from(&mut bytes.as_slice(), MIN_CAP, Some(Box::new(clock.clone())), &[]).unwrap();
            let after = memory.stats();
            assert!(after.bytes <= before.bytes, "{seed}, {life}: {before:?}, {after:?}");
            assert!(after.bytes <= after.cap);
        }
    }
}

/// Texts under which a key is granted one unit and no more.
const ONCE: [&str; 2] = ["1/w gcra", "1/h"];

/// A store that replays the decisions of another, as a journal does.
struct ReplayedStore {
    memory: Memory,
    policies: HashMap<String, MemoryPolicy>,
}

impl ReplayedStore {
    fn charge(&mut self, by: &Memory, policy: &MemoryPolicy, key: &[u8], units: u64, t: Timestamp) {
        let memory = &self.memory;
        let again = || memory.prepare_again(policy.policy(), true, policy.may_pack()).unwrap();
        let known = self.policies.entry(policy.policy().to_string()).or_insert_with(again);
        if !by.has_buckets(policy) || by.has_place(policy, key) {
            memory.charge_at(known, key, units, t);
        } else {
            memory.charge_bucket_at(known, key, units, t);
        }
    }
}

#[test]
fn a_full_store_replayed_from_another_takes_as_much_memory() {
    for seed in 0..4 {
        let (clock, mut rng) = (ManualClock::at(START), Rng::new(seed));
        let live = Memory::with_clock(MIN_CAP, Box::new(clock.clone()));
        // An empty snapshot passes on the secret.
        let mut bytes = Vec::new();
        live.save_to(&mut bytes).unwrap();
        let memory = Memory::restore_from(&mut bytes.as_slice(), MIN_CAP, Some(Box::new(clock.clone())), &[]).unwrap();
        let (mut granted, mut lost) = (HashMap::new(), 0);
        // The names get other numbers.
        let other: Policy = "1/s".parse().unwrap();
        live.prepare(&other.with_name("first").unwrap()).unwrap();
        let mut replayed = ReplayedStore { memory, policies: HashMap::new() };
        for _ in 0..300 {
            let written = text(&mut rng);
            let policy = live.prepare_for_caller(&written.parse().unwrap()).unwrap();
            let (from, keys) = (rng.below(30_000), 200 + rng.below(1_000));
            for key in from..from + keys {
                let decision = live.check(&policy, &key.to_le_bytes(), &Request::ONE).unwrap();
                if decision.charged > 0 {
                    if ONCE.contains(&written.as_str()) {
                        granted.insert((written.clone(), key), decision.at);
                    }
                    replayed.charge(&live, &policy, &key.to_le_bytes(), decision.charged, decision.at);
                }
            }
            clock.advance(Micros::from_secs(rng.below(60)));
        }
        let (before, after) = (live.stats(), replayed.memory.stats());
        assert!(before.overflow_decisions > 1_000, "{before:?}");
        assert!(after.bytes <= before.bytes + MIN_CAP / 32, "{seed}: {before:?}, {after:?}");
        for ((text, key), at) in granted {
            let policy: Policy = text.parse().unwrap();
            if clock.now().since(at) < policy.limits()[0].period() {
                let policy = replayed.memory.prepare_for_caller(&policy).unwrap();
                let again = replayed.memory.check(&policy, &key.to_le_bytes(), &Request::ONE.peek()).unwrap();
                lost += usize::from(again.allowed);
            }
        }
        assert_eq!(lost, 0, "{seed}: {before:?}, {after:?}");
    }
}
