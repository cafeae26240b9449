//! Several policies under one name, as with bare texts: each packs the keys that are used under it alone, and a key
//! used under several has one state for each limit id, as in the kernel.

use std::collections::HashMap;

use tollgate_kernel::{Clock, Cost, JointRequest, KeyState, Micros, Mode, Policy, Request, Timestamp, decide_all};
use tollgate_memory::{MIN_CAP, ManualClock, Memory, MemoryPolicy};
use tollgate_random::Rng;

const START: u64 = 1_700_000_000_000_000;
/// The number of policies of a name that pack their keys.
const MAX: usize = 64;

fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

fn store(cap: usize) -> (Memory, ManualClock) {
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    (Memory::with_clock(cap, Box::new(clock.clone())), clock)
}

fn prepare(memory: &Memory, texts: &[impl AsRef<str>]) -> Vec<MemoryPolicy> {
    texts.iter().map(|text| memory.prepare(&policy(text.as_ref())).unwrap()).collect()
}

fn allowed(memory: &Memory, policy: &MemoryPolicy, key: u32) -> bool {
    memory.check(policy, &key.to_le_bytes(), &Request::ONE).unwrap().allowed
}

/// Texts of which some have limits of the same id, and some have the same limits beside other limits.
const TEXTS: [&str; 12] = [
    "5/s gcra",
    "7/s gcra",
    "5/s gcra burst=9",
    "4/s fixed",
    "6/s",
    "6/s, 5/s gcra",
    "5/s gcra, 40/min fixed",
    "40/min fixed",
    "3/s spacing=50ms",
    "8/s estimate",
    "15/10s bucket burst=3",
    "9/10s gcra name=steady",
];

/// More policies than a name has spaces, in random order.
fn many_texts() -> Vec<String> {
    let more = (0..70).map(|number| match number % 4 {
        0 => format!("{}/s gcra", 10 + number),
        1 => format!("{}/s gcra name=n{number}", 3 + number % 5),
        2 => format!("{}/min fixed name=n{}", 5 + number, number % 8),
        _ => format!("{}/s, 5/s gcra name=n{number}", 3 + number % 7),
    });
    TEXTS.iter().map(|text| text.to_string()).chain(more).collect()
}

/// A store and the kernel, which receive the same requests.
struct Run {
    memory: Memory,
    clock: ManualClock,
    rng: Rng,
    policies: Vec<Policy>,
    prepared: Vec<MemoryPolicy>,
    states: HashMap<u64, KeyState>,
    charges: Vec<(usize, u64, u64, Timestamp)>,
    /// Whether the clock is set back sometimes. Keys are then used under one policy each: the store and the kernel
    /// may drop expired cells of other policies at different times, and a clock that is set back makes that visible.
    back: bool,
}

const KEYS: u64 = 24;

impl Run {
    fn new(seed: u64, texts: &[String], back: bool) -> Self {
        let (memory, clock) = store(MIN_CAP);
        let policies: Vec<Policy> = texts.iter().map(|text| policy(text)).collect();
        let prepared = prepare(&memory, texts);
        Self {
            memory,
            clock,
            rng: Rng::new(seed),
            policies,
            prepared,
            states: HashMap::new(),
            charges: Vec::new(),
            back,
        }
    }

    fn pass_time(&mut self) {
        let now = self.clock.now().get();
        let moved = match self.rng.below(20) {
            0..6 => now,
            6..16 => now + self.rng.below(200_000),
            16 => now + self.rng.below(5_000_000),
            17 => now + self.rng.below(100_000_000_000),
            18 if self.back => now - self.rng.below(300_000),
            19 if self.back => now - self.rng.below(20_000_000),
            _ => now,
        };
        self.clock.set(Timestamp::new(moved).unwrap());
    }

    /// Returns a policy and a key. A third of the keys is used under one policy, a third under two, the rest
    /// under all.
    fn choose(&mut self) -> (usize, u64) {
        let (key, any) = (self.rng.below(KEYS), self.policies.len() as u64);
        let place = match key % 3 {
            _ if self.back => key * 7 % any,
            0 => key * 7 % any,
            1 => (key * 7 + self.rng.below(2)) % any,
            _ => self.rng.below(any),
        };
        (place as usize, key)
    }

