//! Damaged directories are refused with file and offset and left unchanged, or cut at a torn tail and reported; a
//! repair keeps a prefix of the history and reports it. Nothing panics, and memory stays bounded.

use std::path::PathBuf;
use std::sync::Arc;

use crate::support::{Files, JournalRun, goes_on, look, options, path, read, repairing, rounds};
use tollgate_journal::disk::{DiskOperation, EmulatedDisk};
use tollgate_journal::{JournalOpenError, SyncMode, open};
use tollgate_random::Rng;

/// Damaged directories in the usual test; `TOLLGATE_ROUNDS` for more.
const ROUNDS: u64 = 10_000;
/// How many different directories are damaged.
const DIRECTORIES: u64 = 48;
/// What a reading may take beside four times the files: one window, one block and lists of names.
const ROOM: u64 = 256 << 10;

/// A directory, and how many records of the history its files hold.
struct Directory {
    files: Files,
    upto: u64,
}

/// A directory as a run by chance leaves it, now and then with files that its last snapshot made needless.
fn whole(seed: u64) -> Directory {
    let sync = [SyncMode::EverySecond, SyncMode::Always, SyncMode::EverySecond, SyncMode::Never]
        [usize::try_from(seed % 4).unwrap()];
    let mut rng = Rng::new(seed);
    let mut run = JournalRun::start(&EmulatedDisk::new(seed), sync).unwrap();
    let steps = 6 + rng.below(30);
    run.steps(&mut rng, steps).unwrap();
    run.frame(1 + rng.below(200));
    run.sync().unwrap();
    let mut old = Files::new();
    if rng.one_in(2) {
        old = run.disk.files();
        run.snapshot(3).unwrap();
        run.frame(1 + rng.below(100));
    }
    if rng.one_in(3) {
        drop(run.journal().rotate().unwrap());
        run.frame(rng.below(40));
    }
    match rng.below(3) {
        0 => run.close().unwrap(),
        1 => run.sync().unwrap(),
        _ => run.settle().unwrap(),
    }
    if run.journal.is_some() && rng.one_in(2) {
        run.frame(5 + rng.below(20));
        run.settle().unwrap();
    }
    let mut files = run.disk.files();
    for (name, bytes) in old {
        files.entry(name).or_insert(bytes);
    }
    Directory { files, upto: run.framed }
}

/// Damages files in one random way; returns a description of it.
fn damage(files: &mut Files, rng: &mut Rng) -> String {
    let names: Vec<PathBuf> = files.keys().cloned().collect();
    let name = names[rng.index(names.len())].clone();
    let shown = name.display().to_string();
    let bytes = files.get_mut(&name).unwrap();
    let place = rng.index(bytes.len());
    match rng.below(9) {
        0 => {
            bytes.truncate(place);
            format!("{shown} cut off at {place}")
        }
        1 => {
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= 1 << rng.below(8);
            }
            format!("{shown} with a bit turned at {place}")
        }
        2 => {
            for _ in 0..=rng.below(20) {
                let place = rng.index(bytes.len());
                if let Some(byte) = bytes.get_mut(place) {
                    *byte = byte.wrapping_add(1 + rng.next_u64().to_le_bytes()[0] % 255);
                }
            }
            format!("{shown} with some bytes changed")
        }
        3 => {
            let end = place + rng.index(bytes.len() - place + 1).min(3_000);
            let twice = bytes[place..end].to_vec();
            bytes.splice(end..end, twice);
            format!("{shown} with {place}..{end} twice")
        }
        4 => swap_frames(&shown, bytes, rng),
        5 => {
            let page = place / 4096 * 4096;
            let end = bytes.len().min(page + 4096);
            bytes[page..end].fill(0);
            format!("{shown} with zeros from {page} to {end}")
        }
        6 => {
            let more = rng.index(5_000);
            bytes.extend((0..more).map(|_| rng.next_u64().to_le_bytes()[0]));
            format!("{shown} with {more} bytes behind it")
        }
        7 => {
            files.remove(&name);
            format!("{shown} deleted")
        }
        _ => {
            let other = names[rng.index(names.len())].clone();
            let (left, right) = (files[&name].clone(), files[&other].clone());
            files.insert(name, right);
            files.insert(other.clone(), left);
            format!("{shown} and {} exchanged", other.display())
        }
    }
}

/// Where the frames of a journal begin and end.
fn frames(bytes: &[u8]) -> Vec<(usize, usize)> {
    let (mut at, mut found) = (0, Vec::new());
    while let Some(len) = bytes.get(at..at + 4) {
        let end = at + 16 + usize::try_from(u32::from_le_bytes(len.try_into().unwrap())).unwrap();
        if end > bytes.len() || end < at + 17 {
            break;
        }
        found.push((at, end));
        at = end;
    }
    found
}

