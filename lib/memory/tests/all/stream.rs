//! A store in a stream with other data, and with very many names.

use std::io::{self, Read, Write};

use tollgate_kernel::{Clock, Micros, Policy, Request, Timestamp};
use tollgate_memory::{MAX_NAMES, MIN_CAP, ManualClock, Memory, MemoryPolicy, SnapshotError};

const START: u64 = 1_700_000_000_000_000;
const TEXTS: [&str; 4] = ["10/min gcra", "5/min", "3/s, 9/min fixed", "200/h"];

fn store(cap: usize) -> (Memory, ManualClock) {
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    (Memory::with_clock(cap, Box::new(clock.clone())), clock)
}

fn prepare(memory: &Memory) -> Vec<MemoryPolicy> {
    TEXTS.iter().map(|text| memory.prepare(&text.parse::<Policy>().unwrap()).unwrap()).collect()
}

/// Keys under each of the policies, some charged often.
fn charged(keys: u32) -> (Memory, ManualClock) {
    let (memory, clock) = store(MIN_CAP);
    for (number, policy) in prepare(&memory).iter().enumerate() {
        for key in 0..keys {
            for _ in 0..1 + key % 5 {
                let _ = memory.check(policy, &[number as u8, key as u8, (key >> 8) as u8], &Request::ONE).unwrap();
                clock.advance(Micros::new(3));
            }
        }
    }
    (memory, clock)
}

fn restored(from: &mut dyn Read, clock: &ManualClock) -> Result<Memory, SnapshotError> {
    Memory::restore_from(from, MIN_CAP, Some(Box::new(clock.clone())), &[])
}

fn saved(memory: &Memory) -> Vec<u8> {
    let mut bytes = Vec::new();
    memory.save_to(&mut bytes).unwrap();
    bytes
}

fn assert_alike(one: &Memory, other: &Memory, keys: u32) {
    let mut used = 0;
    for (number, (a, b)) in prepare(one).iter().zip(prepare(other)).enumerate() {
        for key in 0..keys {
            let key = [number as u8, key as u8, (key >> 8) as u8];
            assert_eq!(one.state(a, &key), other.state(&b, &key));
            used += usize::from(one.state(a, &key).own.is_some());
        }
    }
    assert!(used > 0);
}

/// Returns a few bytes at a time, and an error for a read at the end.
struct SlowReader<'a>(&'a [u8]);

impl Read for SlowReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() && !to.is_empty() {
            return Err(io::Error::other("asked for more"));
        }
        let len = to.len().min(7);
        self.0.read(&mut to[..len])
    }
}

#[test]
fn a_stream_holds_what_a_file_does_and_may_go_on_behind_it() {
    let (memory, clock) = charged(300);
    let bytes = saved(&memory);
    let path = std::env::temp_dir().join(format!("tollgate-stream-{}.snapshot", std::process::id()));
    let written = memory.save(&path).unwrap();
    let file = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(file == bytes && written == memory.stats().keys);
    let (other, _) = charged(40);
    let stream = [&bytes[..], &saved(&other), b"and more"].concat();
    let from = &mut &stream[..];
    assert_alike(&memory, &restored(from, &clock).unwrap(), 300);
    assert_alike(&other, &restored(from, &clock).unwrap(), 40);
    assert_eq!(*from, b"and more");
    let slow = restored(&mut SlowReader(&bytes), &clock).unwrap();
    assert_alike(&memory, &slow, 300);
}

