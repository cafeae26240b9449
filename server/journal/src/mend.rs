//! The changes that a start makes on disk before it writes: cuts off torn tails, moves damaged files out of the way.
//! Each step leaves files that the next start understands, if this one is interrupted.

use std::io;
use std::path::PathBuf;

use crate::atomic_file;
use crate::chain::Chain;
use crate::disk::{Disk, append_all};
use crate::error::JournalOpenError;
use crate::frame::{self, EndCause};
use crate::names::{self, DAMAGED, FileRole};
use crate::scan::JournalScan;
use crate::snapshot::read_exact;
use crate::survey::Survey;

/// The most damaged files that are kept.
const MAX_DAMAGED: usize = 8;
/// The number of bytes that are copied at a time.
const CHUNK: u64 = 1 << 16;

/// Makes the files on disk match the chain.
///
/// The journal with the number `next`, which is begun after this, is emptied instead of removed if it exists: the one
/// before it may state that it follows.
pub(crate) fn mend(survey: &Survey, chain: &Chain, next: u64, damaged: bool) -> Result<(), JournalOpenError> {
    let step = |doing, name: String, done: io::Result<()>| {
        done.map_err(|source| JournalOpenError::Disk { doing, path: survey.dir.join(name), source })
    };
    let disk = &*survey.disk;
    let kept = chain.files.last().map_or(0, |file| file.number);
    // The note first: it must never name a file that this removes.
    if (!chain.dropped.is_empty() || damaged) && survey.newest() > kept {
        step("writing", names::NEWEST.to_owned(), atomic_file::write_newest(disk, &survey.dir, kept))?;
    }
    let mut moved = Vec::new();
    if damaged {
        let base = chain.base.map_or(0, |about| about.number);
        for &number in survey.snapshots.iter().rev().filter(|number| **number > base) {
            let name = names::snapshot(number);
            moved.push(free(survey, &name)?);
            step("moving", name.clone(), shift(survey, &name, moved.last()))?;
        }
    }
    // From the last on, each made durable: a gap would look like damage.
    for &number in chain.dropped.iter().rev() {
        let name = names::journal(number);
        if damaged {
            moved.push(free(survey, &name)?);
        }
        let done = match (number == next, damaged) {
            (true, true) => copy(survey, &name, moved.last()).and_then(|()| empty(survey, &name)),
            (true, false) => empty(survey, &name),
            (false, true) => shift(survey, &name, moved.last()),
            (false, false) => {
                atomic_file::remove_if_exists(disk, &survey.dir.join(&name)).and_then(|()| disk.sync_dir(&survey.dir))
            }
        };
        step("clearing away", name, done)?;
    }
    if let Some((last, before)) = chain.files.split_last() {
        // Their writer may have been killed before it synced them. The journal that is begun next proves that they were
        // synced.
        for file in before {
            let name = names::journal(file.number);
            let synced = disk.open(&survey.dir.join(&name)).and_then(|file| file.sync());
            step("syncing", name, synced)?;
        }
        let name = names::journal(last.number);
        if damaged && last.len > last.good {
            moved.push(free(survey, &name)?);
            step("copying", name.clone(), copy(survey, &name, moved.last()))?;
        }
        step("ending", name, end(survey, last))?;
    }
    prune(survey, &moved)
}

/// Removes files that are no longer needed: unfinished ones, and everything before the snapshot.
pub(crate) fn tidy(survey: &Survey, base: u64) -> Result<(), JournalOpenError> {
    let old = |numbers: &std::collections::BTreeSet<u64>, name: fn(u64) -> String| {
        numbers.range(..base).map(|number| name(*number)).collect::<Vec<_>>()
    };
    let mut names = survey.unfinished.clone();
    names.extend(old(&survey.snapshots, names::snapshot));
    names.extend(old(&survey.journals, names::journal));
    for name in &names {
        let path = survey.dir.join(name);
        atomic_file::remove_if_exists(&*survey.disk, &path).map_err(|source| JournalOpenError::Disk {
            doing: "removing",
            path,
            source,
        })?;
    }
    if names.is_empty() {
        return Ok(());
    }
    let path = survey.dir.clone();
    survey.disk.sync_dir(&path).map_err(|source| JournalOpenError::Disk { doing: "syncing", path, source })
}

