//! Frames: the format of records in a journal file.
//!
//! `len u32 | crc32c u32 | seq u64 | kind u8, body`, little endian; `len` counts kind and body, the checksum is over
//! everything behind it. Kinds: the header of a file, a record of the caller, a mark that everything up to an offset
//! was synced, and the end of a file. `seq` counts up by one over all frames of all files.

use std::fmt;

/// The bytes before kind and body.
pub(crate) const HEAD: usize = 16;
/// The most bytes of kind and body together.
pub(crate) const MAX: usize = 1 << 20;
/// The most bytes of one record.
pub const MAX_RECORD: usize = MAX - 1;

const MAGIC: &[u8; 8] = b"TGJOURNL";
pub(crate) const VERSION: u32 = 1;

const HEADER: u8 = 1;
pub(crate) const RECORD: u8 = 2;
const SYNCED: u8 = 3;
const END: u8 = 4;

/// The length of a header's frame, including its head.
pub(crate) const HEADER_FRAME: u64 = (HEAD + 1 + HEADER_BODY) as u64;
const HEADER_BODY: usize = 8 + 4 + 1 + 8 + 8 + 8 + 8;
const SYNCED_BODY: usize = 16;
/// The length of a mark's frame, including its head.
pub(crate) const SYNCED_FRAME: usize = HEAD + 1 + SYNCED_BODY;

/// The first frame of a journal file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct JournalHeader {
    pub(crate) begun: BeginCause,
    pub(crate) number: u64,
    pub(crate) seq: u64,
    /// Microseconds since the Unix epoch.
    pub(crate) time: u64,
    /// A secret of the file, which its marks repeat, so that a record whose bytes imitate a mark is not taken for one.
    pub(crate) salt: u64,
}

/// The reason why a journal file was begun, which determines what it proves about those before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BeginCause {
    /// There was nothing before it.
    Origin = 1,
    /// At a start: everything before it was read, ended and synced.
    Start = 2,
    /// By a rotation: it continues the one before, which may not be synced yet.
    Rotation = 3,
    /// After a failure: records are missing before it, so it is usable only with its own snapshot.
    Anew = 4,
}

/// How a journal file was ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EndCause {
    /// By a clean stop.
    Clean = 1,
    /// By the start after a stop that was not clean.
    Cut = 2,
    /// By a rotation; the next file exists.
    Rotation = 3,
}

/// One frame, as read.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum JournalFrame<'a> {
    Header(JournalHeader),
    Record(&'a [u8]),
    Synced { upto: u64, salt: u64 },
    End(EndCause),
}

/// The reason why bytes are not a frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum FrameError {
    /// The file ends within a frame.
    Torn {
        has: u64,
        needs: u64,
    },
    Length(u32),
    Checksum {
        written: u32,
        found: u32,
    },
    Seq {
        expected: u64,
        found: u64,
    },
    Version(u32),
    /// Its checksum is correct, but it is not valid in this place.
    Place(&'static str),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn { has, needs } => write!(f, "expected a record of {needs} bytes, found {has} and the end"),
            Self::Length(found) => write!(f, "expected a record's length, 1 to {MAX}, found {found}"),
            Self::Checksum { written, found } => {
                write!(f, "expected a record with checksum {written:08x}, found {found:08x}")
            }
            Self::Seq { expected, found } => write!(f, "expected record number {expected}, found {found}"),
            Self::Version(found) => write!(f, "expected version {VERSION}, found {found}"),
            Self::Place(what) => f.write_str(what),
        }
    }
}

/// Appends a frame.
pub(crate) fn put(out: &mut Vec<u8>, seq: u64, kind: u8, body: &[u8]) {
    let mut start = [0; 9];
    start[..8].copy_from_slice(&seq.to_le_bytes());
    start[8] = kind;
    let sum = crc32c::crc32c_append(crc32c::crc32c(&start), body);
    // Callers keep bodies within `MAX_RECORD`, so the length fits.
    let len = u32::try_from(body.len() + 1).unwrap_or(u32::MAX);
    out.reserve(HEAD + 1 + body.len());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&start);
    out.extend_from_slice(body);
}

