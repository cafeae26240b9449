//! A full disk, and writes, syncs and renames that fail: nothing is settled after them until a new snapshot and new
//! files are on disk, and what was settled before them is there.

use crate::support::{JournalRun, frame, goes_on, look, options, path, read, shared, write_state};
use tollgate_journal::disk::{DiskOperation, EmulatedDisk, Survival};
use tollgate_journal::{Health, JournalError, SyncMode, open};

const EIO: i32 = 5;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;

/// A run with twenty records, all of them synced.
fn run(sync: SyncMode) -> JournalRun {
    let mut run = JournalRun::start(&EmulatedDisk::new(9), sync).unwrap();
    run.frame(20);
    run.sync().unwrap();
    run
}

/// After a failure: nothing is settled, and neither is what is framed now.
fn is_refused(run: &mut JournalRun, health: &Health) {
    for _ in 0..3 {
        assert_eq!(run.journal().health(), *health);
        run.journal().lock().frame(|_| panic!("nothing is kept after a failure"));
        assert!(run.settle().is_err());
        assert!(run.sync().is_err());
    }
    assert!(run.journal().close().is_err());
}

/// A snapshot of everything puts it right.
fn is_put_right(run: &mut JournalRun) {
    run.snapshot(3).expect("a snapshot on new files");
    assert_eq!(run.journal().health(), Health::Good);
    run.frame(4);
    run.settle().unwrap();
    run.sync().unwrap();
    for survival in [Survival::Nothing, Survival::Everything, Survival::Some] {
        let left = run.disk.restart(survival, 3);
        let (prefix, report) = look(&options(run.sync), &left).unwrap();
        assert_eq!(prefix.upto, run.framed, "{survival:?}: {report}");
        goes_on(&options(run.sync), &left);
    }
}

#[test]
fn a_failed_write_settles_nothing_until_a_snapshot_puts_it_right() {
    let rows = [
        (EIO, Health::Failed(format!("the write failed: {}", std::io::Error::from_raw_os_error(EIO)))),
        (ENOSPC, Health::Full),
        (EDQUOT, Health::Full),
        (EFBIG, Health::Full),
    ];
    for (error, health) in rows {
        for sync in [SyncMode::EverySecond, SyncMode::Always, SyncMode::Never] {
            let mut run = run(sync);
            let before = run.disk.files()[&path("journal-0000000001")].clone();
            run.disk.fail(DiskOperation::Append, 0, 1, error);
            run.frame(5);
            let failed = run.settle().unwrap_err();
            assert_eq!(failed == JournalError::Full, health == Health::Full, "{failed}");
            is_refused(&mut run, &health);
            // The part that was written is cut off: a start now sees no damage, only what was settled.
            let after = &run.disk.files()[&path("journal-0000000001")];
            assert!(before.starts_with(after) || after.starts_with(&before));
            let left = run.disk.restart(Survival::Everything, 1);
            let (prefix, report) = look(&options(sync), &left).unwrap();
            assert_eq!(prefix.upto, 20, "{report}");
            assert!(!report.is_cut() && !report.is_clean(), "{report}");
            is_put_right(&mut run);
        }
    }
}

#[test]
fn a_part_that_cannot_be_cut_off_is_a_torn_tail() {
    for seed in 0..40 {
        let disk = EmulatedDisk::new(seed);
        let mut run = JournalRun::start(&disk, SyncMode::EverySecond).unwrap();
        run.frame(20);
        run.settle().unwrap();
        disk.fail(DiskOperation::Append, 0, 1, EIO);
        disk.fail(DiskOperation::Truncate, 0, 1, EIO);
        run.frame(5);
        run.settle().unwrap_err();
        let left = disk.restart(Survival::Everything, 1);
        let (prefix, report) = look(&options(SyncMode::EverySecond), &left).unwrap();
        assert!((20..=25).contains(&prefix.upto), "seed {seed}: {report}");
        goes_on(&options(SyncMode::EverySecond), &left);
        is_put_right(&mut run);
    }
}

