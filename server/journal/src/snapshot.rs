//! Snapshots: the caller's bytes in checksummed blocks.
//!
//! A header (magic, version, number, first sequence number of the journal that follows, time, checksum), then blocks
//! (`len u32 | crc32c u32 | bytes`, the checksum over the block's index and its bytes), then the end (how many blocks
//! and bytes, the checksum of all bytes, and how far the journal reached that the snapshot needs to be complete).

use std::io::{self, Read, Write};
use std::sync::Arc;

use crate::disk::{DiskFile, append_all};
use crate::frame::{word32, word64};

const MAGIC: &[u8; 8] = b"TGSNAPSH";
const VERSION: u32 = 1;
const HEADER: usize = 40;
/// A block's length and checksum.
const HEAD: usize = 8;
/// The most bytes of a block when reading.
const MAX_BLOCK: usize = 1 << 20;
/// The bytes of a block when writing.
const BLOCK: usize = 1 << 18;
/// A length that marks the end, because no block has it.
const END: u32 = u32::MAX;
const END_BODY: usize = 36;
/// The number of bytes written before each sync, so that the last sync does not write gigabytes while the journal syncs
/// too.
const SYNC_EACH: u64 = 1 << 25;

/// The metadata of a whole snapshot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SnapshotMeta {
    pub(crate) number: u64,
    /// The sequence number of the header of the journal that follows.
    pub(crate) seq: u64,
    /// Microseconds since the Unix epoch.
    pub(crate) time: u64,
    /// The journal that follows was synced at least up to this offset when the snapshot got its name.
    pub(crate) needs: u64,
    /// The salt of that journal.
    pub(crate) salt: u64,
    /// The number of the caller's bytes.
    pub(crate) bytes: u64,
    /// The size of the file in bytes.
    pub(crate) size: u64,
}

/// Writes the caller's bytes in blocks.
pub(crate) struct SnapshotWriter<'a> {
    file: &'a dyn DiskFile,
    block: Vec<u8>,
    blocks: u64,
    bytes: u64,
    all: u32,
    unsynced: u64,
}

impl<'a> SnapshotWriter<'a> {
    /// Begins a snapshot in an empty file.
    pub(crate) fn begin(file: &'a dyn DiskFile, number: u64, seq: u64, time: u64) -> io::Result<Self> {
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        for word in [number, seq, time] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
        append_all(file, &header)?;
        Ok(Self { file, block: Vec::new(), blocks: 0, bytes: 0, all: 0, unsynced: 0 })
    }

    /// Writes the end, and makes the whole file durable. Returns the size of the file in bytes.
    pub(crate) fn end(mut self, needs: u64, salt: u64) -> io::Result<u64> {
        self.put_block()?;
        let mut body = Vec::with_capacity(END_BODY);
        for word in [self.blocks, self.bytes, needs, salt] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&self.all.to_le_bytes());
        let mut end = Vec::with_capacity(HEAD + END_BODY);
        end.extend_from_slice(&END.to_le_bytes());
        end.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        end.extend_from_slice(&body);
        append_all(self.file, &end)?;
        self.file.sync()?;
        self.file.size()
    }

    fn put_block(&mut self) -> io::Result<()> {
        let Some(bytes) = self.block.get(HEAD..).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        let (len, sum) = (u32::try_from(bytes.len()).unwrap_or(END), checksum(self.blocks, bytes));
        self.all = crc32c::crc32c_append(self.all, bytes);
        self.bytes += bytes.len() as u64;
        self.blocks += 1;
        self.block[..4].copy_from_slice(&len.to_le_bytes());
        self.block[4..HEAD].copy_from_slice(&sum.to_le_bytes());
        append_all(self.file, &self.block)?;
        self.unsynced += self.block.len() as u64;
        self.block.clear();
        if self.unsynced >= SYNC_EACH {
            self.unsynced = 0;
            self.file.sync()?;
        }
        Ok(())
    }
}