/// Cuts off the part that is not intact, writes an end if there is none, and makes the file durable.
fn end(survey: &Survey, last: &JournalScan) -> io::Result<()> {
    let file = survey.disk.open(&survey.dir.join(names::journal(last.number)))?;
    if last.len > last.good {
        file.truncate(last.good)?;
    }
    if last.end.is_none() {
        let mut bytes = Vec::new();
        frame::put_end(&mut bytes, last.seq, EndCause::Cut);
        append_all(&*file, &bytes)?;
    }
    file.sync()
}

fn empty(survey: &Survey, name: &str) -> io::Result<()> {
    let file = survey.disk.open(&survey.dir.join(name))?;
    file.truncate(0)?;
    file.sync()
}

/// Returns an unused name for a damaged file.
fn free(survey: &Survey, name: &str) -> Result<String, JournalOpenError> {
    let listing = |source| JournalOpenError::Disk { doing: "listing", path: survey.dir.clone(), source };
    let taken = survey.disk.list(&survey.dir).map_err(listing)?;
    let is_free = |name: &String| !taken.iter().any(|(taken, _)| taken == name);
    let plain = format!("{name}{DAMAGED}");
    if is_free(&plain) {
        return Ok(plain);
    }
    let counted = (2..=taken.len() + 2).map(|count| format!("{name}.{count}{DAMAGED}")).find(is_free);
    Ok(counted.unwrap_or(plain))
}

fn shift(survey: &Survey, name: &str, to: Option<&String>) -> io::Result<()> {
    let Some(to) = to else { return Ok(()) };
    survey.disk.rename(&survey.dir.join(name), &survey.dir.join(to))?;
    survey.disk.sync_dir(&survey.dir)
}

/// Copies a file, so that the original exists all the time.
fn copy(survey: &Survey, name: &str, to: Option<&String>) -> io::Result<()> {
    let Some(to) = to else { return Ok(()) };
    let disk: &dyn Disk = &*survey.disk;
    let from = disk.open(&survey.dir.join(name))?;
    let len = from.size()?;
    let into = atomic_file::begin(disk, &survey.dir, to)?;
    let mut at = 0;
    while at < len {
        let mut bytes = vec![0; usize::try_from((len - at).min(CHUNK)).unwrap_or(0)];
        read_exact(&*from, &mut bytes, at)?;
        append_all(&*into, &bytes)?;
        at += bytes.len() as u64;
    }
    into.sync()?;
    atomic_file::finish(disk, &survey.dir, to)
}

/// Keeps a limited number of damaged files: the newest of those moved now, then of the others.
fn prune(survey: &Survey, moved: &[String]) -> Result<(), JournalOpenError> {
    if moved.is_empty() {
        return Ok(());
    }
    let failed = |doing, path: PathBuf| move |source| JournalOpenError::Disk { doing, path, source };
    let entries = survey.disk.list(&survey.dir).map_err(failed("listing", survey.dir.clone()))?;
    let mut kept: Vec<String> =
        entries.into_iter().map(|(name, _)| name).filter(|name| FileRole::of(name) == FileRole::Damaged).collect();
    kept.sort_by_key(|name| (moved.contains(name), name.clone()));
    let many = kept.len().saturating_sub(MAX_DAMAGED);
    for name in kept.iter().take(many) {
        let path = survey.dir.join(name);
        atomic_file::remove_if_exists(&*survey.disk, &path).map_err(failed("removing", path))?;
    }
    survey.disk.sync_dir(&survey.dir).map_err(failed("syncing", survey.dir.clone()))
}
