//! The chain of files that make up a state: a snapshot or an origin, then journals in order, up to where they stop.
//!
//! The law of the stop: data that no mark, header, snapshot or note proves to have been synced may be missing after a
//! loss of power. It is a torn tail, which is cut off with everything after it. Data that one of them proves was on
//! disk; if it is not what was written, that is damage.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::error::{Damage, JournalOpenError};
use crate::frame::{BeginCause, EndCause, HEADER_FRAME};
use crate::names;
use crate::scan::JournalScan;
use crate::snapshot::SnapshotMeta;
use crate::survey::Survey;

/// The files that make up a state.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pub(crate) base: Option<SnapshotMeta>,
    /// The journals to read, each up to its `good` offset.
    pub(crate) files: Vec<JournalScan>,
    pub(crate) stop: Option<Stop>,
    /// The sequence number of the next frame.
    pub(crate) seq: u64,
    /// Journals after the stop.
    pub(crate) dropped: BTreeSet<u64>,
}

/// The place where a chain stops before its end.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) what: String,
    /// Whether something proves that there was more.
    pub(crate) proven: bool,
}

impl Stop {
    pub(crate) fn damage(&self, survey: &Survey) -> Damage {
        Damage { file: survey.dir.join(names::journal(self.number)), offset: self.offset, what: self.what.clone() }
    }
}

impl Chain {
    /// Follows the journals from `first` on, which comes after a snapshot or is an origin.
    pub(crate) fn from(survey: &Survey, base: Option<SnapshotMeta>, first: u64) -> Result<Self, JournalOpenError> {
        let mut chain = Self { base, seq: base.map_or(1, |about| about.seq), ..Self::default() };
        let mut number = first;
        loop {
            chain.stop = chain.missing(survey, number)?;
            if chain.stop.is_some() || !survey.journals.contains(&number) {
                break;
            }
            let scan = survey.scan(number)?;
            chain.stop = chain.unfit(survey, &scan)?;
            if chain.stop.is_some() {
                break;
            }
            chain.stop = chain.unfinished(survey, &scan)?;
            chain.seq = scan.seq;
            chain.files.push(scan);
            if chain.stop.is_some() {
                break;
            }
            number += 1;
        }
        if let Some(stop) = &chain.stop {
            let kept = chain.files.last().map_or(stop.number.saturating_sub(1), |file| file.number);
            chain.dropped = survey.journals.range((Bound::Excluded(kept), Bound::Unbounded)).copied().collect();
        }
        Ok(chain)
    }

    /// Returns a stop if a file that must exist is missing. A rotation makes the next file durable before it ends the
    /// previous one, and a start writes its file's number to `newest` only when the file is durable, so a loss of power
    /// cannot cause this. However, of several files begun after a failure only the last is kept, and it proves nothing
    /// about those before it.
    fn missing(&self, survey: &Survey, number: u64) -> Result<Option<Stop>, JournalOpenError> {
        if survey.journals.contains(&number) {
            return Ok(None);
        }
        let (mut proven, mut later) = (false, false);
        match self.files.last() {
            None => proven = true,
            Some(last) => proven |= last.end == Some(EndCause::Rotation),
        }
        for &next in survey.journals.range(number..) {
            later = true;
            let scan = survey.scan(next)?;
            match scan.header.map(|header| header.begun) {
                Some(BeginCause::Anew) => break,
                Some(_) => proven = true,
                None => proven |= scan.synced.is_some() || survey.newest() == next,
            }
        }
        proven |= survey.newest() >= number && !survey.journals.contains(&survey.newest());
        let what = "expected this file, found none".to_owned();
        Ok((proven || later).then_some(Stop { number, offset: 0, what, proven }))
    }

    /// Returns a stop if a file does not continue the previous one.
    fn unfit(&self, survey: &Survey, scan: &JournalScan) -> Result<Option<Stop>, JournalOpenError> {
        let first = self.files.is_empty();
        let stop = |what: String, proven| Ok(Some(Stop { number: scan.number, offset: 0, what, proven }));
        match scan.header {
            None => {
                let what = scan.bad.as_ref().map(ToString::to_string).unwrap_or_default();
                stop(what, self.proven(survey, scan, 0)?)
            }
            Some(header) if header.begun == BeginCause::Anew && !first => {
                stop("begun after a failure, and its snapshot was never finished".to_owned(), false)
            }
            Some(header) if header.begun == BeginCause::Origin && !first => {
                stop("expected a journal that follows on another, found a first one".to_owned(), true)
            }
            Some(header) if header.seq != self.seq && (self.base.is_some() || !first) => {
                stop(format!("expected record number {}, found {}", self.seq, header.seq), true)
            }
            Some(_) => Ok(None),
        }
    }

    /// Returns a stop if a file is not intact up to an end, although another file or its own contents require it.
    fn unfinished(&self, survey: &Survey, scan: &JournalScan) -> Result<Option<Stop>, JournalOpenError> {
        let short = self.required_len(scan).filter(|needs| *needs > scan.good && scan.end != Some(EndCause::Cut));
        let what = match (&scan.bad, scan.end, short) {
            (Some(bad), _, _) => bad.to_string(),
            (None, _, Some(needs)) => format!("expected {needs} bytes, which the snapshot needs, found the end"),
            (None, None, None) if survey.journals.contains(&(scan.number + 1)) => {
                "expected the end of a journal that another follows, found the end of the file".to_owned()
            }
            _ => return Ok(None),
        };
        let proven = self.proven(survey, scan, scan.good)?;
        Ok(Some(Stop { number: scan.number, offset: scan.good, what, proven }))
    }

    /// Returns how much of this journal the snapshot needs to be complete.
    fn required_len(&self, scan: &JournalScan) -> Option<u64> {
        let about = self.base.filter(|about| about.number == scan.number)?;
        scan.header.is_none_or(|header| header.salt == about.salt).then_some(about.needs)
    }

    /// Returns whether something proves that this file had data after `offset`.
    fn proven(&self, survey: &Survey, scan: &JournalScan, offset: u64) -> Result<bool, JournalOpenError> {
        let noted = survey.newest();
        let here = scan.synced.is_some_and(|upto| upto > offset)
            || self.required_len(scan).is_some_and(|needs| needs > offset)
            || (noted == scan.number && offset < HEADER_FRAME);
        if here {
            return Ok(true);
        }
        // The note was written when the file it names, and those before it, were synced.
        let vouched = noted > scan.number;
        for &number in survey.journals.range((Bound::Excluded(scan.number), Bound::Unbounded)) {
            let later = survey.scan(number)?;
            match later.header.map(|header| header.begun) {
                // These prove nothing about the files before them, and neither does a note that was written since.
                Some(BeginCause::Anew | BeginCause::Origin) => return Ok(vouched && noted < number),
                Some(BeginCause::Start) => return Ok(true),
                _ if later.synced.is_some() => return Ok(true),
                _ => {}
            }
        }
        Ok(vouched)
    }
}