impl Write for SnapshotWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.block.is_empty() {
            // Reserves space for the length and the checksum, which are known when the block is full.
            self.block.resize(HEAD, 0);
        }
        let taken = bytes.len().min(HEAD + BLOCK - self.block.len());
        self.block.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        if self.block.len() == HEAD + BLOCK {
            self.put_block()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reason why a file is not a snapshot.
#[derive(Debug)]
pub(crate) enum SnapshotCheckError {
    Damaged { offset: u64, what: String },
    Version(String),
    Disk(io::Error),
}

impl From<io::Error> for SnapshotCheckError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Reads all of a snapshot, and returns its metadata.
pub(crate) fn check(file: &Arc<dyn DiskFile>, number: u64) -> Result<SnapshotMeta, SnapshotCheckError> {
    let mut reader = BlockReader::new(Arc::clone(file))?;
    let mut about = reader.header(number)?;
    while reader.block()? {}
    reader.end(&mut about)?;
    Ok(about)
}

/// Reads a snapshot's blocks in order.
struct BlockReader {
    file: Arc<dyn DiskFile>,
    len: u64,
    at: u64,
    block: Vec<u8>,
    blocks: u64,
    bytes: u64,
    all: u32,
}

impl BlockReader {
    fn new(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let len = file.size()?;
        Ok(Self::sized(file, len))
    }

    fn sized(file: Arc<dyn DiskFile>, len: u64) -> Self {
        Self { file, len, at: 0, block: Vec::new(), blocks: 0, bytes: 0, all: 0 }
    }

    fn header(&mut self, number: u64) -> Result<SnapshotMeta, SnapshotCheckError> {
        let header = self.take::<HEADER>("a header")?;
        if !header.starts_with(MAGIC) || crc32c::crc32c(&header[..HEADER - 4]) != word32(&header, HEADER - 4) {
            return Err(SnapshotCheckError::Damaged {
                offset: 0,
                what: "expected the header of a snapshot, found another".to_owned(),
            });
        }
        match word32(&header, 8) {
            VERSION => {}
            found => return Err(SnapshotCheckError::Version(format!("expected version {VERSION}, found {found}"))),
        }
        let found = word64(&header, 12);
        if found != number {
            let what = format!("expected snapshot number {number}, found {found}");
            return Err(SnapshotCheckError::Damaged { offset: 0, what });
        }
        let (seq, time) = (word64(&header, 20), word64(&header, 28));
        Ok(SnapshotMeta { number, seq, time, needs: 0, salt: 0, bytes: 0, size: self.len })
    }

    /// Reads the next block; returns `false` at the end, which is not consumed.
    fn block(&mut self) -> Result<bool, SnapshotCheckError> {
        let offset = self.at;
        let head = self.take::<HEAD>("a block or the end")?;
        let (len, sum) = (word32(&head, 0), word32(&head, 4));
        if len == END {
            self.at = offset;
            return Ok(false);
        }
        let damaged = |what| Err(SnapshotCheckError::Damaged { offset, what });
        let left = self.len.saturating_sub(self.at);
        let size = match usize::try_from(len) {
            Ok(size) if (1..=MAX_BLOCK).contains(&size) => size,
            _ => return damaged(format!("expected a block's length, 1 to {MAX_BLOCK}, found {len}")),
        };
        if u64::from(len) > left {
            return damaged(format!("expected a block of {len} bytes, found {left} and the end"));
        }
        self.block.clear();
        self.block.reserve_exact(size);
        self.block.resize(size, 0);
        read_exact(&*self.file, &mut self.block, self.at)?;
        let found = checksum(self.blocks, &self.block);
        if found != sum {
            return damaged(format!("expected a block with checksum {sum:08x}, found {found:08x}"));
        }
        self.all = crc32c::crc32c_append(self.all, &self.block);
        self.at += u64::from(len);
        self.bytes += u64::from(len);
        self.blocks += 1;
        Ok(true)
    }

    fn end(&mut self, about: &mut SnapshotMeta) -> Result<(), SnapshotCheckError> {
        let offset = self.at;
        let end = self.take::<{ HEAD + END_BODY }>("the end")?;
        let body = &end[HEAD..];
        let right = crc32c::crc32c(body) == word32(&end, 4)
            && word64(body, 0) == self.blocks
            && word64(body, 8) == self.bytes
            && word32(body, 32) == self.all
            && self.at == self.len;
        if !right {
            let what = format!("expected the end behind {} blocks, found another", self.blocks);
            return Err(SnapshotCheckError::Damaged { offset, what });
        }
        (about.needs, about.salt, about.bytes) = (word64(body, 16), word64(body, 24), self.bytes);
        Ok(())
    }

    fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], SnapshotCheckError> {
        let left = self.len.saturating_sub(self.at);
        if left < N as u64 {
            let what = format!("expected {what} of {N} bytes, found {left} and the end");
            return Err(SnapshotCheckError::Damaged { offset: self.at, what });
        }
        let mut bytes = [0; N];
        read_exact(&*self.file, &mut bytes, self.at)?;
        self.at += N as u64;
        Ok(bytes)
    }
}

/// The caller's bytes of a snapshot that was checked.
pub struct SnapshotReader {
    blocks: BlockReader,
    used: usize,
}

impl SnapshotReader {
    pub(crate) fn new(file: Arc<dyn DiskFile>, len: u64) -> Self {
        let mut blocks = BlockReader::sized(file, len);
        blocks.at = HEADER as u64;
        Self { blocks, used: 0 }
    }
}

impl Read for SnapshotReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.used == self.blocks.block.len() {
            match self.blocks.block() {
                Ok(true) => self.used = 0,
                Ok(false) => return Ok(0),
                Err(SnapshotCheckError::Disk(error)) => return Err(error),
                Err(SnapshotCheckError::Damaged { what, .. } | SnapshotCheckError::Version(what)) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            }
        }
        let left = self.blocks.block.get(self.used..).unwrap_or_default();
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.used += count;
        Ok(count)
    }
}

impl std::fmt::Debug for SnapshotReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotReader").field("at", &self.blocks.at).finish_non_exhaustive()
    }
}

fn checksum(index: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&index.to_le_bytes()), bytes)
}

/// Reads all bytes requested; fails if the file ends before.
pub(crate) fn read_exact(file: &dyn DiskFile, into: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(into.get_mut(done..).unwrap_or_default(), offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