#[test]
fn a_failed_sync_is_never_taken_for_a_success_later() {
    for sync in [SyncMode::EverySecond, SyncMode::Always] {
        let mut run = run(sync);
        run.frame(5);
        run.disk.fail(DiskOperation::Sync, 0, 1, EIO);
        let failed = run.sync().unwrap_err().to_string();
        assert!(failed.contains("the sync failed: "), "{failed}");
        let health = run.journal().health();
        assert!(matches!(health, Health::Failed(_)));
        is_refused(&mut run, &health);
        // The five may be gone for good, and none of them was promised.
        for seed in 0..20 {
            let left = run.disk.restart(Survival::Some, seed);
            let (prefix, _) = look(&options(sync), &left).unwrap();
            assert!((20..=25).contains(&prefix.upto));
            goes_on(&options(sync), &left);
        }
        is_put_right(&mut run);
    }
}

#[test]
fn a_disk_that_fills_up_recovers_when_there_is_room_again() {
    for room in 0..400 {
        let mut run = run(SyncMode::EverySecond);
        run.disk.set_room(Some(room));
        let mut settled = run.written;
        for _ in 0..40 {
            run.frame(1);
            if run.settle().is_err() {
                break;
            }
            settled = run.written;
        }
        assert_eq!(run.journal().health(), Health::Full, "room {room}");
        is_refused(&mut run, &Health::Full);
        // The disk is still full: no snapshot is written, and nothing changes.
        assert!(run.snapshot(2).is_err());
        assert_eq!(run.journal().health(), Health::Full);
        let left = run.disk.restart(Survival::Everything, room);
        let (prefix, report) = look(&options(SyncMode::EverySecond), &left).unwrap();
        assert_eq!(prefix.upto, settled, "room {room}: {report}");
        run.disk.set_room(None);
        is_put_right(&mut run);
    }
}

#[test]
fn a_snapshot_that_fails_leaves_a_good_journal_good() {
    let operations = [
        DiskOperation::Create,
        DiskOperation::Append,
        DiskOperation::Sync,
        DiskOperation::Rename,
        DiskOperation::SyncDir,
        DiskOperation::Remove,
    ];
    for operation in operations {
        for before in 0..12 {
            let mut run = run(SyncMode::EverySecond);
            run.disk.fail(operation, before, 1, EIO);
            let done = run.snapshot(3);
            run.disk.fail_no_more();
            let about = format!("{operation:?} after {before}: {done:?}");
            if run.journal().health() == Health::Good {
                run.frame(2);
                run.settle().expect(&about);
                run.sync().expect(&about);
            } else {
                // It was the journal itself that failed.
                assert!(done.is_err(), "{about}");
                assert!(matches!(operation, DiskOperation::Append | DiskOperation::Sync), "{about}");
                assert!(run.settle().is_err(), "{about}");
            }
            for survival in [Survival::Nothing, Survival::Everything, Survival::Some] {
                let left = run.disk.restart(survival, before);
                let (prefix, report) = look(&options(SyncMode::EverySecond), &left).expect(&about);
                assert!((run.synced..=run.framed).contains(&prefix.upto), "{about}, {survival:?}: {report}");
                assert!(prefix.upto >= prefix.leans_on, "{about}, {survival:?}: {report}");
                goes_on(&options(SyncMode::EverySecond), &left);
            }
            is_put_right(&mut run);
        }
    }
}

/// A power loss at every operation on the way out of a failure: the new file without its snapshot counts for nothing.
#[test]
fn power_that_goes_while_a_failure_is_put_right_loses_nothing_that_was_settled() {
    let script = |disk: &EmulatedDisk| {
        let mut run = JournalRun::start(disk, SyncMode::EverySecond).ok()?;
        run.frame(20);
        _ = run.sync();
        disk.fail(DiskOperation::Append, 0, 1, ENOSPC);
        run.frame(5);
        _ = run.settle();
        // The first attempt fails as well, behind its rotation.
        if let Ok(rotation) = run.journal().rotate() {
            frame(run.journal(), run.framed);
            drop(rotation);
        }
        _ = run.snapshot(3);
        run.frame(3);
        _ = run.settle();
        _ = run.sync();
        Some(run)
    };
    let whole = EmulatedDisk::new(4);
    let unharmed = script(&whole).unwrap();
    assert_eq!((unharmed.journal().health(), unharmed.synced), (Health::Good, 31));
    for operation in 0..whole.operations() {
        for seed in 0..12 {
            let about = format!("operation {operation}, seed {seed}");
            let disk = EmulatedDisk::new(4);
            disk.lose_power_at(operation);
            let done = script(&disk);
            let survival = [Survival::Some, Survival::Nothing, Survival::Everything][seed.min(2)];
            let left = disk.restart(survival, seed as u64);
            let (prefix, report) = look(&options(SyncMode::EverySecond), &left).expect(&about);
            assert!(prefix.upto >= prefix.leans_on, "{about}: {report}");
            if let Some(done) = done {
                assert!(prefix.upto >= done.synced, "{about}: {prefix:?} of {}\n{report}", done.synced);
            }
            goes_on(&options(SyncMode::EverySecond), &left);
        }
    }
}

