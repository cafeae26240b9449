//! Callers that choose keys, texts and names: no limit admits more than it promises, whatever else is requested and
//! however little memory there is, and no more memory is used than the cap allows.

use std::collections::HashMap;

use tollgate_kernel::{Clock, Cost, LimitId, Micros, Policy, Request, Source, Timestamp};
use tollgate_memory::{MIN_CAP, ManualClock, Memory, MemoryPolicy};
use tollgate_random::Rng;

const START: Timestamp = Timestamp::saturating(1_700_000_000_000_000);

fn store(cap: usize) -> (Memory, ManualClock) {
    let clock = ManualClock::at(START);
    (Memory::with_clock(cap, Box::new(clock.clone())), clock)
}

fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

fn prepare(memory: &Memory, text: &str) -> MemoryPolicy {
    memory.prepare(&policy(text)).unwrap()
}

fn admitted(memory: &Memory, policy: &MemoryPolicy, keys: std::ops::Range<u32>) -> usize {
    let check = |key: u32| memory.check(policy, &key.to_le_bytes(), &Request::ONE).unwrap();
    keys.filter(|key| check(*key).allowed).count()
}

fn within(memory: &Memory) -> bool {
    memory.stats().bytes <= memory.stats().cap
}

/// A text of 32 limits that differ from those of every other number.
fn wide(number: u64) -> String {
    let limits = (1..=32).map(|minutes| format!("1000000/{}min fixed", 100 * minutes + number));
    limits.collect::<Vec<_>>().join(", ")
}

#[test]
fn known_keys_that_need_a_record_do_not_become_unlimited() {
    let (memory, _) = store(MIN_CAP);
    let (packed, logged) = (prepare(&memory, "1/w gcra"), prepare(&memory, "1/h"));
    let known = admitted(&memory, &packed, 0..100_000) as u32;
    assert!(known > 40_000 && within(&memory));
    // Some keys get memory for another limit, the others share the buckets; no key passes twice.
    let first = admitted(&memory, &logged, 0..known);
    assert!(first > 100 && within(&memory), "{first} {:?}", memory.stats());
    for _ in 0..3 {
        assert_eq!(admitted(&memory, &logged, 0..known), 0);
        assert_eq!(admitted(&memory, &packed, 0..known), 0);
    }
    assert!(within(&memory), "{:?}", memory.stats());
}

#[test]
fn a_policy_that_gets_a_limit_more_holds_known_keys_to_all_of_them() {
    let (memory, clock) = store(MIN_CAP);
    let named = |text: &str| memory.prepare(&policy(text).with_name("api").unwrap()).unwrap();
    let before = named("5/w gcra");
    let keys = 0..60_000;
    let known = admitted(&memory, &before, keys.clone()) as u32;
    let after = named("5/w gcra, 2/d");
    let mut each = HashMap::<u32, u32>::new();
    for _ in 0..8 {
        for key in 0..known {
            let allowed = memory.check(&after, &key.to_le_bytes(), &Request::ONE).unwrap().allowed;
            *each.entry(key).or_default() += u32::from(allowed);
        }
        assert!(within(&memory), "{:?}", memory.stats());
    }
    assert!(each.values().all(|admitted| *admitted <= 2), "{:?}", each.values().max());
    assert!(each.values().filter(|admitted| **admitted == 2).count() > 100, "many found a place");
    // Days later the second limit has all of its two a day again, and the first still has its consumption.
    clock.advance(Micros::from_secs(86_400));
    let gone = admitted(&memory, &after, 0..1_000) + admitted(&memory, &after, 0..1_000);
    assert!(gone > 0 && gone <= 2_000);
    assert_eq!(admitted(&memory, &after, 0..1_000), 0);
}

#[test]
fn texts_of_very_many_limits_stay_within_the_cap() {
    let (memory, _) = store(8 << 20);
    let texts: Vec<MemoryPolicy> = (0..3).map(|number| prepare(&memory, &wide(number))).collect();
    let plain = prepare(&memory, "1/w gcra");
    admitted(&memory, &plain, 0..60_000);
    for text in &texts {
        admitted(&memory, text, 0..60_000);
        assert!(within(&memory), "{:?}", memory.stats());
    }
    assert_eq!(admitted(&memory, &plain, 0..60_000), 0);
}

