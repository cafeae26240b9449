//! A snapshot as bytes: sections, each in chunks prefixed by their length, so that a reader of one section cannot read
//! into the next.
//!
//! ```text
//! magic
//! notes     latest decision, generation, bans
//! keys      the secret that selects shared states, then keys and shared states, one part each
//! memory    the embedded store, in its own format
//! section = chunks (length u32, bytes), then an empty chunk
//! ```
//!
//! It does not represent a single moment: decisions are made while it is written, and the journal corrects the
//! differences.

use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};

use tollgate_kernel::{Clock, Policy, Timestamp};
use tollgate_memory::{Memory, SnapshotError};

use super::frame::{FrameItem, put_ban, put_generation, read_item};
use super::note::{Note, NoteSet};
use tollgate_keyspace::wire::{WireBuffer, WireReader};
use tollgate_keyspace::{ClockReadings, KeyCursor, Keyspace};

/// The first bytes: the format, and its version.
const MAGIC: &[u8; 8] = b"TGDATA\0\x01";
/// The bytes that are collected into a chunk.
const CHUNK: usize = 256 << 10;
/// The longest part: more than a key can hold.
const MAX_PART: u32 = 1 << 30;

/// A function that receives a ban: policy, key, end and level.
pub(crate) type BanSink<'a> = dyn FnMut(&str, &[u8], Timestamp, u32) + 'a;
/// A function that lists all bans, one by one.
pub(crate) type BanLister<'a> = dyn Fn(&mut BanSink<'_>) + 'a;

/// The data that is written.
pub(super) struct SnapshotSource<'a> {
    pub(super) memory: &'a Memory,
    pub(super) keys: &'a Mutex<Keyspace>,
    /// Returns the time of the latest decision, and the generation.
    pub(super) notes: &'a dyn Fn() -> (Timestamp, u64),
    pub(super) bans: &'a BanLister<'a>,
    pub(super) now: ClockReadings,
    /// Returns whether the time for it has run out.
    pub(super) late: &'a (dyn Fn() -> bool + Sync),
}

/// Writes the whole snapshot.
pub(super) fn write(source: &SnapshotSource<'_>, to: &mut dyn Write) -> io::Result<()> {
    let to = &mut DeadlineWriter { to, late: source.late };
    to.write_all(MAGIC)?;
    section(to, |to| write_notes(source, to))?;
    section(to, |to| write_keys(source, to))?;
    section(to, |to| source.memory.save_to(to).map(|_| ()).map_err(io_error))
}

fn io_error(error: SnapshotError) -> io::Error {
    match error {
        SnapshotError::Io(error) => error,
        error => io::Error::other(error.to_string()),
    }
}

fn write_notes(source: &SnapshotSource<'_>, to: &mut dyn Write) -> io::Result<()> {
    let (latest, generation) = (source.notes)();
    let mut bytes = Vec::new();
    bytes.time(latest);
    put_generation(generation, &mut bytes);
    (source.bans)(&mut |policy, key, until, level| put_ban(policy, key, until, level, &mut bytes));
    to.write_all(&bytes)
}

fn write_keys(source: &SnapshotSource<'_>, to: &mut dyn Write) -> io::Result<()> {
    let keys = || source.keys.lock().unwrap_or_else(PoisonError::into_inner);
    let secret = keys().secret();
    secret.iter().try_for_each(|word| to.write_all(&word.to_le_bytes()))?;
    let (mut cursor, mut bytes) = (KeyCursor::FIRST, Vec::new());
    while cursor != KeyCursor::Done {
        // The keys are unlocked while the bytes are written.
        cursor = keys().write_some(cursor, source.now, &mut bytes);
        to.write_all(&bytes)?;
        bytes.clear();
    }
    Ok(())
}

/// The parameters of a store.
pub(super) struct StoreParameters<'a> {
    pub(super) cap: usize,
    /// The clock; `None` for the default one.
    pub(super) clock: Option<Box<dyn Clock>>,
    pub(super) policies: &'a [Policy],
}

/// The contents of a snapshot.
pub(super) struct SnapshotContents {
    pub(super) memory: Memory,
    pub(super) latest: Timestamp,
}

/// The reason why a snapshot was not read.
#[derive(Debug)]
pub(super) enum SnapshotReadError {
    /// The store could not be read.
    Memory(SnapshotError),
    /// The keys exceed their cap by this many bytes.
    Keys(usize),
    /// The file could not be read.
    Io(io::Error),
    /// The contents are invalid.
    Invalid(&'static str),
}

impl From<io::Error> for SnapshotReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Invalid("its end"),
            _ => Self::Io(error),
        }
    }
}

/// Reads the whole snapshot into `keys` and `notes`, and into a new store.
pub(super) fn read(
    from: &mut dyn Read,
    keys: &mut Keyspace,
    notes: &mut NoteSet,
    store: StoreParameters<'_>,
    now: Timestamp,
) -> Result<SnapshotContents, SnapshotReadError> {
    let mut magic = [0; 8];
    from.read_exact(&mut magic)?;
    if magic != *MAGIC {
        return Err(SnapshotReadError::Invalid("its form, which is of another Tollgate"));
    }
    let latest = read_notes(&mut ChunkReader::new(from), notes)?;
    read_keys(&mut ChunkReader::new(from), keys)?;
    match keys.excess(now) {
        0 => {}
        excess => return Err(SnapshotReadError::Keys(excess)),
    }
    let mut section = ChunkReader::new(from);
    let StoreParameters { cap, clock, policies } = store;
    let memory = Memory::restore_from(&mut section, cap, clock, policies).map_err(SnapshotReadError::Memory)?;
    section.end()?;
    Ok(SnapshotContents { memory, latest })
}

