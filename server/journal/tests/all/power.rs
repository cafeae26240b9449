//! A loss of power at every operation of a run: what was promised is there, and nothing is refused.

use crate::support::{JournalRun, goes_on, look, options, rounds};
use tollgate_journal::disk::{EmulatedDisk, Survival};
use tollgate_journal::{SyncMode, open};
use tollgate_random::Rng;

const SURVIVALS: [(Survival, u64); 7] = [
    (Survival::Nothing, 0),
    (Survival::Everything, 0),
    (Survival::Some, 1),
    (Survival::Some, 2),
    (Survival::Some, 3),
    (Survival::Some, 4),
    (Survival::Some, 5),
];

/// Runs until the power goes, if it does.
fn run(disk: &EmulatedDisk, sync: SyncMode, seed: u64) -> Option<JournalRun> {
    let mut rng = Rng::new(seed);
    let mut run = JournalRun::start(disk, sync).ok()?;
    // What fails is what lost its power; the others find out in what was promised.
    _ = run.steps(&mut rng, 24);
    Some(run)
}

fn at_every_operation(sync: SyncMode, seed: u64) {
    let whole = EmulatedDisk::new(seed);
    let unharmed = run(&whole, sync, seed).expect("a run with power");
    assert!(unharmed.framed > 0, "a run of seed {seed} does something");
    for operation in 0..whole.operations() {
        for (survival, chance) in SURVIVALS {
            let about = format!("{sync:?}, seed {seed}, operation {operation}, {survival:?} {chance}");
            let disk = EmulatedDisk::new(seed);
            disk.lose_power_at(operation);
            let done = run(&disk, sync, seed);
            let left = disk.restart(survival, seed.wrapping_mul(1_000).wrapping_add(chance));
            let (prefix, report) = look(&options(sync), &left).unwrap_or_else(|error| panic!("{about}: {error}"));
            assert!(prefix.upto >= prefix.leans_on, "{about}: not a state that was: {prefix:?}\n{report}");
            if let Some(done) = done {
                assert!(prefix.upto <= done.framed, "{about}: {prefix:?}");
                let promised = if survival == Survival::Everything { done.written } else { done.synced };
                assert!(prefix.upto >= promised, "{about}: promised {promised}, found {prefix:?}\n{report}");
            }
            again(sync, &left, prefix.upto, &about);
            goes_on(&options(sync), &left);
        }
    }
}

/// The start after it loses power as well: nothing that was there is lost by that.
fn again(sync: SyncMode, left: &EmulatedDisk, upto: u64, about: &str) {
    let files = left.files();
    let count = {
        let disk = EmulatedDisk::with(1, files.clone());
        let (opened, _) = open(&options(sync), crate::support::shared(&disk)).expect("a start");
        drop(opened.start_by_hand().expect("a start"));
        disk.operations()
    };
    let mut rng = Rng::new(upto);
    let operation = rng.below(count);
    let disk = EmulatedDisk::with(1, files);
    disk.lose_power_at(operation);
    let (opened, _) = open(&options(sync), crate::support::shared(&disk)).expect("a start");
    assert!(opened.start_by_hand().is_err(), "{about}: no power, and yet a start");
    let twice = disk.restart(Survival::Some, rng.next_u64());
    let (prefix, _) = look(&options(sync), &twice)
        .unwrap_or_else(|error| panic!("{about}, and at operation {operation} of the start: {error}"));
    assert_eq!(prefix.upto, upto, "{about}, and at operation {operation} of the start");
}

#[test]
fn nothing_settled_is_lost_when_every_settling_syncs() {
    (1..=rounds(5)).for_each(|seed| at_every_operation(SyncMode::Always, seed));
}

#[test]
fn nothing_synced_is_lost_when_syncs_come_now_and_then() {
    (1..=rounds(5)).for_each(|seed| at_every_operation(SyncMode::EverySecond, seed + 100));
}

#[test]
fn no_snapshot_is_lost_when_nothing_else_syncs() {
    (1..=rounds(3)).for_each(|seed| at_every_operation(SyncMode::Never, seed + 200));
}