pub(crate) fn put_header(out: &mut Vec<u8>, header: &JournalHeader) {
    let mut body = Vec::with_capacity(HEADER_BODY);
    body.extend_from_slice(MAGIC);
    body.extend_from_slice(&VERSION.to_le_bytes());
    body.push(header.begun as u8);
    for word in [header.number, header.seq, header.time, header.salt] {
        body.extend_from_slice(&word.to_le_bytes());
    }
    put(out, header.seq, HEADER, &body);
}

pub(crate) fn put_synced(out: &mut Vec<u8>, seq: u64, upto: u64, salt: u64) {
    let mut body = [0; SYNCED_BODY];
    body[..8].copy_from_slice(&upto.to_le_bytes());
    body[8..].copy_from_slice(&salt.to_le_bytes());
    put(out, seq, SYNCED, &body);
}

pub(crate) fn put_end(out: &mut Vec<u8>, seq: u64, end: EndCause) {
    put(out, seq, END, &[end as u8]);
}

/// Returns the length of kind and body that a head contains, if it is valid.
pub(crate) fn length(head: &[u8; HEAD]) -> Result<usize, FrameError> {
    let len = word32(head, 0);
    match usize::try_from(len) {
        Ok(len) if (1..=MAX).contains(&len) => Ok(len),
        _ => Err(FrameError::Length(len)),
    }
}

/// Parses a whole frame, including its head; returns its sequence number and its contents.
pub(crate) fn parse(bytes: &[u8]) -> Result<(u64, JournalFrame<'_>), FrameError> {
    let (Some(sum), Some(checked)) = (bytes.get(4..8), bytes.get(8..)) else {
        return Err(FrameError::Torn { has: bytes.len() as u64, needs: HEAD as u64 });
    };
    let (written, found) = (word32(sum, 0), crc32c::crc32c(checked));
    if written != found {
        return Err(FrameError::Checksum { written, found });
    }
    let seq = word64(checked, 0);
    let (Some(kind), Some(body)) = (checked.get(8), checked.get(9..)) else {
        return Err(FrameError::Place("expected a kind of record, found none"));
    };
    let frame = match *kind {
        RECORD => JournalFrame::Record(body),
        HEADER => JournalFrame::Header(header(seq, body)?),
        SYNCED if body.len() == SYNCED_BODY => JournalFrame::Synced { upto: word64(body, 0), salt: word64(body, 8) },
        END => match body {
            [1] => JournalFrame::End(EndCause::Clean),
            [2] => JournalFrame::End(EndCause::Cut),
            [3] => JournalFrame::End(EndCause::Rotation),
            _ => return Err(FrameError::Place("expected an end of kind 1 to 3, found another")),
        },
        _ => return Err(FrameError::Place("expected a known kind of record, found another")),
    };
    Ok((seq, frame))
}

/// Returns the offset and salt of a mark, if these bytes are a whole one, wherever they are.
pub(crate) fn mark(bytes: &[u8]) -> Option<(u64, u64)> {
    let len = u32::try_from(SYNCED_BODY + 1).unwrap_or(0).to_le_bytes();
    if bytes.get(..4)? != len || *bytes.get(HEAD)? != SYNCED {
        return None;
    }
    match parse(bytes.get(..SYNCED_FRAME)?) {
        Ok((_, JournalFrame::Synced { upto, salt })) => Some((upto, salt)),
        _ => None,
    }
}

fn header(seq: u64, body: &[u8]) -> Result<JournalHeader, FrameError> {
    if body.len() < 12 || !body.starts_with(MAGIC) {
        return Err(FrameError::Place("expected the header of a journal, found another"));
    }
    match word32(body, 8) {
        VERSION => {}
        found => return Err(FrameError::Version(found)),
    }
    let begun = match body.get(12) {
        Some(1) => BeginCause::Origin,
        Some(2) => BeginCause::Start,
        Some(3) => BeginCause::Rotation,
        Some(4) => BeginCause::Anew,
        _ => return Err(FrameError::Place("expected a header begun in way 1 to 4, found another")),
    };
    let header = JournalHeader {
        begun,
        number: word64(body, 13),
        seq: word64(body, 21),
        time: word64(body, 29),
        salt: word64(body, 37),
    };
    if body.len() != HEADER_BODY || header.seq != seq {
        return Err(FrameError::Place("expected a header that repeats its record number, found another"));
    }
    Ok(header)
}

/// Returns four bytes from `at` on; missing bytes count as zero, which no caller relies on.
pub(crate) fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Returns eight bytes from `at` on, likewise.
pub(crate) fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
}