/// Many attempts to recover leave no pile of files, and a loss of power at any of their operations loses nothing.
#[test]
fn attempts_that_fail_leave_few_files() {
    let script = |disk: &EmulatedDisk| {
        let mut run = JournalRun::start(disk, SyncMode::EverySecond).ok()?;
        run.frame(20);
        _ = run.sync();
        disk.fail(DiskOperation::Append, 0, 1, ENOSPC);
        run.frame(5);
        _ = run.settle();
        for attempt in 0..12 {
            if let Ok(rotation) = run.journal().rotate() {
                frame(run.journal(), run.framed);
                if attempt == 6 {
                    // The name is the last thing that can fail: the note is written by then.
                    disk.fail(DiskOperation::Rename, 1, 1, EIO);
                    _ = rotation.write(|to| write_state(to, 25, 26));
                } else if attempt % 3 == 0 {
                    _ = rotation.write(|_| Err(std::io::Error::other("no more")));
                }
            }
            run.journal().lock().frame(|_| panic!("nothing is kept without a snapshot"));
        }
        Some(run)
    };
    let whole = EmulatedDisk::new(4);
    let mut run = script(&whole).unwrap();
    assert_eq!(run.journal().health(), Health::Full);
    let left: Vec<_> = whole.files().into_keys().collect();
    assert_eq!(left, ["journal-0000000001", "journal-0000000008", "journal-0000000013", "newest"].map(path));
    for operation in 0..whole.operations() {
        for seed in 0..8 {
            let about = format!("operation {operation}, seed {seed}");
            let disk = EmulatedDisk::new(4);
            disk.lose_power_at(operation);
            let done = script(&disk);
            let survival = [Survival::Some, Survival::Nothing, Survival::Everything][seed.min(2)];
            let left = disk.restart(survival, seed as u64);
            let (prefix, report) = look(&options(SyncMode::EverySecond), &left).expect(&about);
            assert!(prefix.upto >= done.map_or(0, |done| done.synced) && prefix.upto <= 25, "{about}: {report}");
            goes_on(&options(SyncMode::EverySecond), &left);
        }
    }
    is_put_right(&mut run);
    assert_eq!(run.disk.files().len(), 3);
}

#[test]
fn a_snapshot_that_its_filler_gives_up_leaves_nothing_behind() {
    let mut run = run(SyncMode::EverySecond);
    let rotation = run.journal().rotate().unwrap();
    assert_eq!(run.journal().rotate().unwrap_err(), JournalError::Busy);
    let failed = rotation.write(|to| {
        to.write_all(&[1; 1_000_000])?;
        Err(std::io::Error::other("no more"))
    });
    assert_eq!(failed.unwrap_err(), JournalError::Fill("no more".to_owned()));
    assert!(!run.disk.files().contains_key(&path("snapshot-0000000002.new")));
    run.frame(1);
    run.settle().unwrap();
    let rotation = run.journal().rotate().unwrap();
    assert_eq!((rotation.file(), run.journal().lock().file()), (3, 3));
    let least = run.framed;
    rotation.write(|to| write_state(to, least, least)).unwrap();
    let left: Vec<_> = run.disk.files().into_keys().collect();
    assert_eq!(left, ["journal-0000000003", "newest", "snapshot-0000000003"].map(path));
}

#[test]
fn a_record_that_is_too_long_fails_the_journal_and_one_of_the_most_bytes_does_not() {
    let mut run = run(SyncMode::EverySecond);
    run.journal().lock().frame(|into| into.resize(tollgate_journal::MAX_RECORD, 7));
    run.journal().settle_now().unwrap();
    run.journal().lock().frame(|into| into.resize(tollgate_journal::MAX_RECORD + 1, 7));
    let health = Health::Failed("a record of 1048576 bytes, expected at most 1048575".to_owned());
    is_refused(&mut run, &health);
}

