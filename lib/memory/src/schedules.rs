//! Random schedules of threads on the whole store, which is too large for every interleaving: `cargo xtask models`.

use shuttle::thread;
use tollgate_kernel::{Cost, Decision, Policy, Request, Timestamp};

use crate::clock::ManualClock;
use crate::memory::{MIN_CAP, Memory, MemoryPolicy};

/// Returns the number of schedules tried by each test: half of them random, half with three changes of priority.
fn tried() -> usize {
    std::env::var("TOLLGATE_SCHEDULES").ok().and_then(|tried| tried.parse().ok()).unwrap_or(20_000)
}

fn schedules(run: impl Fn() + Clone + Send + Sync + 'static) {
    shuttle::check_random(run.clone(), tried() / 2);
    shuttle::check_pct(run, tried() / 2, 3);
}

fn store(texts: &[(&str, &str)]) -> (Memory, Vec<MemoryPolicy>) {
    let clock = ManualClock::at(Timestamp::saturating(1_700_000_000_000_000));
    let memory = Memory::with_clock(MIN_CAP, Box::new(clock));
    let prepare = |(name, text): &(&str, &str)| {
        let policy: Policy = text.parse().unwrap();
        memory.prepare(&policy.with_name(name).unwrap()).unwrap()
    };
    let prepared = texts.iter().map(prepare).collect();
    (memory, prepared)
}

fn check(memory: &Memory, policy: &MemoryPolicy) -> Decision {
    memory.check(policy, b"k", &Request::ONE).unwrap()
}

fn admitted_by_two(text: &'static str) {
    schedules(move || {
        let (memory, prepared) = store(&[("p", text)]);
        // The key is known, so both threads decide without the shard's lock.
        let first = u32::from(check(&memory, &prepared[0]).allowed);
        let other = {
            let (memory, policy) = (memory.clone(), prepared[0].clone());
            thread::spawn(move || u32::from(check(&memory, &policy).allowed))
        };
        let mine = u32::from(check(&memory, &prepared[0]).allowed);
        assert_eq!(first + mine + other.join().unwrap(), 2, "no more, and no less");
        assert_eq!(check(&memory, &prepared[0]).remaining, 0);
    });
}

#[test]
fn two_threads_get_what_one_would_from_two_words() {
    admitted_by_two("2/h gcra");
}

#[test]
fn two_threads_get_what_one_would_from_a_log() {
    admitted_by_two("2/h");
}

#[test]
fn two_new_threads_get_what_one_would() {
    schedules(|| {
        let (memory, prepared) = store(&[("p", "1/h fixed")]);
        let other = {
            let (memory, policy) = (memory.clone(), prepared[0].clone());
            thread::spawn(move || u32::from(check(&memory, &policy).allowed))
        };
        let mine = u32::from(check(&memory, &prepared[0]).allowed);
        assert_eq!(mine + other.join().unwrap(), 1);
    });
}

/// Two policies of a name with a common limit, on a key that is new, or packed by either.
fn admitted_by_policies_that_share_a_limit(known: Option<usize>) {
    schedules(move || {
        let (memory, prepared) = store(&[("p", "3/h gcra"), ("p", "2/h gcra"), ("p", "2/h gcra, 9/d")]);
        let first = known.map_or(0, |policy| u32::from(check(&memory, &prepared[policy]).allowed));
        let others = [1, 2].map(|policy| {
            let (memory, policy) = (memory.clone(), prepared[policy].clone());
            thread::spawn(move || u32::from(check(&memory, &policy).allowed))
        });
        let mine = u32::from(check(&memory, &prepared[1]).allowed);
        let theirs: u32 = others.map(|other| other.join().unwrap()).iter().sum();
        assert_eq!(first + mine + theirs, 2, "no more, and no less");
        let left = |policy| memory.check(policy, b"k", &Request::ONE.peek()).unwrap().remaining;
        assert_eq!([0, 1, 2].map(|policy| left(&prepared[policy])), [1, 0, 0]);
        assert_eq!(memory.stats().keys, 1);
    });
}

#[test]
fn threads_of_several_policies_get_what_one_would_from_a_new_key() {
    admitted_by_policies_that_share_a_limit(None);
}

#[test]
fn threads_of_several_policies_get_what_one_would_from_a_known_key() {
    admitted_by_policies_that_share_a_limit(Some(0));
    admitted_by_policies_that_share_a_limit(Some(1));
}

#[test]
fn several_keys_are_charged_together_or_not_at_all() {
    schedules(|| {
        let (memory, prepared) = store(&[("a", "1/h gcra"), ("b", "2/h")]);
        let other = {
            let (memory, policy) = (memory.clone(), prepared[0].clone());
            thread::spawn(move || check(&memory, &policy).allowed)
        };
        let items = [(&prepared[0], &b"k"[..], Cost::ONE), (&prepared[1], &b"k"[..], Cost::ONE)];
        let all = memory.check_all(&items).unwrap();
        let alone = other.join().unwrap();
        assert!(all.allowed != alone, "the one unit of the first goes to one of them");
        let left = memory.check(&prepared[1], b"k", &Request::ONE.peek()).unwrap().remaining;
        assert_eq!(left, if all.allowed { 1 } else { 2 });
    });
}

#[test]
fn a_flood_of_new_keys_keeps_what_is_charged() {
    schedules(|| {
        let (memory, prepared) = store(&[("p", "1/h gcra")]);
        assert!(check(&memory, &prepared[0]).allowed);
        let flood = |from: u32| {
            let (memory, policy) = (memory.clone(), prepared[0].clone());
            thread::spawn(move || {
                for key in from..from + 6 {
                    assert!(memory.check(&policy, &key.to_le_bytes(), &Request::ONE).unwrap().allowed);
                    assert!(!memory.check(&policy, &key.to_le_bytes(), &Request::ONE).unwrap().allowed);
                }
            })
        };
        let floods = [flood(0), flood(100)];
        assert!(!check(&memory, &prepared[0]).allowed);
        floods.into_iter().for_each(|flood| flood.join().unwrap());
        assert!(!check(&memory, &prepared[0]).allowed);
        assert_eq!(memory.stats().keys, 13);
    });
}