    fn step(&mut self) {
        self.pass_time();
        let ((place, key), t) = (self.choose(), self.clock.now());
        let (policy, prepared) = (&self.policies[place], &self.prepared[place]);
        let cost = if self.rng.below(3) > 0 { 1 } else { self.rng.below(9) };
        let mut request = Request::cost(Cost::new(cost).unwrap());
        request.mode = match self.rng.below(8) {
            0 => Some(Mode::Nary),
            1 => Some(Mode::Uniform),
            _ => None,
        };
        let bytes = key.to_be_bytes();
        match self.rng.below(20) {
            0..13 => {
                let expected = self.states.entry(key).or_default().decide(policy, t, &request);
                if expected.charged > 0 {
                    self.charges.push((place, key, expected.charged, t));
                }
                assert_eq!(self.memory.check(prepared, &bytes, &request).unwrap(), expected, "{policy} {key}");
            }
            13..15 => {
                let expected = self.states.entry(key).or_default().decide_full(policy, t, &request);
                assert_eq!(self.memory.check_full(prepared, &bytes, &request).unwrap(), expected, "{policy} {key}");
            }
            15 => {
                self.states.entry(key).or_default().reset(policy, t);
                self.memory.reset(prepared, &bytes).unwrap();
            }
            16 => self.refund(t),
            17 => self.check_all(t),
            _ => {
                let (any, back) = (self.policies.len() as u64, self.back);
                let mut keys: Vec<u64> = (0..20).map(|_| self.rng.below(KEYS)).collect();
                keys.retain(|key| !back || key * 7 % any == place as u64);
                let keys: Vec<[u8; 8]> = keys.into_iter().map(u64::to_be_bytes).collect();
                let mut decisions = Vec::new();
                self.memory.check_many(prepared, &keys, &request, &mut decisions).unwrap();
                for (key, decision) in keys.iter().zip(decisions) {
                    let state = self.states.entry(u64::from_be_bytes(*key)).or_default();
                    assert_eq!(decision, state.decide(policy, t, &request), "{policy} {key:?}");
                }
            }
        }
    }

    fn refund(&mut self, t: Timestamp) {
        let Some((place, key, units, at)) = self.charges.pop() else { return };
        let expected = self.states.entry(key).or_default().refund(&self.policies[place], t, units, at);
        let units = Cost::new(units).unwrap();
        let found = self.memory.refund(&self.prepared[place], &key.to_be_bytes(), units, at).unwrap();
        assert_eq!(found, expected, "{} {key}", self.policies[place]);
    }

    fn check_all(&mut self, t: Timestamp) {
        let mut chosen: Vec<(usize, u64)> = (0..3).map(|_| self.choose()).collect();
        chosen.sort_by_key(|(_, key)| *key);
        chosen.dedup_by_key(|(_, key)| *key);
        let of = |place: usize| &self.policies[place];
        let mut cells: Vec<_> = chosen
            .iter()
            .map(|(place, key)| self.states.entry(*key).or_default().cells_of(of(*place), t).to_vec())
            .collect();
        let parts = chosen.iter().zip(&mut cells);
        let mut parts: Vec<JointRequest<'_>> =
            parts.map(|((place, _), cells)| JointRequest { policy: of(*place), cells, cost: Cost::ONE, t }).collect();
        let expected = decide_all(&mut parts);
        for ((place, key), cells) in chosen.iter().zip(cells) {
            self.states.entry(*key).or_default().cells_of(of(*place), t).clone_from_slice(&cells);
        }
        let keys: Vec<[u8; 8]> = chosen.iter().map(|(_, key)| key.to_be_bytes()).collect();
        let items = chosen.iter().zip(&keys);
        let items: Vec<_> = items.map(|((place, _), key)| (&self.prepared[*place], &key[..], Cost::ONE)).collect();
        assert_eq!(self.memory.check_all(&items).unwrap(), expected, "{chosen:?}");
    }
}

#[test]
fn keys_under_one_or_several_texts_decide_as_the_kernel_does() {
    let few: Vec<String> = TEXTS.iter().map(|text| text.to_string()).collect();
    let many = many_texts();
    assert!(many.len() > MAX);
    for seed in 0..12 {
        for texts in [&few[..2], &few, &many] {
            for back in [false, true] {
                let mut run = Run::new(seed, texts, back);
                (0..4_000).for_each(|_| run.step());
            }
        }
    }
}