#[test]
fn a_closed_journal_stays_closed() {
    let run = run(SyncMode::EverySecond);
    run.journal().close().unwrap();
    run.journal().lock().frame(|_| panic!("nothing is kept after the end"));
    assert!(run.journal().settle_now().is_err());
    assert!(run.journal().rotate().is_err());
    assert!(run.journal().close().is_err());
    assert_eq!(run.journal().health(), Health::Failed("the journal was closed".to_owned()));
    let (prefix, report) = look(&options(SyncMode::EverySecond), &run.disk.restart(Survival::Nothing, 0)).unwrap();
    assert!(prefix.upto == 20 && report.is_clean(), "{report}");
}

#[test]
fn who_panics_while_filling_a_record_harms_no_other() {
    let mut run = run(SyncMode::EverySecond);
    let journal = run.journal();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        journal.lock().frame(|into| {
            into.push(1);
            std::panic::resume_unwind(Box::new("a fault of the caller"));
        });
    }));
    assert!(panicked.is_err());
    run.frame(2);
    run.sync().unwrap();
    let (prefix, _) = look(&options(SyncMode::EverySecond), &run.disk.restart(Survival::Nothing, 0)).unwrap();
    assert_eq!(prefix.upto, 22);
}

#[test]
fn numbers_tell_what_was_done() {
    let mut run = run(SyncMode::EverySecond);
    let stats = run.journal().stats();
    assert_eq!((stats.frames, stats.file, stats.syncs, stats.snapshot), (20, 1, 1, 0));
    assert_eq!(stats.file_bytes, stats.since_snapshot + 62);
    run.snapshot(2).unwrap();
    let stats = run.journal().stats();
    assert_eq!((stats.frames, stats.file, stats.snapshot, stats.since_snapshot), (22, 2, 2, stats.file_bytes));
    let size = run.disk.files()[&path("snapshot-0000000002")].len() as u64;
    assert_eq!((stats.snapshot_bytes, stats.failed_syncs), (size, 0));
    let before = stats.since_snapshot;
    run.close().unwrap();
    let run = JournalRun::start(&run.disk.clone(), SyncMode::EverySecond).unwrap();
    let stats = run.journal().stats();
    assert!(stats.since_snapshot > before && stats.snapshot == 2 && stats.snapshot_bytes == size);
}

#[test]
fn a_start_on_a_full_disk_leaves_what_was_kept_whenever_power_is_lost() {
    let is_kept = |disk: &EmulatedDisk, room: u64| {
        for survival in [Survival::Nothing, Survival::Everything, Survival::Some] {
            let left = disk.restart(survival, room);
            left.set_room(None);
            let (prefix, report) = look(&options(SyncMode::Always), &left).unwrap();
            assert_eq!(prefix.upto, 20, "{room} {survival:?}: {report}");
            goes_on(&options(SyncMode::Always), &left);
        }
    };
    let mut full = 0;
    for room in 0..250 {
        let mut run = run(SyncMode::Always);
        if room % 2 == 0 {
            run.close().unwrap();
        }
        let disk = run.disk.clone();
        drop(run);
        disk.set_room(Some(room));
        let (mut opened, _) = open(&options(SyncMode::Always), shared(&disk)).unwrap();
        assert_eq!(read(&mut opened).unwrap().upto, 20);
        let journal = opened.start_though_full().unwrap();
        is_kept(&disk, room);
        full += u64::from(journal.health() == Health::Full);
        // Tries for which there is no room, or not for all of it.
        for _ in 0..3 {
            let _ = journal.rotate().and_then(|rotation| rotation.write(|to| write_state(to, 20, 20)));
            is_kept(&disk, room);
        }
        disk.set_room(None);
        let rotation = journal.rotate().unwrap();
        is_kept(&disk, room);
        rotation.write(|to| write_state(to, 20, 20)).unwrap();
        assert_eq!(journal.health(), Health::Good);
        is_kept(&disk, room);
    }
    assert!((50..250).contains(&full), "{full}");
}