#[test]
fn a_text_pushes_no_other_limit_out_and_looking_changes_nothing() {
    let (memory, _) = store(MIN_CAP);
    let check = |text: &str, request: Request| memory.check(&prepare(&memory, text), b"u", &request).unwrap();
    let five = Request::cost(Cost::new(5).unwrap());
    assert!(check("5/min name=api", five).allowed);
    // The same name under another algorithm: a peek, a request of cost 0 and a refund with nothing to refund.
    assert!(check("1/s gcra name=api", Request::ONE.peek()).allowed);
    assert!(check("1/s gcra name=api", Request::cost(Cost::new(0).unwrap())).allowed);
    memory.refund(&prepare(&memory, "1/s gcra name=api"), b"u", Cost::ONE, START).unwrap();
    assert!(!check("5/min name=api", Request::ONE).allowed);
    // After a charge, both are stored.
    assert!(check("1/s gcra name=api", Request::ONE).allowed);
    assert!(!check("5/min name=api", Request::ONE).allowed && !check("1/s gcra name=api", Request::ONE).allowed);
    // More texts than a key can store: the last ones are refused, and no earlier one is dropped.
    let texts: Vec<String> = (1..=80).map(|days| format!("1/{days}d")).collect();
    let passed = texts.iter().filter(|text| check(text, Request::ONE).allowed).count();
    assert!((60..=64).contains(&passed), "{passed}");
    let refused = check("1/79d", Request::ONE);
    assert_eq!((refused.allowed, refused.source), (false, Source::Closed));
    assert!(!check("5/min name=api", Request::ONE).allowed, "it is still remembered");
    assert!(texts.iter().all(|text| !check(text, Request::ONE).allowed));
    // A limit that the key cannot store is refused for peeks too.
    assert_eq!(check("1/79d", Request::ONE.peek()).source, Source::Closed);
}

#[test]
fn a_look_under_a_smaller_burst_lets_nothing_be_forgotten_sooner() {
    let (memory, clock) = store(MIN_CAP);
    let (large, small) = (prepare(&memory, "10/h gcra, 9/d"), prepare(&memory, "10/h gcra burst=1, 9/d"));
    let check = |policy: &MemoryPolicy, request: Request| memory.check(policy, b"u", &request).unwrap();
    assert!(check(&large, Request::cost(Cost::new(9).unwrap())).allowed);
    assert!(!check(&small, Request::ONE).allowed);
    assert!(!check(&small, Request::ONE.peek()).allowed);
    clock.advance(Micros::from_secs(900));
    let fill = prepare(&memory, "1/w gcra");
    admitted(&memory, &fill, 0..100_000);
    assert_eq!(check(&large, Request::ONE.peek()).remaining, 0, "nine a day are used up");
}

#[test]
fn pairs_that_share_a_bucket_are_held_to_the_limits_of_each() {
    let (memory, _) = store(MIN_CAP);
    let (fill, wide, narrow) = (prepare(&memory, "1/w gcra"), prepare(&memory, "100000/d"), prepare(&memory, "1/d"));
    let mut number = 0u32;
    while memory.stats().overflow_decisions == 0 {
        admitted(&memory, &fill, number..number + 1_000);
        number += 1_000;
    }
    // The remaining memory for records is used up too.
    let logs = prepare(&memory, "1/30d");
    admitted(&memory, &logs, 50_000_000..50_100_000);
    let mut passed = 0;
    for pair in 0..20_000u32 {
        let keys = [60_000_000 + 2 * pair, 60_000_001 + 2 * pair].map(u32::to_le_bytes);
        let items = [(&wide, &keys[0][..], Cost::ONE), (&narrow, &keys[1][..], Cost::ONE)];
        passed += usize::from(memory.check_all(&items).unwrap().allowed);
        assert!(within(&memory));
    }
    // At most one per bucket: the second text of a pair allows one a day, whichever text fills the bucket first.
    assert!(passed <= 1_024, "{passed}");
}