/// Returns the bytes per key that is new under this policy.
fn bytes_a_key(memory: &Memory, policy: &MemoryPolicy, from: u32) -> usize {
    const KEYS: u32 = 20_000;
    let before = memory.stats();
    assert!((from..from + KEYS).all(|key| allowed(memory, policy, key)));
    let after = memory.stats();
    assert_eq!((after.keys - before.keys, after.overflow_decisions), (KEYS as usize, 0));
    (after.bytes - before.bytes) / KEYS as usize
}

#[test]
fn the_first_policies_of_a_name_take_a_slot_a_key_and_later_ones_a_record() {
    let (memory, _) = store(64 << 20);
    let texts: Vec<String> = (1..=MAX + 2).map(|count| format!("{count}/h gcra")).collect();
    let prepared = prepare(&memory, &texts);
    let mut from = 0;
    for (place, packs) in [(0, true), (1, true), (MAX - 1, true), (MAX, false), (MAX + 1, false)] {
        let bytes = bytes_a_key(&memory, &prepared[place], from);
        assert_eq!(bytes < 64, packs, "policy {place}: {bytes} bytes a key");
        from += 1_000_000;
    }
    // The same limits in another mode are the same policy; each name has its own policies.
    let uniform = memory.prepare(&policy("64/h gcra").with_mode(Mode::Uniform)).unwrap();
    assert!(bytes_a_key(&memory, &uniform, from) < 64);
    let named = memory.prepare(&policy("66/h gcra").with_name("named").unwrap()).unwrap();
    assert!(bytes_a_key(&memory, &named, from) < 64);
    // Preparing each of them again returns the same space.
    let again = prepare(&memory, &texts);
    assert!(bytes_a_key(&memory, &again[MAX - 1], from + 1_000_000) < 64);
}

#[test]
fn logs_of_every_policy_take_what_those_of_the_first_do() {
    let (memory, _) = store(64 << 20);
    let prepared = prepare(&memory, &["50/h", "60/h", "70/min, 80/h gcra", "90/min, 80/h gcra"]);
    let bytes: Vec<usize> =
        prepared.iter().zip(1..).map(|(policy, number)| bytes_a_key(&memory, policy, number * 1_000_000)).collect();
    assert!(bytes[1] < bytes[0] + bytes[0] / 8, "{bytes:?}");
    assert!(bytes[3] < bytes[2] + bytes[2] / 8, "{bytes:?}");
}

#[test]
fn keys_that_find_no_room_share_the_buckets_of_their_name_under_all_its_policies() {
    let (memory, clock) = store(8 << 20);
    let prepared = prepare(&memory, &["2/h gcra", "3/h gcra", "1/h fixed", "2/h gcra, 1/d", "5/h"]);
    let mut known = 0;
    while memory.stats().overflow_decisions == 0 {
        assert!(allowed(&memory, &prepared[known as usize % 2], known));
        known += 1;
        assert!(known < 10_000_000, "the cap is not felt");
    }
    let known = known - 1;
    let flood = |policy: &MemoryPolicy, from: u32| {
        // So many keys get no place that each bucket receives far more requests than it admits.
        let (before, mut admitted) = (memory.stats(), 0);
        for key in from..from + 900_000 {
            admitted += usize::from(allowed(&memory, policy, key));
            if memory.stats().overflow_decisions - before.overflow_decisions >= 30_000 {
                break;
            }
        }
        (admitted, memory.stats().keys - before.keys)
    };
    // The first policy fills the buckets; the second has one unit more in each, in the same state.
    let (first, placed) = flood(&prepared[0], 20_000_000);
    assert!(first > 2_000 && first <= 2 * 1_024 + placed, "{first} {placed}");
    let (second, placed) = flood(&prepared[1], 21_000_000);
    assert!(second > 1_000 && second <= 1_024 + placed, "{second} {placed}");
    // Another limit has a separate state there.
    let (third, placed) = flood(&prepared[2], 22_000_000);
    assert!(third > 1_000 && third <= 1_024 + placed, "{third} {placed}");
    // A policy that shares a limit with the first has nothing left of it.
    let (fourth, placed) = flood(&prepared[3], 23_000_000);
    assert!(fourth <= placed, "{fourth} {placed}");
    let (fifth, placed) = flood(&prepared[4], 24_000_000);
    // There may be memory for it in some of the buckets; in the others it is refused.
    assert!(fifth <= 5 * 1_024 + placed, "{fifth} {placed}");
    assert!(memory.stats().overflow_buckets <= 1_024, "{:?}", memory.stats());
    // Known keys keep their units, under the policy that packed them and under one that shares its limit. Another limit
    // of theirs gets memory of its own, or is decided in the buckets, which have nothing left.
    for key in (0..known).step_by(101) {
        let left = |policy: usize| {
            memory.check(&prepared[policy], &key.to_le_bytes(), &Request::ONE.peek()).unwrap().remaining
        };
        assert_eq!((left(0), left(1)), (1, 2), "{key}");
        assert!(left(2) <= 1, "{key}");
    }
    assert!(memory.stats().bytes <= memory.stats().cap);
    clock.advance(Micros::from_secs(2 * 86_400));
    let shared = memory.stats().overflow_decisions;
    assert!((30_000_000..30_010_000).all(|key| allowed(&memory, &prepared[key as usize % 3], key)));
    assert_eq!(memory.stats().overflow_decisions, shared, "forgotten keys of any policy make room");
}

