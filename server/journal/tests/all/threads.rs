//! Many threads frame and settle at once: the order in the files is the order of the lock, nothing is lost, and every
//! record that was settled is there.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::{look, options, path, record, write_state};
use tollgate_journal::disk::{Disk, DiskFile, DiskOperation, EmulatedDisk, FileKind, Lock, Survival};
use tollgate_journal::{Journal, JournalError, SyncMode, open};

const THREADS: u64 = 8;
const EACH: u64 = 400;

fn start(disk: Arc<dyn Disk>, sync: SyncMode) -> Journal {
    open(&options(sync), disk).unwrap().0.start().unwrap()
}

/// Frames the next record of the history, on any thread.
fn next(journal: &Journal, place: &AtomicU64) -> u64 {
    let mut writing = journal.lock();
    let own = place.fetch_add(1, Ordering::Relaxed);
    writing.frame(|into| record(own, into));
    own
}

fn settle(journal: &Journal, blocking: bool) -> Result<(), JournalError> {
    if blocking {
        return journal.settle_now();
    }
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(journal.settled())
}

fn at_once(sync: SyncMode) {
    let disk = EmulatedDisk::new(1);
    let journal = start(Arc::new(disk.clone()), sync);
    let (place, settled, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (journal, place, settled) = (&journal, &place, &settled);
                scope.spawn(move || {
                    for round in 0..EACH {
                        let mut own = next(journal, place);
                        for _ in 0..round % 3 {
                            own = next(journal, place);
                        }
                        if round % 2 == 0 {
                            settle(journal, thread % 2 == 0).unwrap();
                            settled.fetch_max(own + 1, Ordering::AcqRel);
                        }
                    }
                    settle(journal, true).unwrap();
                })
            })
            .collect();
        // Snapshots all the while, each of what was framed when its file began.
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let rotation = journal.rotate().unwrap();
                let most = next(&journal, &place) + 1;
                journal.settle_now().unwrap();
                let least = first_of(&disk, rotation.file());
                rotation.write(|to| write_state(to, least, most)).unwrap();
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Release);
    });
    let framed = place.load(Ordering::Acquire);
    journal.settle_now().unwrap();
    for survival in [Survival::Everything, Survival::Nothing] {
        let (prefix, report) = look(&options(sync), &disk.restart(survival, 1)).unwrap();
        let promised = match (survival, sync) {
            (Survival::Everything, _) | (_, SyncMode::Always) => framed,
            _ => prefix.leans_on,
        };
        assert!(prefix.upto >= promised && prefix.upto <= framed, "{survival:?}: {prefix:?} of {framed}\n{report}");
    }
    assert!(settled.load(Ordering::Acquire) <= framed);
    assert_eq!(journal.stats().frames, framed);
}

/// The place in the history of a file's first record, read from the file, so that no lock of the test's own is needed
/// around a rotation.
fn first_of(disk: &EmulatedDisk, file: u64) -> u64 {
    let bytes = &disk.files()[&path(&format!("journal-{file:010}"))];
    // Behind the header of 62 bytes stand frames; marks are not records.
    let mut at = 62;
    while bytes[at + 16] != 2 {
        at += 16 + usize::try_from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())).unwrap();
    }
    u64::from_le_bytes(bytes[at + 17..at + 25].try_into().unwrap())
}

#[test]
fn many_threads_at_once_lose_nothing_with_a_sync_now_and_then() {
    at_once(SyncMode::EverySecond);
}

#[test]
fn many_threads_at_once_lose_nothing_with_a_sync_each_time() {
    at_once(SyncMode::Always);
}

#[test]
fn what_waits_is_bounded_without_anyone_who_settles() {
    let disk = EmulatedDisk::new(1);
    let journal = start(Arc::new(disk.clone()), SyncMode::Never);
    let mut writing = journal.lock();
    for _ in 0..40 {
        writing.frame(|into| into.resize(1 << 19, 3));
    }
    drop(writing);
    // Twenty megabytes were framed; all but what may wait were written.
    let written = disk.files()[&path("journal-0000000001")].len();
    assert!(written > 12 << 20, "{written}");
    assert_eq!(journal.stats().frames, 40);
    journal.close().unwrap();
    drop(journal);
    let (mut opened, _) = open(&options(SyncMode::Never), Arc::new(disk)).unwrap();
    assert_eq!(opened.frames(|found| if found.len() == 1 << 19 { Ok(()) } else { Err("cut".to_owned()) }).unwrap(), 40);
}

/// A disk that reports syncs of files, and delays them while the gate is shut.
struct GatedDisk {
    disk: EmulatedDisk,
    gate: Arc<(Mutex<bool>, Condvar)>,
    reports: SyncSender<()>,
}

