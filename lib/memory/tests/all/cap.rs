//! What happens at the cap.

use tollgate_kernel::{Clock, Cost, Micros, Mode, Policy, Request, Timestamp};
use tollgate_memory::{ManualClock, Memory, MemoryPolicy, PlacedState};

const CAP: usize = 8 << 20;

fn store(text: &str) -> (Memory, MemoryPolicy, ManualClock) {
    let clock = ManualClock::at(Timestamp::new(1_700_000_000_000_000).unwrap());
    let memory = Memory::with_clock(CAP, Box::new(clock.clone()));
    let prepared = memory.prepare(&text.parse::<Policy>().unwrap()).unwrap();
    (memory, prepared, clock)
}

fn allowed(memory: &Memory, policy: &MemoryPolicy, key: u32) -> bool {
    memory.check(policy, &key.to_le_bytes(), &Request::ONE).unwrap().allowed
}

/// Adds new keys until one shares a bucket; returns how many have a place.
fn fill(memory: &Memory, policy: &MemoryPolicy, from: u32) -> u32 {
    let mut key = from;
    while memory.stats().overflow_decisions == 0 {
        assert!(allowed(memory, policy, key));
        key += 1;
        assert!(key < from + 10_000_000, "the cap is not felt");
    }
    key - 1
}

#[test]
fn logs_that_grow_at_the_cap_stay_within_it_and_admit_no_more() {
    let (memory, policy, clock) = store("300/h");
    let known = fill(&memory, &policy, 0);
    // Every known key is charged one event at a time until it is refused.
    for _ in 0..320 {
        for key in 0..known {
            let _ = allowed(&memory, &policy, key);
        }
        clock.advance(Micros::from_millis(1));
        let stats = memory.stats();
        assert!(stats.bytes <= stats.cap, "{stats:?}");
    }
    assert!((0..known).all(|key| !allowed(&memory, &policy, key)), "all 300 are used, and none came back");
    // Units become free together with later ones, never sooner than an hour after they were used.
    clock.advance(Micros::from_secs(3_600 - 1));
    assert!((0..known).all(|key| !allowed(&memory, &policy, key)));
    clock.advance(Micros::from_secs(2));
    assert!((0..known).all(|key| allowed(&memory, &policy, key)));
}

#[test]
fn a_log_without_memory_to_grow_is_thinned_by_a_charge_and_by_nothing_else() {
    let (memory, policy, clock) = store("300/h");
    let more = memory.prepare(&"200/h, 1000/d".parse().unwrap()).unwrap();
    fill(&memory, &policy, 0);
    let none = Cost::new(0).unwrap();
    let requests = [Request::ONE.peek(), Request::cost(none), Request::cost(none).mode(Mode::Uniform)];
    let state = |key: &[u8]| memory.state(&policy, key);
    let mut thinned = 0;
    for _ in 0..200 {
        clock.advance(Micros::from_millis(1));
        for key in (0..16_u32).map(u32::to_le_bytes) {
            let before = state(&key);
            for (policy, request) in [&policy, &more].into_iter().flat_map(|policy| requests.map(|each| (policy, each)))
            {
                let _ = memory.check(policy, &key, &request).unwrap();
                let _ = memory.check_full(policy, &key, &request).unwrap();
                assert_eq!(memory.refund(policy, &key, none, clock.now()).unwrap(), 0);
            }
            assert_eq!(state(&key), before);
            assert!(memory.check(&policy, &key, &Request::ONE).unwrap().allowed);
            thinned += usize::from(events(&state(&key)) < events(&before));
        }
    }
    assert!(thinned > 0, "no log was too large for the memory that is left");
}

/// Returns a number that is smaller for a state with fewer events.
fn events(state: &PlacedState) -> usize {
    format!("{state:?}").len()
}

#[test]
fn keys_that_are_as_new_make_room_first() {
    let (memory, policy, clock) = store("1/min gcra");
    let first = fill(&memory, &policy, 0);
    assert!(!allowed(&memory, &policy, 0), "a consumed key is not evicted");
    // A minute later all keys have expired, and as many others get a place.
    clock.advance(Micros::from_secs(60));
    let shared = memory.stats().overflow_decisions;
    for key in 10_000_000..10_000_000 + first / 2 {
        assert!(allowed(&memory, &policy, key));
    }
    assert_eq!(memory.stats().overflow_decisions, shared);
    assert!(memory.stats().bytes <= CAP);
}

