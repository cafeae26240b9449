//! Stores whose names have several policies, saved to files and restored.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_kernel::algorithms::{Rule, sliding::Sliding, slots::Slots};
use tollgate_kernel::{Limit, Micros, Policy, Request, Timestamp};
use tollgate_memory::{MAX_NAMES, MIN_CAP, ManualClock, Memory, MemoryPolicy};

const START: u64 = 1_700_000_000_000_000;
const KEYS: u32 = 20;
/// Written by a store of version 1, which had one policy per name, after [`charge`] with [`POLICIES`].
const VERSION_1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/version-1.snapshot");
/// The same from a store of version 2, which had 4,096 names.
const VERSION_2: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/version-2.snapshot");
const VERSION_3: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/version-3.snapshot");

const POLICIES: [(&str, &str); 6] = [
    ("", "5/h"),
    ("", "3/min gcra"),
    ("g", "10/min gcra burst=4"),
    ("m", "3/s, 20/min gcra name=steady, 100/h fixed align=clock"),
    ("f", "7/min fixed"),
    ("", "9/min gcra, 40/h fixed"),
];

fn policy((name, text): &(&str, &str)) -> Policy {
    let policy: Policy = text.parse().unwrap();
    if name.is_empty() { policy } else { policy.with_name(name).unwrap() }
}

/// A file for one test, removed when it ends.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let file = format!("tollgate-policies-{name}-{}.snapshot", std::process::id());
        Self(std::env::temp_dir().join(file))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::new(START).unwrap())
}

fn empty(clock: &ManualClock) -> Memory {
    Memory::with_clock(MIN_CAP, Box::new(clock.clone()))
}

fn restored(path: &Path, clock: &ManualClock, policies: &[Policy]) -> Memory {
    Memory::restore(path, MIN_CAP, Some(Box::new(clock.clone())), policies).unwrap()
}

fn prepare(memory: &Memory) -> Vec<MemoryPolicy> {
    POLICIES.iter().map(|named| memory.prepare(&policy(named)).unwrap()).collect()
}

/// The same traffic every time: some keys under one of the policies of their name, some under two.
fn charge(memory: &Memory, prepared: &[MemoryPolicy], clock: &ManualClock) {
    for step in 0..120u32 {
        for (index, policy) in prepared.iter().enumerate() {
            let key = (step * 7 + index as u32 * step / 40) % KEYS;
            if !(key as usize + index).is_multiple_of(3) {
                let _ = memory.check(policy, &key.to_le_bytes(), &Request::ONE).unwrap();
            }
        }
        clock.advance(Micros::new(10_000));
    }
}

/// Makes the same requests to both stores, and compares; returns how many of the keys had used something.
fn alike(one: &Memory, other: &Memory) -> usize {
    let mut used = 0;
    for (a, b) in prepare(one).iter().zip(prepare(other)) {
        for key in 0..KEYS + 2 {
            let ask = |memory: &Memory, policy| memory.check_full(policy, &key.to_le_bytes(), &Request::ONE).unwrap();
            let (a, b) = (ask(one, a), ask(other, &b));
            assert_eq!(a, b, "key {key}");
            used += usize::from(a.1.iter().any(|limit| limit.remaining + 1 < limit.count as i64 || !limit.fits));
        }
    }
    used
}

#[test]
fn keys_of_several_policies_come_back_whatever_the_new_store_begins_with() {
    let file = File::new("round");
    let all: Vec<Policy> = POLICIES.iter().map(policy).collect();
    let reversed: Vec<Policy> = all.iter().rev().cloned().collect();
    let other = [policy(&("", "1000/d")), policy(&("g", "1000/d"))];
    for given in [&all[..], &reversed, &other, &[]] {
        let time = clock();
        let memory = empty(&time);
        charge(&memory, &prepare(&memory), &time);
        let written = memory.save(&file.0).unwrap();
        let again = restored(&file.0, &time, given);
        assert_eq!((again.stats().keys, again.stats().overflow_buckets), (written, 0));
        assert!(alike(&memory, &again) > 50);
        // The same from a store that began with other policies.
        again.save(&file.0).unwrap();
        time.advance(Micros::from_secs(7));
        assert!(alike(&again, &restored(&file.0, &time, &[])) > 50);
    }
}

#[test]
fn snapshots_of_older_versions_are_still_read() {
    for (number, old) in [VERSION_1, VERSION_2, VERSION_3].into_iter().enumerate() {
        assert_eq!(fs::read(old).unwrap()[16], number as u8 + 1, "the version in the file");
        let (old, time) = (Path::new(old), clock());
        let memory = empty(&time);
        charge(&memory, &prepare(&memory), &time);
        let saved = restored(old, &time, &[]);
        assert_eq!(saved.stats().keys, 60);
        assert!(alike(&memory, &saved) > 50);
        let given: Vec<Policy> = POLICIES.iter().rev().map(policy).collect();
        let (again, file) = (restored(old, &time, &given), File::new("old"));
        again.save(&file.0).unwrap();
        let (one, other) = (restored(old, &time, &[]), restored(&file.0, &time, &[]));
        assert!(alike(&one, &other) > 50, "written anew, it says the same");
    }
}

fn check(memory: &Memory, policy: &MemoryPolicy, key: u32) -> bool {
    memory.check(policy, &key.to_le_bytes(), &Request::ONE).unwrap().allowed
}