struct GatedFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<(Mutex<bool>, Condvar)>,
    reports: SyncSender<()>,
}

fn gated(disk: &EmulatedDisk) -> (Arc<GatedDisk>, Receiver<()>) {
    let (reports, syncs_seen) = sync_channel(10_000);
    (Arc::new(GatedDisk { disk: disk.clone(), gate: Arc::default(), reports }), syncs_seen)
}

impl GatedDisk {
    fn shut(&self, shut: bool) {
        *self.gate.0.lock().unwrap() = shut;
        self.gate.1.notify_all();
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(GatedFile { file, gate: Arc::clone(&self.gate), reports: self.reports.clone() })
    }
}

impl Disk for GatedDisk {
    fn prepare(&self, dir: &Path) -> io::Result<()> {
        self.disk.prepare(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.disk.lock(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>> {
        self.disk.list(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(path).map(|file| self.file(file))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path).map(|file| self.file(file))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn now(&self) -> u64 {
        self.disk.now()
    }
    fn random(&self) -> u64 {
        self.disk.random()
    }
}

impl DiskFile for GatedFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.file.append(bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.reports.send(()).unwrap();
        let mut shut = self.gate.0.lock().unwrap();
        while *shut {
            shut = self.gate.1.wait(shut).unwrap();
        }
        self.file.sync()
    }
    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.truncate(size)
    }
}

/// Long enough for any machine; what is waited for comes, or the test fails.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn the_thread_syncs_by_itself() {
    let disk = EmulatedDisk::new(1);
    let (gated, syncs_seen) = gated(&disk);
    let journal = start(gated, SyncMode::EverySecond);
    for round in 1..=2 {
        // The start and the first sync are reported as well.
        while syncs_seen.try_recv().is_ok() {}
        journal.lock().frame(|into| record(round - 1, into));
        journal.settle_now().unwrap();
        syncs_seen.recv_timeout(PATIENCE).expect("a sync that nobody asked for");
        // The mark behind it shows that it ended.
        let marked = (0..1_000_000_000_u64).any(|_| {
            thread::yield_now();
            journal.stats().syncs == round
        });
        assert!(marked);
        let (prefix, _) = look(&options(SyncMode::EverySecond), &disk.restart(Survival::Nothing, 1)).unwrap();
        assert_eq!(prefix.upto, round);
    }
}

#[test]
fn those_who_wait_together_share_a_sync_and_writers_do_not_wait_for_it() {
    let disk = EmulatedDisk::new(1);
    let (gated, syncs_seen) = gated(&disk);
    let journal = start(Arc::clone(&gated) as Arc<dyn Disk>, SyncMode::Always);
    while syncs_seen.try_recv().is_ok() {}
    gated.shut(true);
    let place = AtomicU64::new(0);
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            next(&journal, &place);
            settle(&journal, false).unwrap();
        });
        syncs_seen.recv_timeout(PATIENCE).expect("the first sync");
        let others: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    next(&journal, &place);
                    settle(&journal, false).unwrap();
                })
            })
            .collect();
        // All of them frame and write while the sync is held up.
        let written = (0..1_000_000_000_u64).any(|_| {
            thread::yield_now();
            let (prefix, _) = look(&options(SyncMode::Always), &disk.restart(Survival::Everything, 1)).unwrap();
            prefix.upto == 21
        });
        assert!(written && !first.is_finished() && others.iter().all(|other| !other.is_finished()));
        gated.shut(false);
        first.join().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
    let syncs = journal.stats().syncs;
    assert!((2..=3).contains(&syncs), "{syncs} syncs for 21 who waited");
}

#[test]
fn those_who_wait_are_told_when_the_sync_fails() {
    let disk = EmulatedDisk::new(1);
    let (gated, syncs_seen) = gated(&disk);
    let journal = start(Arc::clone(&gated) as Arc<dyn Disk>, SyncMode::Always);
    while syncs_seen.try_recv().is_ok() {}
    gated.shut(true);
    disk.fail(DiskOperation::Sync, 0, 1, 5);
    let place = AtomicU64::new(0);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..6)
            .map(|thread| {
                let (journal, place) = (&journal, &place);
                scope.spawn(move || {
                    next(journal, place);
                    settle(journal, thread % 2 == 0)
                })
            })
            .collect();
        syncs_seen.recv_timeout(PATIENCE).expect("a sync");
        gated.shut(false);
        for one in waiting {
            assert!(one.join().unwrap().is_err(), "settled by a sync that failed");
        }
    });
}