#[test]
fn newcomers_beyond_the_cap_are_limited_together() {
    for text in ["2/h gcra", "2/h", "2/h fixed, 3/d gcra"] {
        let (memory, policy, _) = store(text);
        let known = fill(&memory, &policy, 0);
        let admitted = (20_000_000..20_100_000).filter(|key| allowed(&memory, &policy, *key)).count();
        let placed = memory.stats().keys.saturating_sub(known as usize);
        let stats = memory.stats();
        // Some pass, but not all: two for each bucket, and the keys that still got a place.
        assert!(admitted >= 1_500 && admitted <= 2 * 1_024 + placed + 1, "{text}: {admitted} {placed} {stats:?}");
        assert!(stats.overflow_buckets > 900 && stats.overflow_buckets <= 1_024, "{stats:?}");
        assert!((0..known).step_by(97).all(|key| allowed(&memory, &policy, key)), "known keys have their own");
        assert!(stats.bytes <= CAP, "{text}: {stats:?}");
    }
}

#[test]
fn many_keys_at_once_and_together_work_at_the_cap_too() {
    let (memory, policy, _) = store("2/h gcra");
    fill(&memory, &policy, 0);
    let keys: Vec<[u8; 4]> = (30_000_000..30_001_000u32).map(u32::to_le_bytes).collect();
    let mut decisions = Vec::new();
    memory.check_many(&policy, &keys, &Request::ONE, &mut decisions).unwrap();
    assert_eq!(decisions.len(), keys.len());
    let one = tollgate_kernel::Cost::ONE;
    let items: Vec<_> = keys.iter().take(20).map(|key| (&policy, &key[..], one)).collect();
    let together = memory.check_all(&items).unwrap();
    let charged: u64 = together.decisions.iter().map(|decision| decision.charged).sum();
    assert_eq!(charged > 0, together.allowed, "all or none");
}

#[test]
fn logs_charged_with_others_stay_within_the_cap_too() {
    let (memory, policy, clock) = store("300/h");
    let known = fill(&memory, &policy, 0);
    for _ in 0..60 {
        for key in 0..known {
            let _ = memory.check_all(&[(&policy, &key.to_le_bytes()[..], tollgate_kernel::Cost::ONE)]).unwrap();
        }
        clock.advance(Micros::from_millis(1));
    }
    assert!(memory.stats().bytes <= CAP, "{:?}", memory.stats());
}

#[test]
fn a_known_key_keeps_what_it_used_under_another_policy_or_mode_of_its_name() {
    let (memory, policy, _) = store("1/h gcra");
    fill(&memory, &policy, 0);
    let more = memory.prepare(&"1/h gcra, 100/d gcra".parse::<Policy>().unwrap()).unwrap();
    assert!(!allowed(&memory, &more, 0));
    let uniform = "1/h gcra".parse::<Policy>().unwrap().with_mode(tollgate_kernel::Mode::Uniform);
    assert!(!allowed(&memory, &memory.prepare(&uniform).unwrap(), 1));
}

#[test]
fn a_known_key_is_charged_in_its_place_under_other_numbers_or_refused() {
    let (memory, policy, _) = store("1/h gcra");
    fill(&memory, &policy, 0);
    // Far more texts than a name has spaces. A key that consumed 1 has one less under each,
    // however often it is checked.
    for count in 2..200u32 {
        let other = memory.prepare(&format!("{count}/h gcra").parse::<Policy>().unwrap()).unwrap();
        let took = (0..2 * count).filter(|_| allowed(&memory, &other, count)).count();
        assert!(took < count as usize, "{took} of {count} an hour");
        assert!(!allowed(&memory, &policy, count));
        assert!(memory.stats().bytes <= CAP, "{:?}", memory.stats());
    }
}

