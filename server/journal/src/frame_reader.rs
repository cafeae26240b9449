//! Reads a journal file frame by frame, allocating memory for the bytes that exist, not for the length that they claim.

use std::io;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::frame::{self, FrameError, HEAD, JournalFrame, SYNCED_FRAME};

/// The number of bytes that are read at a time.
const CHUNK: usize = 1 << 16;

/// The next item of a file.
#[derive(Debug)]
pub(crate) enum ReadItem<'a> {
    Frame {
        offset: u64,
        seq: u64,
        frame: JournalFrame<'a>,
    },
    /// The file ends at the end of a frame.
    End,
    Bad {
        offset: u64,
        bad: FrameError,
    },
}

/// A reader with a window that moves over a file.
pub(crate) struct FrameReader {
    file: Arc<dyn DiskFile>,
    len: u64,
    /// The offset in the file at which the window begins.
    base: u64,
    window: Vec<u8>,
    /// The number of bytes of the window that were used.
    used: usize,
}

impl FrameReader {
    /// Returns a reader from `offset` up to `len`.
    pub(crate) fn new(file: Arc<dyn DiskFile>, offset: u64, len: u64) -> Self {
        Self { file, len, base: offset, window: Vec::new(), used: 0 }
    }

    /// Returns the offset at which the next frame would begin.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.used as u64
    }

    /// Reads the next frame. Its checksum is correct; the caller must check that its sequence number follows.
    pub(crate) fn next(&mut self) -> io::Result<ReadItem<'_>> {
        let offset = self.offset();
        let left = self.len.saturating_sub(offset);
        if left == 0 {
            return Ok(ReadItem::End);
        }
        let bad = |bad| Ok(ReadItem::Bad { offset, bad });
        let Some(head) = self.peek(HEAD)?.first_chunk::<HEAD>() else {
            return bad(FrameError::Torn { has: left, needs: HEAD as u64 });
        };
        let needs = match frame::length(head) {
            Ok(len) => HEAD + len,
            Err(length) => return bad(length),
        };
        if needs as u64 > left {
            return bad(FrameError::Torn { has: left, needs: needs as u64 });
        }
        self.peek(needs)?;
        let begin = self.used;
        self.used += needs;
        match frame::parse(self.window.get(begin..begin + needs).unwrap_or_default()) {
            Ok((seq, frame)) => Ok(ReadItem::Frame { offset, seq, frame }),
            Err(wrong) => {
                self.used = begin;
                bad(wrong)
            }
        }
    }

    /// Searches for marks from here to the end, at every byte, and returns the largest offset that one proves to be
    /// synced. With a salt, only marks that repeat it count; a mark cannot prove anything about bytes after it.
    pub(crate) fn marks(&mut self, salt: Option<u64>) -> io::Result<Option<u64>> {
        let mut most = None;
        loop {
            let offset = self.offset();
            let window = self.peek(SYNCED_FRAME)?;
            if window.len() < SYNCED_FRAME {
                return Ok(most);
            }
            let places = window.len() - SYNCED_FRAME + 1;
            for (at, bytes) in window.windows(SYNCED_FRAME).enumerate() {
                match frame::mark(bytes) {
                    Some((upto, found)) if upto <= offset + at as u64 && salt.is_none_or(|salt| salt == found) => {
                        most = most.max(Some(upto));
                    }
                    _ => {}
                }
            }
            self.used += places;
        }
    }

    /// Returns at least `count` bytes from here on, or all that are left.
    fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        while self.window.len() - self.used < count {
            let at = self.base + self.window.len() as u64;
            let left = usize::try_from(self.len.saturating_sub(at)).unwrap_or(usize::MAX);
            if left == 0 {
                break;
            }
            self.window.drain(..self.used);
            self.base += self.used as u64;
            self.used = 0;
            let (have, more) = (self.window.len(), left.min(CHUNK.max(count)));
            self.window.reserve_exact(more);
            self.window.resize(have + more, 0);
            let read = self.file.read_at(self.window.get_mut(have..).unwrap_or_default(), at);
            self.window.truncate(have + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(self.window.get(self.used..).unwrap_or_default())
    }
}
