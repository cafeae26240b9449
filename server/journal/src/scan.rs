//! Reads one journal file from end to end: how far it is intact, and how far it is proven to have been synced.

use std::io;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::frame::{EndCause, FrameError, HEADER_FRAME, JournalFrame, JournalHeader};
use crate::frame_reader::{FrameReader, ReadItem};

/// The contents of one journal file.
#[derive(Debug)]
pub(crate) struct JournalScan {
    pub(crate) number: u64,
    pub(crate) len: u64,
    pub(crate) header: Option<JournalHeader>,
    /// Everything before this offset is intact and in order.
    pub(crate) good: u64,
    /// The sequence number that a frame at `good` would have.
    pub(crate) seq: u64,
    pub(crate) records: u64,
    pub(crate) end: Option<EndCause>,
    /// The fault at `good`, if the file continues there.
    pub(crate) bad: Option<FrameError>,
    /// The offset up to which a mark, anywhere in the file, proves that everything was synced.
    pub(crate) synced: Option<u64>,
}

impl JournalScan {
    /// Reads a file that should be the journal with this number.
    pub(crate) fn of(file: &Arc<dyn DiskFile>, number: u64) -> io::Result<Self> {
        let len = file.size()?;
        let mut scan =
            Self { number, len, header: None, good: 0, seq: 0, records: 0, end: None, bad: None, synced: None };
        let mut reader = FrameReader::new(Arc::clone(file), 0, len);
        while scan.bad.is_none() {
            match reader.next()? {
                ReadItem::End if scan.header.is_none() => {
                    scan.bad = Some(FrameError::Torn { has: 0, needs: HEADER_FRAME })
                }
                ReadItem::End => return Ok(scan),
                ReadItem::Bad { bad, .. } => scan.bad = Some(bad),
                ReadItem::Frame { offset, seq, frame } => {
                    scan.bad = scan.take(offset, seq, &frame).err();
                    if scan.bad.is_none() {
                        scan.good = reader.offset();
                    }
                }
            }
        }
        let salt = scan.header.map(|header| header.salt);
        let beyond = FrameReader::new(Arc::clone(file), scan.good, len).marks(salt)?;
        scan.synced = scan.synced.max(beyond);
        Ok(scan)
    }

    /// Reads only the header of a file, if it is intact.
    pub(crate) fn header(file: &Arc<dyn DiskFile>, number: u64) -> io::Result<Option<JournalHeader>> {
        let len = file.size()?;
        match FrameReader::new(Arc::clone(file), 0, len).next()? {
            ReadItem::Frame { frame: JournalFrame::Header(header), .. } if header.number == number => Ok(Some(header)),
            _ => Ok(None),
        }
    }

    fn take(&mut self, offset: u64, seq: u64, frame: &JournalFrame<'_>) -> Result<(), FrameError> {
        let Some(own) = self.header else {
            return match frame {
                JournalFrame::Header(header) if header.number == self.number && header.seq < u64::MAX => {
                    self.header = Some(*header);
                    self.seq = seq + 1;
                    Ok(())
                }
                JournalFrame::Header(_) => {
                    Err(FrameError::Place("expected the header of this journal, found that of another"))
                }
                _ => Err(FrameError::Place("expected the header of this journal, found another record")),
            };
        };
        if self.end.is_some() {
            return Err(FrameError::Place("expected nothing behind the end of a journal, found a record"));
        }
        if seq != self.seq {
            return Err(FrameError::Seq { expected: self.seq, found: seq });
        }
        match *frame {
            JournalFrame::Header(_) => {
                return Err(FrameError::Place("expected a record, found the header of a journal"));
            }
            JournalFrame::Synced { upto, salt } if salt == own.salt && upto <= offset => {
                self.synced = self.synced.max(Some(upto));
            }
            JournalFrame::Synced { .. } => {
                return Err(FrameError::Place("expected a mark of this journal, found that of another"));
            }
            JournalFrame::Record(_) => self.records += 1,
            JournalFrame::End(end) => self.end = Some(end),
        }
        self.seq = self.seq.saturating_add(1);
        Ok(())
    }
}
