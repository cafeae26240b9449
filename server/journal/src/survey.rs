//! The contents of a directory: journals and snapshots by their names, and other files.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, Kind};
use crate::error::OpenError;
use crate::frame::{Begun, Header};
use crate::names::{self, Name};
use crate::report::Report;
use crate::scan::Scan;
use crate::whole::{self, Note};

/// The most foreign names that are reported one by one.
const MAX_TOLD: usize = 5;

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
    pub(crate) note: Note,
}

impl Survey {
    pub(crate) fn of(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, OpenError> {
        let failed = |doing, path: PathBuf| move |source| OpenError::Disk { doing, path, source };
        let entries = disk.list(dir).map_err(failed("listing", dir.to_owned()))?;
        let note = whole::noted(&*disk, dir).map_err(failed("reading", dir.join(names::NEWEST)))?;
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
            if survey.header(number)?.is_some_and(|header| header.begun == Begun::Origin) {
                survey.origins.insert(number);
            }
        }
        Ok(survey)
    }

    fn take(&mut self, name: String, kind: Kind) -> Result<(), OpenError> {
        let is = Name::of(&name);
        if kind != Kind::File && !matches!(is, Name::Foreign) {
            let found = if kind == Kind::Directory { "a directory" } else { "a link or the like" };
            let source = io::Error::new(io::ErrorKind::InvalidInput, format!("expected a regular file, found {found}"));
            return Err(OpenError::Disk { doing: "opening", path: self.dir.join(name), source });
        }
        match is {
            Name::Journal(number) => _ = self.journals.insert(number),
            Name::Snapshot(number) => _ = self.snapshots.insert(number),
            Name::Unfinished => self.unfinished.push(name),
            Name::Damaged => self.damaged.push(name),
            Name::Foreign => self.foreign.push(name),
            Name::Lock | Name::Newest => {}
        }
        Ok(())
    }

    /// Returns the number in `newest`; zero proves nothing.
    pub(crate) fn noted(&self) -> u64 {
        if let Note::Number(number) = self.note { number } else { 0 }
    }

    /// Returns the largest number of all.
    pub(crate) fn most(&self) -> u64 {
        let last = |set: &BTreeSet<u64>| set.last().copied().unwrap_or(0);
        last(&self.journals).max(last(&self.snapshots)).max(self.noted())
    }

    pub(crate) fn open(&self, name: &str) -> Result<Arc<dyn DiskFile>, OpenError> {
        let path = self.dir.join(name);
        self.disk.open(&path).map_err(|source| OpenError::Disk { doing: "opening", path, source })
    }

    pub(crate) fn scan(&self, number: u64) -> Result<Scan, OpenError> {
        let name = names::journal(number);
        let file = self.open(&name)?;
        let scan = Scan::of(&file, number).map_err(|source| self.reading(&name, source))?;
        match &scan.bad {
            Some(what @ crate::frame::Bad::Version(_)) => {
                Err(OpenError::Version { file: self.dir.join(name), what: what.to_string() })
            }
            _ => Ok(scan),
        }
    }

    pub(crate) fn header(&self, number: u64) -> Result<Option<Header>, OpenError> {
        let name = names::journal(number);
        Scan::header(&self.open(&name)?, number).map_err(|source| self.reading(&name, source))
    }

    pub(crate) fn reading(&self, name: &str, source: io::Error) -> OpenError {
        OpenError::Disk { doing: "reading", path: self.dir.join(name), source }
    }

    /// Reports files that do not belong to the journal.
    pub(crate) fn tell(&self, report: &mut Report) {
        for name in self.foreign.iter().take(MAX_TOLD) {
            report.tell(format!("{}: not a file of the journal, left alone", name.escape_debug()));
        }
        if let Some(more) = self.foreign.len().checked_sub(MAX_TOLD).filter(|more| *more > 0) {
            report.tell(format!("{more} more files that are not of the journal, left alone"));
        }
    }
}
