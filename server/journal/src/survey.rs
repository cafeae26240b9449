//! The contents of a directory: journals and snapshots by their names, and other files.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::atomic_file::{self, NewestNote};
use crate::disk::{Disk, DiskFile, FileKind};
use crate::error::JournalOpenError;
use crate::frame::{BeginCause, JournalHeader};
use crate::names::{self, FileRole};
use crate::report::RecoveryReport;
use crate::scan::JournalScan;

/// The most foreign names that are reported one by one.
const MAX_LISTED: usize = 5;

/// The directory, as it was found.
pub(crate) struct Survey {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) journals: BTreeSet<u64>,
    pub(crate) snapshots: BTreeSet<u64>,
    /// Journals whose headers state that there was nothing before them.
    pub(crate) origins: BTreeSet<u64>,
    pub(crate) unfinished: Vec<String>,
    pub(crate) damaged: Vec<String>,
    pub(crate) foreign: Vec<String>,
    pub(crate) note: NewestNote,
}

impl Survey {
    pub(crate) fn of(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, JournalOpenError> {
        let failed = |doing, path: PathBuf| move |source| JournalOpenError::Disk { doing, path, source };
        let entries = disk.list(dir).map_err(failed("listing", dir.to_owned()))?;
        let note = atomic_file::read_newest(&*disk, dir).map_err(failed("reading", dir.join(names::NEWEST)))?;
        let mut survey = Self {
            disk,
            dir: dir.to_owned(),
            journals: BTreeSet::new(),
            snapshots: BTreeSet::new(),
            origins: BTreeSet::new(),
            unfinished: Vec::new(),
            damaged: Vec::new(),
            foreign: Vec::new(),
            note,
        };
        for (name, kind) in entries {
            survey.take(name, kind)?;
        }
        for number in survey.journals.clone() {
            if survey.header(number)?.is_some_and(|header| header.begun == BeginCause::Origin) {
                survey.origins.insert(number);
            }
        }
        Ok(survey)
    }

    fn take(&mut self, name: String, kind: FileKind) -> Result<(), JournalOpenError> {
        let is = FileRole::of(&name);
        if kind != FileKind::File && !matches!(is, FileRole::Foreign) {
            let found = if kind == FileKind::Directory { "a directory" } else { "a link or the like" };
            let source = io::Error::new(io::ErrorKind::InvalidInput, format!("expected a regular file, found {found}"));
            return Err(JournalOpenError::Disk { doing: "opening", path: self.dir.join(name), source });
        }
        match is {
            FileRole::Journal(number) => _ = self.journals.insert(number),
            FileRole::Snapshot(number) => _ = self.snapshots.insert(number),
            FileRole::Unfinished => self.unfinished.push(name),
            FileRole::Damaged => self.damaged.push(name),
            FileRole::Foreign => self.foreign.push(name),
            FileRole::Lock | FileRole::Newest => {}
        }
        Ok(())
    }

    /// Returns the number in `newest`; zero proves nothing.
    pub(crate) fn newest(&self) -> u64 {
        if let NewestNote::Number(number) = self.note { number } else { 0 }
    }

    /// Returns the largest number of all.
    pub(crate) fn most(&self) -> u64 {
        let last = |set: &BTreeSet<u64>| set.last().copied().unwrap_or(0);
        last(&self.journals).max(last(&self.snapshots)).max(self.newest())
    }

    pub(crate) fn open(&self, name: &str) -> Result<Arc<dyn DiskFile>, JournalOpenError> {
        let path = self.dir.join(name);
        self.disk.open(&path).map_err(|source| JournalOpenError::Disk { doing: "opening", path, source })
    }

    pub(crate) fn scan(&self, number: u64) -> Result<JournalScan, JournalOpenError> {
        let name = names::journal(number);
        let file = self.open(&name)?;
        let scan = JournalScan::of(&file, number).map_err(|source| self.reading(&name, source))?;
        match &scan.bad {
            Some(what @ crate::frame::FrameError::Version(_)) => {
                Err(JournalOpenError::Version { file: self.dir.join(name), what: what.to_string() })
            }
            _ => Ok(scan),
        }
    }

    pub(crate) fn header(&self, number: u64) -> Result<Option<JournalHeader>, JournalOpenError> {
        let name = names::journal(number);
        JournalScan::header(&self.open(&name)?, number).map_err(|source| self.reading(&name, source))
    }

    pub(crate) fn reading(&self, name: &str, source: io::Error) -> JournalOpenError {
        JournalOpenError::Disk { doing: "reading", path: self.dir.join(name), source }
    }

    /// Reports files that do not belong to the journal.
    pub(crate) fn report_foreign(&self, report: &mut RecoveryReport) {
        for name in self.foreign.iter().take(MAX_LISTED) {
            report.push(format!("{}: not a file of the journal, left alone", name.escape_debug()));
        }
        if let Some(more) = self.foreign.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
            report.push(format!("{more} more files that are not of the journal, left alone"));
        }
    }
}
