//! Tests that whatever the engine does to keys is in the journal, by whichever of its methods it is done.

use std::collections::BTreeSet;
use std::sync::Arc;

use tollgate_journal::disk::EmulatedDisk;
use tollgate_kernel::{Clock, Timestamp};
use tollgate_keyspace::samples::{CALLS, parse_call};
use tollgate_keyspace::wire::WireReader;
use tollgate_keyspace::{DialectCall, KeyCursor, Keyspace, SetOptions};
use tollgate_memory::ManualClock;
use tollgate_telemetry::log::ServerLog;

use super::{START, tested};
use crate::persist::{Fsync, PersistMode, PersistSettings, RestoreParameters, open};
use crate::{Engine, Home};

/// The caps of the store and of the keys, in bytes; few keys fit.
const MEMORY: usize = 1 << 22;
const KEYS: usize = 64 << 10;

const POLICIES: &str = "policies: {login: \"5/min\"}";

/// An engine on the data of a disk.
fn opened(disk: &EmulatedDisk, persist: PersistMode) -> Engine {
    let now = Timestamp::new(START).unwrap();
    let clock = || -> Box<dyn Clock> { Box::new(ManualClock::at(now)) };
    let of_store = || Some(clock());
    let parameters = RestoreParameters { memory: MEMORY, keys: KEYS, policies: &[], clock: &of_store, now };
    let settings = PersistSettings { persist, ..PersistSettings::new("data") };
    let (home, keys, _) = open(&settings, Arc::new(disk.clone()), &parameters).unwrap().into_home(clock());
    Engine::new(Home::Embedded(home), Vec::new(), clock(), Arc::new(ServerLog::default()), keys)
}

/// All keys and shared states, each as bytes.
fn contents(engine: &Engine) -> BTreeSet<Vec<u8>> {
    let mut bytes = Vec::new();
    engine.on_keys(|keys| {
        let mut cursor = KeyCursor::FIRST;
        while cursor != KeyCursor::Done {
            cursor = keys.write_some(cursor, engine.times(), &mut bytes);
        }
    });
    let mut from = WireReader::new(&bytes);
    std::iter::from_fn(|| from.part().map(<[u8]>::to_vec)).collect()
}

/// Calls of every dialect on keys of their own, more of them than fit: some share a bucket, and some are refused.
fn calls(from: usize) -> impl Iterator<Item = DialectCall> {
    let text = |number: usize| CALLS[number % CALLS.len()].replace("KEY", &format!("key{number}")).replace('N', "7");
    (from..from + 200).map(move |number| parse_call(&text(number)))
}

#[test]
fn what_is_done_to_keys_is_found_after_a_kill_by_whichever_method_it_is_done() {
    let operations: [fn(&Engine); 4] = [
        |engine| {
            let now = engine.times();
            for key in 0..20u8 {
                engine.on_keys(|keys| keys.set(0, &[key], b"text", SetOptions::default(), now)).unwrap();
            }
            engine.on_keys(|keys| keys.delete(0, [b"\x01".as_slice()].into_iter(), now));
        },
        |engine| calls(0).for_each(|call| _ = engine.decide_call(&call)),
        // Not the way to decide calls, but it loses nothing either.
        |engine| calls(0).for_each(|call| _ = engine.on_keys(|keys| keys.decide(&call, engine.times()))),
        |engine| {
            let mut keys = engine.lock_keys();
            for call in calls(0) {
                let _ = keys.decide_call(&call);
                let _ = keys.run(|keys| keys.add(1, b"sum", 1, engine.times()));
            }
        },
    ];
    for (place, operate) in operations.into_iter().enumerate() {
        let disk = EmulatedDisk::new(1);
        let engine = opened(&disk, PersistMode::Journal(Fsync::Always));
        operate(&engine);
        assert_eq!(engine.keyspace_stats().overflowed > 0, place > 0);
        engine.home.binding().unwrap().journal.settle_now().unwrap();
        let again = opened(&EmulatedDisk::with(2, disk.files()), PersistMode::Journal(Fsync::Always));
        assert_eq!(engine.keyspace_stats().keys, again.keyspace_stats().keys, "{place}");
        assert!(contents(&engine) == contents(&again), "{place}");
    }
}

#[test]
fn changes_that_no_journal_takes_are_not_remembered() {
    let disk = EmulatedDisk::new(1);
    for engine in [tested(POLICIES).engine, Arc::new(opened(&disk, PersistMode::Snapshot))] {
        let now = engine.times();
        engine.on_keys(|keys| keys.set(0, b"key", b"text", SetOptions::default(), now)).unwrap();
        engine.decide_call(&parse_call("fixed_window 1 k 5 60")).unwrap();
        assert_eq!(engine.on_keys(Keyspace::take_changes), []);
    }
}