#[test]
fn a_stream_that_is_cut_or_changed_anywhere_is_refused() {
    let (memory, clock) = charged(12);
    let bytes = saved(&memory);
    for len in 0..bytes.len() {
        let error = restored(&mut &bytes[..len], &clock).unwrap_err();
        assert!(matches!(error, SnapshotError::NotOne | SnapshotError::Damaged(_)), "{len}: {error}");
        let mut changed = bytes.clone();
        changed[len] ^= 1 << (len % 8);
        assert!(restored(&mut &changed[..], &clock).is_err(), "byte {len}");
    }
    let error = restored(&mut SlowReader(&bytes[..bytes.len() - 1]), &clock).unwrap_err();
    assert!(matches!(error, SnapshotError::Io(_)), "{error}");
    // A snapshot that does not fit is distinguished from a damaged one.
    let (many, _) = store(64 << 20);
    let policy = many.prepare(&TEXTS[3].parse().unwrap()).unwrap();
    for key in 0..60_000u32 {
        many.charge_at(&policy, &key.to_le_bytes(), 1, Timestamp::new(START).unwrap());
    }
    let mut bytes = saved(&many);
    assert!(matches!(restored(&mut &bytes[..], &clock), Err(SnapshotError::Cap(MIN_CAP, _))));
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let error = restored(&mut &bytes[..], &clock).unwrap_err();
    assert!(error.to_string().contains("its checksum"), "{error}");
    // A length larger than the stream allocates no more memory than the stream has.
    let mut long = saved(&memory);
    long[0..8].copy_from_slice(&(1u64 << 60).to_le_bytes());
    assert!(restored(&mut &long[..], &clock).is_err());
}

#[test]
fn a_stream_that_cannot_be_written_says_so() {
    struct FullDisk(usize);
    impl Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (memory, _) = charged(50);
    for room in [0, 100, 2_000] {
        assert!(matches!(memory.save_to(&mut FullDisk(room)), Err(SnapshotError::Io(_))), "{room}");
    }
    assert!(memory.save_to(&mut FullDisk(1 << 20)).is_ok());
}

#[test]
fn as_many_names_as_may_be_come_back() {
    let (memory, clock) = store(16 << 20);
    let policy = |number: usize| {
        let text = ["5/min gcra", "3/h", "4/h fixed, 9/d"][number % 3];
        text.parse::<Policy>().unwrap().with_name(&format!("name-{number}")).unwrap()
    };
    for number in 0..MAX_NAMES {
        let prepared = memory.prepare(&policy(number)).unwrap();
        memory.charge_at(&prepared, b"k", 1 + number as u64 % 2, clock.now());
    }
    assert!(memory.prepare(&policy(MAX_NAMES)).is_err());
    assert_eq!(memory.stats().keys, MAX_NAMES);
    let bytes = saved(&memory);
    // Every other policy is passed to `restore`, with changed numbers.
    let given: Vec<Policy> =
        (0..MAX_NAMES).step_by(2).map(|number| policy(number + 3).with_name(policy(number).name()).unwrap()).collect();
    let again = Memory::restore_from(&mut &bytes[..], 16 << 20, Some(Box::new(clock)), &given).unwrap();
    for number in 0..MAX_NAMES {
        let state = |memory: &Memory| memory.state(&memory.prepare(&policy(number)).unwrap(), b"k");
        let found = state(&again);
        assert!(found.own.is_some() && found == state(&memory), "name-{number}");
    }
}

#[test]
fn keys_that_move_while_a_store_is_saved_are_all_in_it() {
    const KNOWN: u32 = 12_000;
    const MORE: u32 = 60_000;
    let (memory, clock) = store(64 << 20);
    let prepared = prepare(&memory);
    let charge = |key: u32| memory.charge_at(&prepared[key as usize % 4], &key.to_le_bytes(), 1, clock.now());
    (0..KNOWN).for_each(charge);
    std::thread::scope(|scope| {
        // New keys make buckets split and other keys move, repeatedly.
        let busy = scope.spawn(|| (KNOWN..KNOWN + MORE).for_each(charge));
        let mut saves = 0;
        while !busy.is_finished() || saves < 3 {
            saves += 1;
            let bytes = saved(&memory);
            let again = Memory::restore_from(&mut &bytes[..], 64 << 20, Some(Box::new(clock.clone())), &[]).unwrap();
            let there = prepare(&again);
            for key in 0..KNOWN {
                let policy = key as usize % 4;
                let state = again.state(&there[policy], &key.to_le_bytes());
                assert_eq!(state, memory.state(&prepared[policy], &key.to_le_bytes()), "save {saves}: {key}");
            }
        }
    });
    assert_eq!(memory.stats().keys, (KNOWN + MORE) as usize);
}