#[test]
fn a_key_that_shared_a_bucket_brings_its_charges_along() {
    let (memory, policy, clock) = store("2/h gcra");
    let known = fill(&memory, &policy, 0);
    // A key that gets no place.
    let shares = |key: &u32| {
        let before = memory.stats().overflow_decisions;
        let peek = memory.check(&policy, &key.to_le_bytes(), &Request::ONE.peek()).unwrap();
        peek.remaining == 2 && memory.stats().overflow_decisions > before
    };
    let newcomer = (40_000_000..40_100_000).find(shares).unwrap();
    let took = (0..3).filter(|_| allowed(&memory, &policy, newcomer)).count();
    assert_eq!(took, 2);
    // Half an hour later all other keys have paid back their units; the new key has paid back half.
    clock.advance(Micros::from_secs(1_801));
    let keys = memory.stats().keys;
    let again = (0..3).filter(|_| allowed(&memory, &policy, newcomer)).count();
    assert!(took + again <= 3, "{took} and {again} of 2 an hour, with {known} others and {keys} keys");
}

#[test]
fn a_key_that_shared_a_bucket_is_held_to_it_after_it_got_a_place_under_another_text() {
    let (memory, policy, clock) = store("2/h gcra");
    fill(&memory, &policy, 0);
    let (week, day) = (memory.prepare(&"1/w gcra".parse().unwrap()), memory.prepare(&"1/d gcra".parse().unwrap()));
    let (week, day) = (week.unwrap(), day.unwrap());
    let shares = |key: &u32| {
        let before = memory.stats().overflow_decisions;
        allowed(&memory, &week, *key) && memory.stats().overflow_decisions > before
    };
    let newcomer = (40_000_000..40_100_000).find(shares).unwrap();
    // An hour later all other keys have expired, and the new key gets a place.
    clock.advance(Micros::from_secs(3_601));
    assert!(allowed(&memory, &day, newcomer));
    assert!(!allowed(&memory, &day, newcomer) && memory.has_place(&day, &newcomer.to_le_bytes()));
    assert!(!allowed(&memory, &week, newcomer), "what it used of a week is still in the bucket");
}

#[test]
fn texts_that_a_bucket_counts_apart_are_not_made_one_when_their_key_finds_a_place() {
    let (memory, policy, clock) = store("2/h gcra");
    fill(&memory, &policy, 0);
    let [seven, hundred] = ["7/w", "100/w"].map(|text| memory.prepare(&text.parse().unwrap()).unwrap());
    let shares = |key: &u32| {
        let before = memory.stats().overflow_decisions;
        allowed(&memory, &hundred, *key) && memory.stats().overflow_decisions > before
    };
    let newcomer = (40_000_000..40_100_000).find(shares).unwrap();
    let took = (0..10).filter(|_| allowed(&memory, &seven, newcomer)).count();
    assert!(took <= 6, "what was used of a hundred counts: {took}");
    // An hour later all other keys have expired, and there are places.
    clock.advance(Micros::from_secs(3_601));
    assert!(allowed(&memory, &hundred, newcomer));
    assert!(!allowed(&memory, &seven, newcomer));
}

#[test]
fn a_flood_of_one_kind_leaves_room_for_another() {
    let (memory, packed, clock) = store("1/min gcra");
    fill(&memory, &packed, 0);
    clock.advance(Micros::from_secs(3_600));
    let logs = memory.prepare(&"5/min".parse::<Policy>().unwrap().with_name("logs").unwrap()).unwrap();
    let before = memory.stats().overflow_decisions;
    assert!((0..1_000).all(|key| allowed(&memory, &logs, key)));
    assert_eq!(memory.stats().overflow_decisions, before);
    // The same with the policies exchanged.
    let (memory, logs, clock) = store("5/min");
    fill(&memory, &logs, 0);
    clock.advance(Micros::from_secs(3_600));
    let packed = memory.prepare(&"1/min gcra".parse::<Policy>().unwrap().with_name("packed").unwrap()).unwrap();
    let before = memory.stats().overflow_decisions;
    assert!((0..10_000).all(|key| allowed(&memory, &packed, key)));
    assert_eq!(memory.stats().overflow_decisions, before);
}

#[test]
fn any_cap_is_taken() {
    for cap in [0, 1, usize::MAX] {
        let memory = Memory::with_clock(cap, Box::new(ManualClock::default()));
        assert!(memory.stats().cap >= tollgate_memory::MIN_CAP);
    }
}