#[test]
fn threads_get_what_the_limits_say_under_several_policies() {
    let memory = Memory::new(64 << 20);
    // The second and third share a limit; the fourth has one of its own.
    let texts = ["40/h gcra burst=40", "50/d", "50/d, 10000/h fixed", "30/d fixed"];
    let prepared = prepare(&memory, &texts);
    let admitted = |thread: u32| {
        let mut admitted = [0u32; 4];
        for round in 0..40 * 50 {
            // Half of the keys are used under all policies, the others under one each.
            let (key, policy) = (round % 40, ((round / 40 + thread) % 4) as usize);
            if key % 2 == 0 || key as usize / 2 % 4 == policy {
                admitted[policy] += u32::from(allowed(&memory, &prepared[policy], key));
            }
        }
        admitted
    };
    let totals = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || admitted(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).fold([0; 4], |mut all: [u32; 4], more| {
            all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
            all
        })
    });
    // Twenty keys are used under all policies and five under each one; every key received more requests than fit.
    assert_eq!(totals[0], 40 * 25);
    assert_eq!(totals[1] + totals[2], 50 * 20 + 50 * 10);
    assert_eq!(totals[3], 30 * 25);
}

#[test]
fn each_text_is_decided_by_its_own_clock_whatever_its_key_was_used_under_before() {
    let (memory, clock) = store(MIN_CAP);
    let prepared = prepare(&memory, &["5/h", "1/h fixed align=clock"]);
    assert!(allowed(&memory, &prepared[1], 1) && !allowed(&memory, &prepared[1], 1));
    // The keys are used under the steady clock first.
    assert!(allowed(&memory, &prepared[0], 2) && allowed(&memory, &prepared[1], 2));
    clock.set_wall(Timestamp::new(START + 3_600_000_000).unwrap());
    assert!(allowed(&memory, &prepared[1], 1), "the machine's next hour");
    assert!(allowed(&memory, &prepared[1], 2), "also for a key that was used under the steady clock first");
    assert!(allowed(&memory, &prepared[1], 3) && allowed(&memory, &prepared[0], 3));
    clock.set_wall(Timestamp::new(START + 7_200_000_000).unwrap());
    let left = |key: u32| memory.check(&prepared[0], &key.to_le_bytes(), &Request::ONE.peek()).unwrap().remaining;
    assert_eq!((left(1), left(2), left(3)), (5, 4, 4), "the steady clock decides the others, and stands");
    // The machine's clock is set back and ahead by days. Keys that are used under other texts then keep what they used.
    let more = prepare(&memory, &["9/w gcra", "7/2h", "3/h fixed"]);
    for (days, policy) in [(0, &more[0]), (-3, &more[1]), (3, &more[2]), (-3, &more[0])] {
        let wall = (START as i64 + days * 86_400_000_000) as u64;
        clock.set_wall(Timestamp::new(wall).unwrap());
        assert!(allowed(&memory, policy, 2));
        assert_eq!(left(2), 4, "{days}");
    }
    let left =
        |policy: &MemoryPolicy| memory.check(policy, &2u32.to_le_bytes(), &Request::ONE.peek()).unwrap().remaining;
    assert_eq!([&more[0], &more[1], &more[2]].map(left), [7, 6, 2]);
}
