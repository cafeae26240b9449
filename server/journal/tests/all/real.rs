//! The file system itself: one writer, owners, modes, links, foreign files, and a journal that is read again.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{Prefix, frame, read, write_state};
use tollgate_journal::disk::RealDisk;
use tollgate_journal::{Journal, JournalDir, JournalOpenError, JournalOptions, RecoveryReport, SyncMode, open};

/// A directory of the test's own, removed with it.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-journal-{}-{name}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn open(&self) -> Result<(JournalDir, RecoveryReport), JournalOpenError> {
        self.open_as(SyncMode::EverySecond)
    }

    fn open_as(&self, sync: SyncMode) -> Result<(JournalDir, RecoveryReport), JournalOpenError> {
        open(&JournalOptions { dir: self.0.clone(), sync, repair: false }, Arc::new(RealDisk))
    }

    fn start(&self) -> Journal {
        self.open().unwrap().0.start().unwrap()
    }

    fn refused(&self) -> String {
        self.open().map(|(_, report)| report).unwrap_err().to_string()
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.0.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_was_settled_is_read_again_from_files_of_this_user_alone() {
    for sync in [SyncMode::EverySecond, SyncMode::Always, SyncMode::Never] {
        let place = TestDirectory::new("again");
        let journal = place.open_as(sync).unwrap().0.start().unwrap();
        assert_eq!(fs::metadata(&place.0).unwrap().mode() & 0o777, 0o700);
        (0..100).for_each(|at| frame(&journal, at));
        journal.settle_now().unwrap();
        let rotation = journal.rotate().unwrap();
        (100..120).for_each(|at| frame(&journal, at));
        rotation.write(|to| write_state(to, 100, 120)).unwrap();
        (120..150).for_each(|at| frame(&journal, at));
        journal.settle_now().unwrap();
        drop(journal);
        assert_eq!(names(&place.0), ["journal-0000000002", "lock", "newest", "snapshot-0000000002"]);
        for name in names(&place.0) {
            assert_eq!(fs::metadata(place.0.join(&name)).unwrap().mode() & 0o777, 0o600, "{name}");
        }
        let (mut opened, report) = place.open_as(sync).unwrap();
        assert_eq!(read(&mut opened).unwrap(), Prefix { upto: 150, leans_on: 120 });
        assert!(!report.is_clean() && !report.is_cut(), "{report}");
        opened.start().unwrap().close().unwrap();
        let (mut opened, report) = place.open_as(sync).unwrap();
        assert_eq!(read(&mut opened).unwrap().upto, 150);
        assert!(report.is_clean(), "{report}");
    }
}

#[test]
fn framing_and_settling_allocate_nothing_in_the_long_run() {
    let place = TestDirectory::new("allocations");
    let journal = place.open_as(SyncMode::Never).unwrap().0.start().unwrap();
    let round = || {
        for at in 0..1_000 {
            frame(&journal, at);
            journal.settle_now().unwrap();
            journal.settle_now().unwrap();
        }
    };
    round();
    assert_eq!(allocation_counter::measure(round).count_total, 0);
}

#[test]
fn a_lock_that_somebody_removed_lets_no_second_writer_in() {
    let place = TestDirectory::new("removed");
    let journal = place.start();
    fs::remove_file(place.0.join("lock")).unwrap();
    assert!(matches!(place.open().unwrap_err(), JournalOpenError::InUse { .. }));
    // Nor does one that somebody put in its place.
    fs::write(place.0.join("lock"), "").unwrap();
    place.mode("lock", 0o600);
    assert!(matches!(place.open().unwrap_err(), JournalOpenError::InUse { .. }));
    drop(journal);
    place.open().unwrap();
    // A release that knows of the file alone.
    let file = fs::OpenOptions::new().write(true).open(place.0.join("lock")).unwrap();
    file.try_lock().unwrap();
    assert!(matches!(place.open().unwrap_err(), JournalOpenError::InUse { .. }));
}

#[test]
fn a_second_writer_is_told_which_directory_is_in_use() {
    let place = TestDirectory::new("second");
    let journal = place.start();
    let error = place.open().unwrap_err();
    assert!(matches!(error, JournalOpenError::InUse { .. }));
    assert!(error.to_string().starts_with(&format!("{}: in use by another server", place.0.display())), "{error}");
    // A snapshot under way holds it as well.
    let rotation = journal.rotate().unwrap();
    drop(journal);
    assert!(matches!(place.open().unwrap_err(), JournalOpenError::InUse { .. }));
    drop(rotation);
    place.open().unwrap();
}

#[test]
fn what_others_may_write_to_is_refused() {
    let place = TestDirectory::new("others");
    place.start().close().unwrap();
    for (name, usual, open, hint) in [
        ("", 0o700, 0o770, "chmod 700"),
        ("", 0o700, 0o707, "chmod 700"),
        ("lock", 0o600, 0o620, "chmod 600"),
        ("newest", 0o600, 0o602, "chmod 600"),
        ("journal-0000000001", 0o600, 0o660, "chmod 600"),
    ] {
        place.mode(name, open);
        let error = place.refused();
        let shown = place.0.join(name).display().to_string();
        assert!(error.starts_with(shown.trim_end_matches('/')), "{error}");
        assert!(error.contains(&format!("found {open:o}")) && error.contains(hint), "{error}");
        place.mode(name, usual);
        place.open().unwrap();
    }
    // Reading is no harm.
    place.mode("", 0o755);
    place.mode("journal-0000000001", 0o644);
    place.open().unwrap();
}

#[test]
fn what_another_user_owns_is_refused() {
    let place = TestDirectory::new("owner");
    place.start().close().unwrap();
    // Only a superuser can give files away; others look at a file that is not theirs.
    if std::os::unix::fs::chown(place.0.join("journal-0000000001"), Some(12_345), None).is_err() {
        let root = JournalOptions { dir: "/".into(), sync: SyncMode::Never, repair: false };
        let error = open(&root, Arc::new(RealDisk)).map(|(_, report)| report).unwrap_err().to_string();
        assert!(error.contains("expected this user to own it"), "{error}");
        return;
    }
    let error = place.refused();
    assert!(error.contains("journal-0000000001") && error.contains("expected this user to own it"), "{error}");
    std::os::unix::fs::chown(place.0.join("journal-0000000001"), Some(fs::metadata(&place.0).unwrap().uid()), None)
        .unwrap();
    place.open().unwrap();
    std::os::unix::fs::chown(&place.0, Some(12_345), None).unwrap();
    assert!(place.refused().contains("expected this user to own it"));
}

#[test]
fn links_are_not_followed() {
    for name in ["lock", "newest", "journal-0000000001", "snapshot-0000000001", "journal-0000000002.new"] {
        let place = TestDirectory::new("links");
        place.start().close().unwrap();
        let elsewhere = place.0.join("elsewhere");
        fs::write(&elsewhere, "untouched").unwrap();
        _ = fs::remove_file(place.0.join(name));
        symlink(&elsewhere, place.0.join(name)).unwrap();
        let error = place.refused();
        assert!(error.contains(name) && error.contains("expected a regular file, found a"), "{error}");
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "untouched");
    }
    let place = TestDirectory::new("folder");
    place.start().close().unwrap();
    fs::create_dir(place.0.join("journal-0000000007")).unwrap();
    assert!(place.refused().contains("expected a regular file, found a directory"));
}

