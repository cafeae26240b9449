//! The input: a file or standard input, plain or gzip, with the bytes counted as they are read.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

use crate::error::CliError;

/// An open input.
pub(crate) struct ReplaySource {
    /// The uncompressed bytes.
    pub(crate) reader: Box<dyn Read + Send>,
    /// The number of bytes read so far, before decompression.
    pub(crate) bytes_read: Arc<AtomicU64>,
    /// The number of bytes in all, if it is a file.
    pub(crate) size: Option<u64>,
}

impl ReplaySource {
    /// Opens `path`; `-` is standard input. An input that begins like gzip is decompressed, with all its members.
    pub(crate) fn open(path: &str) -> Result<Self, CliError> {
        let (raw, size): (Box<dyn Read + Send>, _) = if path == "-" {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(path).map_err(|source| CliError::Open { path: path.to_owned(), source })?;
            let size = file.metadata().ok().filter(|data| data.is_file()).map(|data| data.len());
            (Box::new(file), size)
        };
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = CountingReader { raw, bytes_read: Arc::clone(&bytes_read) };
        let reader = unpacked(counted).map_err(|source| CliError::Read { path: path.to_owned(), lines: 0, source })?;
        Ok(Self { reader, bytes_read, size })
    }
}

/// Returns the bytes of `raw`, decompressed if they begin like gzip.
fn unpacked(mut raw: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::with_capacity(2);
    raw.by_ref().take(2).read_to_end(&mut magic)?;
    let packed = magic == [0x1f, 0x8b];
    let whole = Cursor::new(magic).chain(raw);
    Ok(if packed {
        Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, whole)))
    } else {
        Box::new(whole)
    })
}

/// A reader that counts the bytes it has read.
struct CountingReader {
    raw: Box<dyn Read + Send>,
    bytes_read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.raw.read(buffer)?;
        self.bytes_read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