#[test]
fn a_key_that_got_a_slot_and_nothing_else_still_has_what_it_used_of_a_bucket() {
    let (memory, clock) = store(MIN_CAP);
    let (fill, policy) = (prepare(&memory, "1/min gcra"), prepare(&memory, "7/w gcra"));
    admitted(&memory, &fill, 0..200_000);
    // Keys without a place of their own use one unit each in their buckets.
    let keys: Vec<u32> = (60_000_000..60_000_100).collect();
    let used: Vec<u32> = keys.into_iter().filter(|key| admitted(&memory, &policy, *key..*key + 1) == 1).collect();
    // A minute later there is room. They get slots from a call that charges nothing.
    clock.advance(Micros::from_secs(120));
    let never = prepare(&memory, "1/d fixed");
    assert!(memory.check(&never, b"spent", &Request::ONE).unwrap().allowed);
    for key in &used {
        let items = [(&policy, &key.to_le_bytes()[..], Cost::ONE), (&never, &b"spent"[..], Cost::ONE)];
        assert!(!memory.check_all(&items).unwrap().allowed);
        let more = (0..7).filter(|_| admitted(&memory, &policy, *key..*key + 1) == 1).count();
        assert!(more <= 6, "{more} after one of seven");
    }
    assert!(used.len() > 50);
}

#[test]
fn a_flood_under_other_policies_leaves_a_packed_policy_its_buckets() {
    let (memory, _) = store(MIN_CAP);
    let named = |name: &str, text: &str| memory.prepare(&policy(text).with_name(name).unwrap()).unwrap();
    let texts = ["300/h, 1000/d", "50/h", "7/w gcra", "5/d fixed", "20/min, 90/h, 300/d", "9/d fixed, 4/h gcra"];
    let flooded: Vec<_> = (0..24).map(|name| named(&format!("p{name}"), texts[name % texts.len()])).collect();
    let gate = named("gate", "1000000/s gcra");
    for round in 0..4 {
        for (number, policy) in flooded.iter().enumerate() {
            let from = 1_000_000 * number as u32;
            admitted(&memory, policy, from..from + 20_000);
        }
        let keys = 90_000_000 + 1_000 * round..90_001_000 + 1_000 * round;
        assert_eq!(admitted(&memory, &gate, keys), 1_000, "round {round}: {:?}", memory.stats());
        assert!(within(&memory));
    }
    assert!(memory.stats().overflow_decisions > 100_000, "the flood does not fill the store: {:?}", memory.stats());
}

#[test]
fn names_that_callers_bring_take_no_number_and_reach_no_named_policy() {
    let (memory, _) = store(MIN_CAP);
    let five = Request::cost(Cost::new(5).unwrap());
    let own = memory.prepare(&policy("5/min").with_name("api").unwrap()).unwrap();
    assert!(memory.check(&own, b"u", &five).unwrap().allowed);
    let theirs = |name: &str, text: &str| memory.prepare_for_caller(&policy(text).with_name(name).unwrap()).unwrap();
    let mine = theirs("api", "5/min");
    assert!(memory.check(&mine, b"u", &five).unwrap().allowed, "a state of its own");
    assert!(!memory.check(&mine, b"u", &Request::ONE).unwrap().allowed);
    memory.reset(&mine, b"u").unwrap();
    assert!(!memory.check(&own, b"u", &Request::ONE).unwrap().allowed);
    for number in 0..40_000 {
        let name = theirs(&format!("n{number}"), "1/s gcra");
        if number % 1_000 == 0 {
            assert!(memory.check(&name, b"u", &Request::ONE).unwrap().allowed, "names are kept apart");
            assert!(!memory.check(&name, b"u", &Request::ONE).unwrap().allowed);
        }
    }
    assert!(memory.prepare(&policy("1/s").with_name("one-more").unwrap()).is_ok());
}

/// The units granted to each limit of each key. The clock stands still, so no unit becomes free again.
#[derive(Default)]
struct Ledger(HashMap<(String, u32, LimitId), (u64, u64)>);

impl Ledger {
    fn grant(&mut self, policy: &Policy, key: u32, units: u64) {
        for limit in policy.limits() {
            let id = (policy.name().to_owned(), key, limit.id().clone());
            let (granted, most) = self.0.entry(id).or_insert((0, limit.count()));
            *granted += units;
            assert!(*granted <= *most, "{} {key} {limit}: {granted} of {most}", policy.name());
        }
    }
}