fn swap_frames(shown: &str, bytes: &mut Vec<u8>, rng: &mut Rng) -> String {
    let places = frames(bytes);
    if places.len() < 2 || !shown.contains("journal") {
        bytes.reverse();
        return format!("{shown} back to front");
    }
    let first = rng.index(places.len() - 1);
    let second = first + 1 + rng.index(places.len() - first - 1);
    let ((a, b), (c, d)) = (places[first], places[second]);
    let swapped = [&bytes[..a], &bytes[c..d], &bytes[b..c], &bytes[a..b], &bytes[d..]].concat();
    *bytes = swapped;
    format!("{shown} with frames {first} and {second} exchanged")
}

/// Opens a damaged directory without a repair.
fn refused_or_told(damaged: &Files, upto: u64, about: &str) -> bool {
    let disk = EmulatedDisk::with(1, damaged.clone());
    match look(&options(SyncMode::EverySecond), &disk) {
        Err(error) => {
            let JournalOpenError::Damaged(damage) = &error else { panic!("{about}: {error}") };
            let told = error.to_string();
            let file = damage.file.file_name().unwrap().to_string_lossy().into_owned();
            let ours = file.starts_with("journal-") || file.starts_with("snapshot-") || file == "newest";
            assert!(ours, "{about}: {told}");
            assert!(told.contains(&file) && told.contains(&format!("offset {}", damage.offset)), "{about}: {told}");
            assert!(disk.files() == *damaged, "{about}: refused, and yet changed");
            true
        }
        Ok((prefix, report)) => {
            assert!(disk.files() == *damaged, "{about}: changed before the start");
            assert!(prefix.upto <= upto, "{about}: {prefix:?} of {upto}");
            assert!(prefix.upto >= prefix.leans_on, "{about}: not a state that was: {prefix:?}\n{report}");
            // A directory in which nothing is left at all looks like a new one.
            let told = report.is_cut() || !report.is_clean() || damaged.is_empty();
            assert!(prefix.upto == upto || told, "{about}: {prefix:?}\n{report}");
            goes_on(&options(SyncMode::EverySecond), &disk);
            false
        }
    }
}

fn repaired(damaged: &Files, upto: u64, refused: bool, about: &str) {
    let disk = EmulatedDisk::with(1, damaged.clone());
    let input: usize = damaged.values().map(Vec::len).sum();
    let mut result = None;
    let used = allocation_counter::measure(|| {
        let (mut opened, report) = match open(&repairing(SyncMode::EverySecond), Arc::new(disk.clone())) {
            Ok(opened) => opened,
            Err(error) => panic!("{about}: a repair is refused: {error}"),
        };
        let mut count = 0_u64;
        opened
            .frames(|_| {
                count += 1;
                Ok(())
            })
            .unwrap();
        result = Some((opened, report));
    });
    assert!(used.bytes_max <= 4 * input as u64 + ROOM, "{about}: {} bytes for {input}", used.bytes_max);
    let (mut opened, report) = result.unwrap();
    let prefix = read(&mut opened).unwrap();
    drop(opened);
    assert!(prefix.upto <= upto, "{about}: {prefix:?} of {upto}");
    let fine = prefix.upto == upto || report.is_cut() || !report.is_clean() || damaged.is_empty();
    assert!(fine, "{about}: {prefix:?}\n{report}");
    assert!(!report.facts().is_empty());
    let told = report.to_string();
    assert!(!refused || told.contains("repaired: "), "{about}: refused without a repair, which tells nothing:\n{told}");
    // A snapshot that leans on records that are lost is the one state that is not of one moment, and says so.
    assert!(prefix.upto >= prefix.leans_on || told.contains("it may count"), "{about}: {prefix:?}\n{told}");
    goes_on(&repairing(SyncMode::EverySecond), &disk);
}

#[test]
fn damaged_directories_are_refused_or_told_and_repaired() {
    let wholes: Vec<Directory> = (0..DIRECTORIES).map(whole).collect();
    for (seed, whole) in wholes.iter().enumerate() {
        let (prefix, _) = look(&options(SyncMode::EverySecond), &EmulatedDisk::with(1, whole.files.clone())).unwrap();
        assert_eq!(prefix.upto, whole.upto, "directory {seed} unharmed");
    }
    let mut refusals = 0;
    let rounds = rounds(ROUNDS);
    for round in 0..rounds {
        let mut rng = Rng::new(round);
        let which = rng.index(wholes.len());
        let mut files = wholes[which].files.clone();
        let mut about = format!("round {round}, directory {which}");
        for _ in 0..=rng.below(5) / 4 {
            about = format!("{about}, {}", damage(&mut files, &mut rng));
            if files.is_empty() {
                break;
            }
        }
        let refused = refused_or_told(&files, wholes[which].upto, &about);
        refusals += u64::from(refused);
        repaired(&files, wholes[which].upto, refused, &about);
    }
    assert!(refusals > rounds / 4 && refusals < rounds, "{refusals} of {rounds} were refused: not much was tried");
}