#[test]
fn a_file_in_place_of_the_directory_is_refused() {
    let place = TestDirectory::new("file");
    fs::write(&place.0, "no directory").unwrap();
    let error = place.refused();
    assert!(error.contains("expected a directory"), "{error}");
    fs::remove_file(&place.0).unwrap();
}

#[test]
fn foreign_files_are_left_alone_and_named_and_unfinished_ones_go_at_the_start() {
    let place = TestDirectory::new("foreign");
    place.start().close().unwrap();
    for name in ["notes.txt", "journal-1", "snapshot-0000000009.new", "a", "b", "c", "d"] {
        fs::write(place.0.join(name), name).unwrap();
    }
    let (opened, report) = place.open().unwrap();
    let told = report.to_string();
    assert!(told.contains("journal-1: not a file of the journal, left alone"), "{told}");
    assert!(told.contains("1 more files that are not of the journal"), "{told}");
    assert!(place.0.join("snapshot-0000000009.new").exists(), "removed before the start");
    opened.start().unwrap().close().unwrap();
    assert!(!place.0.join("snapshot-0000000009.new").exists());
    assert_eq!(fs::read_to_string(place.0.join("notes.txt")).unwrap(), "notes.txt");
    assert_eq!(fs::read_to_string(place.0.join("journal-1")).unwrap(), "journal-1");
}

#[test]
fn a_record_that_the_caller_cannot_use_is_named_by_file_and_offset() {
    let place = TestDirectory::new("caller");
    let journal = place.start();
    (0..3).for_each(|at| frame(&journal, at));
    journal.close().unwrap();
    drop(journal);
    let (mut opened, _) = place.open().unwrap();
    let mut count = 0;
    let error = opened.frames(|_| {
        count += 1;
        if count == 1 { Ok(()) } else { Err("expected a charge, found a song".to_owned()) }
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("journal-0000000001: the record at offset "), "{error}");
    assert!(error.ends_with("cannot be used: expected a charge, found a song"), "{error}");
}
