//! Opens a directory: locks it, reads everything in it, and reports what was found. Nothing is changed before the
//! start.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::chain::Chain;
use crate::choose::{self, Choice};
use crate::describe;
use crate::disk::{Disk, DiskFile, Lock};
use crate::error::{Damage, JournalOpenError};
use crate::frame::{BeginCause, EndCause, JournalFrame};
use crate::frame_reader::{FrameReader, ReadItem};
use crate::inner::{JournalFile, StartParameters};
use crate::journal::Journal;
use crate::mend;
use crate::names;
use crate::options::{JournalOptions, SyncMode};
use crate::report::RecoveryReport;
use crate::snapshot::SnapshotReader;
use crate::survey::Survey;

/// Locks the directory, checks everything in it, and changes nothing but its lock file.
///
/// A torn tail, which a loss of power leaves, is mentioned in the report and cut off by [`JournalDir::start`]. Any
/// other damage is an error, unless [`JournalOptions::repair`] is set.
pub fn open(options: &JournalOptions, disk: Arc<dyn Disk>) -> Result<(JournalDir, RecoveryReport), JournalOpenError> {
    let dir = &options.dir;
    let failed = |doing| move |source| JournalOpenError::Disk { doing, path: dir.clone(), source };
    disk.prepare(dir).map_err(failed("using the directory"))?;
    let lock = disk.lock(&dir.join(names::LOCK)).map_err(|source| match source.kind() {
        std::io::ErrorKind::WouldBlock => JournalOpenError::InUse { dir: dir.clone() },
        _ => JournalOpenError::Disk { doing: "locking", path: dir.join(names::LOCK), source },
    })?;
    let survey = Survey::of(disk, dir)?;
    let Choice { chain, damages } = choose::choose(&survey, options.repair)?;
    let snapshot = chain.base.map(|about| survey.open(&names::snapshot(about.number))).transpose()?;
    let report = describe::report(&survey, &chain, &damages);
    Ok((JournalDir { survey, chain, damages, snapshot, sync: options.sync, lock }, report))
}

/// A directory that was read and can be used.
pub struct JournalDir {
    survey: Survey,
    chain: Chain,
    damages: Vec<Damage>,
    snapshot: Option<Arc<dyn DiskFile>>,
    sync: SyncMode,
    lock: Lock,
}

impl JournalDir {
    /// Returns the bytes of the snapshot that the state begins with. Its checksums were correct when it was opened, and
    /// are checked again.
    pub fn snapshot(&mut self) -> Option<SnapshotReader> {
        let (about, file) = (self.chain.base?, self.snapshot.as_ref()?);
        Some(SnapshotReader::new(Arc::clone(file), about.size))
    }

    /// Passes each record after the snapshot to `each`, in order, and returns their number. A record that `each`
    /// rejects ends the reading with an error that contains the file and the offset.
    pub fn frames(&mut self, mut each: impl FnMut(&[u8]) -> Result<(), String>) -> Result<u64, JournalOpenError> {
        let mut count = 0;
        for scan in &self.chain.files {
            let name = names::journal(scan.number);
            let file = self.survey.open(&name)?;
            let path = || self.survey.dir.join(&name);
            let mut reader = FrameReader::new(file, 0, scan.good);
            loop {
                match reader.next().map_err(|source| self.survey.reading(&name, source))? {
                    ReadItem::Frame { offset, frame: JournalFrame::Record(record), .. } => {
                        each(record).map_err(|what| JournalOpenError::Record { file: path(), offset, what })?;
                        count += 1;
                    }
                    ReadItem::Frame { .. } => {}
                    ReadItem::End => break,
                    ReadItem::Bad { offset, bad } => {
                        return Err(JournalOpenError::Damaged(Damage { file: path(), offset, what: bad.to_string() }));
                    }
                }
            }
        }
        Ok(count)
    }

    /// Repairs what the report mentions, begins a new journal, and removes files that are no longer needed.
    pub fn start(self) -> Result<Journal, JournalOpenError> {
        self.begin(true)
    }