#[test]
fn random_callers_at_the_cap_get_no_more_than_any_limit_has() {
    let texts = [
        "2/w gcra",
        "2/w gcra, 3/d",
        "3/d",
        "3/d, 4/30d fixed",
        "4/30d fixed",
        "7/5d slots resolution=1d",
        "3/d, 2/w gcra, 9/90d",
        "5/40d",
        "6/50d estimate",
    ];
    for (seed, cap) in [(1, MIN_CAP), (2, MIN_CAP), (3, 6 << 20)] {
        let (memory, _) = store(cap);
        let (mut rng, mut ledger) = (Rng::new(seed), Ledger::default());
        let texts = texts.iter().map(|text| text.to_string()).chain((0..3).map(wide));
        let mut policies: Vec<(Policy, MemoryPolicy)> = Vec::new();
        for (number, text) in texts.enumerate() {
            let bare = policy(&text);
            let named = bare.clone().with_name(if number % 2 == 0 { "api" } else { "web" }).unwrap();
            policies.push((bare.clone(), memory.prepare_for_caller(&bare).unwrap()));
            policies.push((named.clone(), memory.prepare(&named).unwrap()));
        }
        for step in 0..150_000u64 {
            // Many keys are new, many were used a few times, and few were used often.
            let key = match rng.below(4) {
                0 => rng.below(50) as u32,
                1 => rng.below(5_000) as u32,
                _ => rng.below(1 + step) as u32,
            };
            let (policy, prepared) = &policies[rng.index(policies.len())];
            let bytes = key.to_le_bytes();
            match rng.below(10) {
                0 => _ = memory.check(prepared, &bytes, &Request::ONE.peek()).unwrap(),
                1 => _ = memory.refund(prepared, &bytes, Cost::new(0).unwrap(), START).unwrap(),
                2 => {
                    let other = key.wrapping_add(1 + rng.below(9) as u32);
                    let (second, also) = &policies[rng.index(policies.len())];
                    let items = [(prepared, &bytes[..], Cost::ONE), (also, &other.to_le_bytes()[..], Cost::ONE)];
                    if memory.check_all(&items).unwrap().allowed {
                        ledger.grant(policy, key, 1);
                        ledger.grant(second, other, 1);
                    }
                }
                _ => {
                    let decision = memory.check(prepared, &bytes, &Request::ONE).unwrap();
                    if decision.allowed {
                        ledger.grant(policy, key, 1);
                    }
                }
            }
            assert!(within(&memory), "{:?}", memory.stats());
        }
        assert!(memory.stats().overflow_decisions > 8_000, "{:?}", memory.stats());
        // A saved store is restored under the same cap, and loses nothing.
        let mut bytes = Vec::new();
        memory.save_to(&mut bytes).unwrap();
        let given: Vec<Policy> = policies.iter().map(|(policy, _)| policy.clone()).collect();
        let again = Memory::restore_from(&mut &bytes[..], cap, Some(Box::new(ManualClock::at(START))), &given).unwrap();
        assert!(within(&again), "{:?}", again.stats());
        for _ in 0..30_000 {
            let (policy, key) = (&policies[rng.index(policies.len())].0, rng.below(5_000) as u32);
            let prepared =
                if policy.name().is_empty() { again.prepare_for_caller(policy) } else { again.prepare(policy) };
            if again.check(&prepared.unwrap(), &key.to_le_bytes(), &Request::ONE).unwrap().allowed {
                ledger.grant(policy, key, 1);
            }
        }
    }
}

#[test]
fn what_keys_used_of_a_bucket_is_not_paid_back_under_another_text() {
    let (memory, clock) = store(MIN_CAP);
    let [seven, one] = ["7/w gcra", "1/w gcra"].map(|text| prepare(&memory, text));
    let mut filler = 0;
    while memory.stats().overflow_decisions < 2_000 {
        filler += 1;
        let _ = memory.check(&one, &u32::to_le_bytes(filler), &Request::ONE).unwrap();
    }
    // Keys without a place use up their buckets.
    let one_of = |policy: &MemoryPolicy, key: u32| admitted(&memory, policy, key..key + 1) == 1;
    let mut used: Vec<u32> = (50_000_000..50_005_000).filter(|key| one_of(&seven, *key)).collect();
    used.iter().for_each(|key| while one_of(&seven, *key) {});
    used.retain(|key| !memory.has_place(&seven, &key.to_le_bytes()));
    // Under a smaller count, more than its burst is owed. A journal reports charges that were granted elsewhere.
    for key in &used {
        memory.charge_bucket_at(&one, &key.to_le_bytes(), 1, clock.now());
    }
    let again = used.iter().filter(|key| one_of(&seven, **key)).count();
    assert!(used.len() > 100 && again == 0, "{again} of {}", used.len());
}