/// Every bit of a small directory, with the exact answer: what a mark vouches for is refused, what none does is cut.
#[test]
fn every_bit_before_the_last_mark_is_refused_and_every_bit_behind_it_is_cut() {
    let mut run = JournalRun::start(&EmulatedDisk::new(5), SyncMode::EverySecond).unwrap();
    run.frame(6);
    run.snapshot(2).unwrap();
    run.frame(5);
    run.sync().unwrap();
    let marked = run.framed;
    run.frame(4);
    run.settle().unwrap();
    let files = run.disk.files();
    let journal = path("journal-0000000002");
    let mut upto = 0;
    for (start, end) in frames(&files[&journal]) {
        if files[&journal][start + 16] == 3 {
            upto =
                usize::try_from(u64::from_le_bytes(files[&journal][start + 17..end - 8].try_into().unwrap())).unwrap();
        }
    }
    assert!(upto > 0 && upto < files[&journal].len());
    for name in ["journal-0000000002", "snapshot-0000000002"].map(path) {
        for bit in 0..files[&name].len().min(4_000) * 8 {
            let mut damaged = files.clone();
            damaged.get_mut(&name).unwrap()[bit / 8] ^= 1 << (bit % 8);
            let found = look(&options(SyncMode::EverySecond), &EmulatedDisk::with(1, damaged));
            let about = format!("{} bit {bit}", name.display());
            if name == journal && bit / 8 >= upto {
                let (prefix, report) = found.unwrap_or_else(|error| panic!("{about}: {error}"));
                assert!((marked..run.framed).contains(&prefix.upto), "{about}: {prefix:?}");
                assert!(report.is_cut(), "{about}: {report}");
            } else {
                let error = found.expect_err(&about).to_string();
                assert!(error.contains(&name.display().to_string()) && error.contains("--repair"), "{about}: {error}");
            }
        }
    }
}

/// The note alone vouches for the file before the one it names: no mark is written yet, and the snapshot has no name.
#[test]
fn what_the_note_vouches_for_is_refused() {
    let mut run = JournalRun::start(&EmulatedDisk::new(5), SyncMode::Always).unwrap();
    run.frame(6);
    run.settle().unwrap();
    run.frame(2);
    run.disk.fail(DiskOperation::Rename, 1, 1, 5);
    run.snapshot(0).expect_err("a snapshot without a name");
    let mut files = run.disk.files();
    let journal = files.get_mut(&path("journal-0000000001")).unwrap();
    // The header, six records, their mark, and the second of two that have none.
    let (start, _) = frames(journal)[9];
    journal[start + 20] ^= 1;
    let error = look(&options(SyncMode::Always), &EmulatedDisk::with(1, files.clone())).unwrap_err().to_string();
    assert!(error.contains(&format!("journal-0000000001: damaged at offset {start}")), "{error}");
    // Without it, the same could be a loss of power.
    let first = JournalRun::start(&EmulatedDisk::new(2), SyncMode::Always).unwrap();
    files.insert(path("newest"), first.disk.files()[&path("newest")].clone());
    let (prefix, report) = look(&options(SyncMode::Always), &EmulatedDisk::with(1, files)).unwrap();
    assert!(prefix.upto == 7 && report.is_cut(), "{report}");
}

/// A snapshot holds something of the records that came while it was written: without them it is not a state that was.
#[test]
fn a_journal_that_is_shorter_than_its_snapshot_needs_is_refused() {
    let mut run = JournalRun::start(&EmulatedDisk::new(5), SyncMode::Always).unwrap();
    run.frame(6);
    run.snapshot(4).unwrap();
    run.frame(3);
    run.settle().unwrap();
    let files = run.disk.files();
    let (mut refused, mut read) = (0, 0);
    for (start, end) in frames(&files[&path("journal-0000000002")]) {
        for at in [start, (start + end) / 2] {
            let mut shorter = files.clone();
            shorter.get_mut(&path("journal-0000000002")).unwrap().truncate(at);
            match look(&options(SyncMode::Always), &EmulatedDisk::with(1, shorter)) {
                Ok((prefix, report)) => {
                    assert!(prefix.upto >= 10 && !report.is_clean(), "{at}: {report}");
                    read += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("journal-0000000002: damaged at offset "), "{at}: {error}");
                    refused += 1;
                }
            }
        }
    }
    // The header and the four are needed; the mark and the three behind them are not.
    assert_eq!((refused, read), (10, 8));
}