    /// Does the same without a thread that syncs: [`SyncMode::EverySecond`] syncs only by [`Journal::sync_now`]. For
    /// tests, in which nothing may happen in the background.
    pub fn start_by_hand(self) -> Result<Journal, JournalOpenError> {
        self.begin(false)
    }

    /// Does the same as [`start`](Self::start), even on a full disk: then nothing is stored, as its health reports,
    /// until a rotation and its snapshot find room. Data stored before stays until then. A repair needs room.
    pub fn start_though_full(self) -> Result<Journal, JournalOpenError> {
        match self.first(true) {
            Ok((beginning, out)) => self.start_with(&beginning, out),
            Err(error) if error.is_full() && self.damages.is_empty() => self.start_without_file(),
            Err(error) => Err(error),
        }
    }

    fn begin(self, thread: bool) -> Result<Journal, JournalOpenError> {
        let (beginning, out) = self.first(thread)?;
        self.start_with(&beginning, out)
    }

    /// Repairs what the report mentions, and begins the first file of this start.
    fn first(&self, thread: bool) -> Result<(StartParameters, JournalFile), JournalOpenError> {
        let (survey, chain) = (&self.survey, &self.chain);
        let number = match (chain.files.last(), chain.base) {
            (Some(last), _) => last.number + 1,
            (None, Some(about)) => about.number,
            (None, None) if chain.stop.as_ref().is_some_and(|stop| !stop.proven) => survey.most(),
            (None, None) => survey.most() + 1,
        };
        mend::mend(survey, chain, number, !self.damages.is_empty())?;
        let begun = if self.is_empty() { BeginCause::Origin } else { BeginCause::Start };
        let bytes = chain.files.iter().map(|file| file.good).sum();
        // Mending wrote an end where there was none.
        let ended = chain.files.last().is_some_and(|last| last.end.is_none());
        let seq = chain.seq + u64::from(ended);
        let beginning = StartParameters { number, seq, begun, snapshot: chain.base, bytes, sync: self.sync, thread };
        let out = Journal::first_file(&*survey.disk, &survey.dir, &beginning)?;
        Ok((beginning, out))
    }

    fn start_with(self, beginning: &StartParameters, out: JournalFile) -> Result<Journal, JournalOpenError> {
        let survey = &self.survey;
        let journal = Journal::begin(Arc::clone(&survey.disk), survey.dir.clone(), self.lock, out, beginning)?;
        mend::tidy(survey, self.chain.base.map_or(0, |about| about.number))?;
        Ok(journal)
    }

    /// Starts a journal that stores nothing. The file that a rotation begins has an unused number, so that existing
    /// files stay as they are until its snapshot exists too.
    fn start_without_file(self) -> Result<Journal, JournalOpenError> {
        let (survey, chain) = (&self.survey, &self.chain);
        let number = chain.files.last().map_or(0, |file| file.number).max(survey.most()) + 1;
        let begun = if self.is_empty() { BeginCause::Origin } else { BeginCause::Anew };
        let bytes = chain.files.iter().map(|file| file.good).sum();
        // An end may have been written where there was none.
        let seq = chain.seq + 1;
        let beginning =
            StartParameters { number, seq, begun, snapshot: chain.base, bytes, sync: self.sync, thread: true };
        let out = JournalFile::without_file(number, begun);
        let journal = Journal::begin(Arc::clone(&survey.disk), survey.dir.clone(), self.lock, out, &beginning)?;
        journal.inner.newest.store(survey.newest(), Ordering::Release);
        journal.give_up();
        Ok(journal)
    }

    /// Returns whether nothing was stored so far.
    fn is_empty(&self) -> bool {
        self.chain.files.is_empty() && self.chain.base.is_none()
    }

    /// Returns whether the last writer stopped cleanly.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        clean(&self.chain)
    }
}

pub(crate) fn clean(chain: &Chain) -> bool {
    chain.stop.is_none() && chain.files.last().is_none_or(|last| last.end == Some(EndCause::Clean))
}

impl std::fmt::Debug for JournalDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalDir").field("chain", &self.chain).finish_non_exhaustive()
    }
}