#[test]
fn keys_of_every_policy_come_back_as_small_as_they_were() {
    let (file, time) = (File::new("small"), clock());
    let memory = Memory::with_clock(16 << 20, Box::new(time.clone()));
    for count in 1..=20u32 {
        let policy = memory.prepare(&policy(&("", &format!("{count}/h gcra")))).unwrap();
        assert!((0..4_000).all(|key| check(&memory, &policy, count * 100_000 + key)));
    }
    let before = memory.stats();
    assert_eq!(memory.save(&file.0).unwrap(), 80_000);
    let again = Memory::restore(&file.0, 16 << 20, Some(Box::new(time)), &[]).unwrap();
    assert_eq!(again.stats().keys, before.keys);
    assert!(again.stats().bytes < before.bytes + before.bytes / 4, "{:?} {before:?}", again.stats());
}

#[test]
fn policies_that_are_gone_and_have_no_keys_left_make_room_for_others() {
    let (file, time) = (File::new("restarts"), clock());
    empty(&time).save(&file.0).unwrap();
    // Far more restarts than policies that a name has room for, each with a policy of its own.
    for count in 1..=90u32 {
        let own = policy(&("p", &format!("{count}/min gcra")));
        let memory = restored(&file.0, &time, std::slice::from_ref(&own));
        let prepared = memory.prepare(&own).unwrap();
        let before = memory.stats().bytes;
        assert!((0..200).all(|key| check(&memory, &prepared, count * 1_000 + key)));
        assert_eq!(memory.stats().bytes, before, "keys without records, at restart {count}");
        // The units used under the last policy still count under this one.
        let last = (count - 1) * 1_000;
        let left = memory.check(&prepared, &last.to_le_bytes(), &Request::ONE.peek()).unwrap().remaining;
        assert_eq!(i64::from(count) - left, i64::from(count > 1), "at restart {count}");
        // By the time the next store saves, they have been paid back.
        memory.save(&file.0).unwrap();
        time.advance(Micros::new(60_000_000 / u64::from(count) * 2 / 3));
    }
}

#[test]
fn names_that_are_gone_and_have_no_keys_left_make_room_for_others() {
    let (file, time) = (File::new("names"), clock());
    empty(&time).save(&file.0).unwrap();
    // More names than a store can have, over several restarts.
    let (lives, names) = (5, MAX_NAMES / 4);
    for life in 0..lives {
        let own: Vec<Policy> = (0..names).map(|name| policy(&(&format!("life-{life}-{name}"), "1/min gcra"))).collect();
        let memory = restored(&file.0, &time, &own);
        for own in &own {
            assert!(check(&memory, &memory.prepare(own).unwrap(), 1), "{} in life {life}", own.name());
        }
        memory.save(&file.0).unwrap();
        time.advance(Micros::from_secs(61));
    }
}

#[test]
fn limits_that_only_a_dialect_builds_come_back_too() {
    let (file, time) = (File::new("dialect"), clock());
    let memory = empty(&time);
    let slots = Slots::unrefunded(5, Micros::from_secs(1_000), Micros::new(1_000)).unwrap();
    let sliding = Sliding::of_single_units(9_000_000, Micros::new(60_000_001)).unwrap();
    let alone = |rule| Policy::new(vec![Limit::new(rule)]).unwrap();
    let policies = [policy(&("", "2/h gcra")), alone(Rule::Slots(slots)), alone(Rule::Sliding(sliding))];
    for (policy, key) in policies.iter().zip(0..) {
        assert!(check(&memory, &memory.prepare(policy).unwrap(), key));
        // All of them use key 9.
        assert!(check(&memory, &memory.prepare(policy).unwrap(), 9));
    }
    assert_eq!(memory.save(&file.0).unwrap(), 4);
    for given in [&policies[..1], &policies, &[]] {
        let again = restored(&file.0, &time, given);
        for (policy, key) in policies.iter().zip(0..) {
            let left = |memory: &Memory, key: u32| {
                let policy = memory.prepare(policy).unwrap();
                memory.check_full(&policy, &key.to_le_bytes(), &Request::ONE.peek()).unwrap()
            };
            assert_eq!(left(&again, key), left(&memory, key), "{policy}");
            assert_eq!(left(&again, 9), left(&memory, 9), "{policy}");
            assert!(left(&again, key).0.reset_after > Micros::ZERO);
        }
    }
}

#[test]
fn keys_of_a_policy_that_changed_share_its_limits() {
    let (file, time) = (File::new("shared"), clock());
    let memory = empty(&time);
    let changes = [policy(&("p", "5/h name=a, 9/d")), policy(&("p", "7/h name=a"))];
    for policy in &changes {
        let policy = memory.prepare(policy).unwrap();
        assert!((0..50).all(|key| check(&memory, &policy, key)));
    }
    memory.save(&file.0).unwrap();
    for given in [&changes[..], &changes[1..], &[]] {
        let again = restored(&file.0, &time, given);
        let prepared = again.prepare(&changes[1]).unwrap();
        let state = |key: u32| again.state(&prepared, &key.to_le_bytes()).own.unwrap();
        let first = state(0);
        for key in 1..50 {
            let (here, state) = (first.each(), state(key));
            assert!(here.zip(state.each()).all(|((a, _), (b, _))| std::sync::Arc::ptr_eq(a, b)));
            assert_eq!(state.each().count(), 2);
        }
    }
}