#[test]
fn a_torn_tail_is_told_in_words() {
    let mut run = JournalRun::start(&EmulatedDisk::new(5), SyncMode::EverySecond).unwrap();
    run.frame(1_234);
    run.settle().unwrap();
    let mut files = run.disk.files();
    let journal = files.get_mut(&path("journal-0000000001")).unwrap();
    let (start, end) = *frames(journal).last().unwrap();
    journal.truncate(end - 1);
    let (prefix, report) = look(&options(SyncMode::EverySecond), &EmulatedDisk::with(1, files)).unwrap();
    assert_eq!(prefix.upto, 1_233);
    let cut = end - 1 - start;
    let expected = format!(
        "journal-0000000001: {cut} bytes of a torn record at {start} were cut off; 1,233 records read\n\
         not ended cleanly: whoever wrote last was killed, lost power or failed"
    );
    assert_eq!(report.to_string(), expected);
}

#[test]
fn a_repair_falls_back_to_the_older_snapshot_while_its_journals_are_there() {
    let mut run = JournalRun::start(&EmulatedDisk::new(5), SyncMode::EverySecond).unwrap();
    run.frame(10);
    run.snapshot(0).unwrap();
    run.frame(10);
    run.sync().unwrap();
    let old = run.disk.files();
    run.snapshot(0).unwrap();
    run.frame(10);
    run.close().unwrap();
    let mut files = run.disk.files();
    for (name, bytes) in old {
        files.entry(name).or_insert(bytes);
    }
    // The journal before was ended after that copy was made.
    let error = {
        files.get_mut(&path("snapshot-0000000003")).unwrap()[60] ^= 4;
        look(&options(SyncMode::EverySecond), &EmulatedDisk::with(1, files.clone())).unwrap_err().to_string()
    };
    assert!(error.contains("data/snapshot-0000000003: damaged at offset 40: expected a block"), "{error}");
    let disk = EmulatedDisk::with(1, files);
    let (prefix, report) = look(&repairing(SyncMode::EverySecond), &disk).unwrap();
    assert_eq!((prefix.upto, report.snapshot()), (20, Some(2)), "{report}");
    goes_on(&repairing(SyncMode::EverySecond), &disk);
    assert!(disk.files().contains_key(&path("snapshot-0000000003.damaged")));
    assert!(disk.files().contains_key(&path("journal-0000000003.damaged")));
}

#[test]
fn a_file_of_a_newer_version_is_refused_even_by_a_repair() {
    let mut run = JournalRun::start(&EmulatedDisk::new(5), SyncMode::EverySecond).unwrap();
    run.frame(1);
    run.close().unwrap();
    let mut files = run.disk.files();
    let journal = files.get_mut(&path("journal-0000000001")).unwrap();
    journal[25] = 2;
    let end = frames(journal)[0].1;
    let sum = crc32c::crc32c(&journal[8..end]);
    journal[4..8].copy_from_slice(&sum.to_le_bytes());
    for options in [options(SyncMode::Always), repairing(SyncMode::Always)] {
        let disk = EmulatedDisk::with(1, files.clone());
        let error = look(&options, &disk).unwrap_err().to_string();
        assert!(error.contains("journal-0000000001: expected version 1, found 2"), "{error}");
        assert!(disk.files() == files);
    }
}

#[test]
fn at_most_eight_damaged_files_are_kept() {
    let mut run = JournalRun::start(&EmulatedDisk::new(5), SyncMode::EverySecond).unwrap();
    for _ in 0..12 {
        run.frame(3);
        drop(run.journal().rotate().unwrap());
    }
    run.close().unwrap();
    let mut files = run.disk.files();
    files.get_mut(&path("journal-0000000001")).unwrap()[90] ^= 1;
    let disk = EmulatedDisk::with(1, files);
    look(&options(SyncMode::EverySecond), &disk).expect_err("a start in spite of damage");
    goes_on(&repairing(SyncMode::EverySecond), &disk);
    let damaged: Vec<_> =
        disk.files().into_keys().filter(|path| path.to_string_lossy().ends_with(".damaged")).collect();
    assert_eq!(damaged.len(), 8, "{damaged:?}");
    assert!(damaged.contains(&path("journal-0000000013.damaged")), "{damaged:?}");
}