fn read_notes(from: &mut ChunkReader<'_>, notes: &mut NoteSet) -> Result<Timestamp, SnapshotReadError> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    let mut from = WireReader::new(&bytes);
    let latest = from.time().ok_or(SnapshotReadError::Invalid("its time"))?;
    while !from.is_done() {
        match read_item(&mut from) {
            Some(FrameItem::Generation(number)) => notes.add(Note::Generation { number }),
            Some(FrameItem::Ban { policy, key, until, level }) => {
                notes.add(Note::Ban { policy: policy.to_owned(), key: key.to_vec(), until, level });
            }
            _ => return Err(SnapshotReadError::Invalid("its bans")),
        }
    }
    Ok(latest)
}

fn read_keys(from: &mut ChunkReader<'_>, keys: &mut Keyspace) -> Result<(), SnapshotReadError> {
    let mut secret = [[0; 8]; 2];
    secret.iter_mut().try_for_each(|word| from.read_exact(word))?;
    keys.set_secret(secret.map(u64::from_le_bytes));
    let mut part = Vec::new();
    loop {
        let mut len = [0; 4];
        match from.read(&mut len[..1])? {
            0 => return Ok(()),
            _ => from.read_exact(&mut len[1..])?,
        }
        let len = Some(u32::from_le_bytes(len)).filter(|len| *len <= MAX_PART);
        let len = u64::from(len.ok_or(SnapshotReadError::Invalid("a key that is too long"))?);
        part.clear();
        // Memory is allocated as bytes arrive, whatever the length claims.
        let read = Read::take(&mut *from, len).read_to_end(&mut part)?;
        if read as u64 != len || keys.read_part(&part).is_none() {
            return Err(SnapshotReadError::Invalid("a key that nobody wrote"));
        }
    }
}

/// A writer that stops when the time has run out.
struct DeadlineWriter<'a> {
    to: &'a mut dyn Write,
    late: &'a (dyn Fn() -> bool + Sync),
}

impl Write for DeadlineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.late)() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "there was no more time for it"));
        }
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes a section in chunks.
fn section(to: &mut dyn Write, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut chunks = ChunkWriter { to, chunk: Vec::with_capacity(CHUNK) };
    fill(&mut chunks)?;
    chunks.put()?;
    chunks.to.write_all(&0u32.to_le_bytes())
}

/// A writer that collects bytes into the chunks of one section.
struct ChunkWriter<'a> {
    to: &'a mut dyn Write,
    chunk: Vec<u8>,
}

impl ChunkWriter<'_> {
    fn put(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        self.to.write_all(&u32::try_from(self.chunk.len()).unwrap_or(u32::MAX).to_le_bytes())?;
        self.to.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }
}

impl Write for ChunkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let some = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..some]);
        if self.chunk.len() == CHUNK {
            self.put()?;
        }
        Ok(some)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader of the chunks of one section.
struct ChunkReader<'a> {
    from: &'a mut dyn Read,
    /// The bytes left in the current chunk.
    left: usize,
    is_done: bool,
}

impl<'a> ChunkReader<'a> {
    fn new(from: &'a mut dyn Read) -> Self {
        Self { from, left: 0, is_done: false }
    }

    /// Checks that the section has no more bytes.
    fn end(&mut self) -> Result<(), SnapshotReadError> {
        match self.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(SnapshotReadError::Invalid("more than a store")),
        }
    }
}

impl Read for ChunkReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_done {
            let mut len = [0; 4];
            self.from.read_exact(&mut len)?;
            self.left = u32::from_le_bytes(len) as usize;
            self.is_done = self.left == 0;
        }
        let some = into.len().min(self.left);
        let read = self.from.read(&mut into[..some])?;
        if read == 0 && some > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_end_where_they_end() {
        let mut bytes = Vec::new();
        let long: Vec<u8> = (0..CHUNK as u32 + 1_000).map(|number| number as u8).collect();
        section(&mut bytes, |to| to.write_all(&long)).unwrap();
        section(&mut bytes, |_| Ok(())).unwrap();
        section(&mut bytes, |to| to.write_all(b"end")).unwrap();
        let from = &mut bytes.as_slice();
        for expected in [&long[..], b"", b"end"] {
            let mut read = Vec::new();
            // Reading ahead does not leave the section.
            io::BufReader::new(&mut ChunkReader::new(from)).read_to_end(&mut read).unwrap();
            assert!(read == expected);
        }
        assert!(from.is_empty());
        for cut in [0, 3, 5, CHUNK + 8, bytes.len() - 1] {
            let from = &mut &bytes[..cut];
            let all = (0..3).try_for_each(|_| ChunkReader::new(from).read_to_end(&mut Vec::new()).map(|_| ()));
            assert_eq!(all.unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{cut}");
        }
    }
}
