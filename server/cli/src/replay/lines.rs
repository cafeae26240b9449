//! Lines of a stream, through one buffer that never grows: a line that does not fit is reported as too long and
//! skipped.

use std::io::{self, ErrorKind, Read};

use memchr::memchr;

/// The longest line, in bytes. Also the size of the buffer, which is chosen to stay in the processor's cache.
pub(crate) const MAX_LINE: usize = 1 << 18;

/// A stream, split into lines.
pub(crate) struct LineReader<R> {
    reader: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    number: u64,
    ended: bool,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InputLine<'a> {
    /// The number of the line, counted from 1.
    pub(crate) number: u64,
    /// Its bytes without the line feed; `None` if it is too long.
    pub(crate) bytes: Option<&'a [u8]>,
}

impl<R: Read> LineReader<R> {
    /// Returns the lines of `reader`.
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; MAX_LINE].into(), start: 0, end: 0, number: 0, ended: false }
    }

    /// Returns the number of lines returned so far.
    pub(crate) fn count(&self) -> u64 {
        self.number
    }

    /// Returns the next line.
    pub(crate) fn next(&mut self) -> io::Result<Option<InputLine<'_>>> {
        let mut searched = 0;
        let mut too_long = false;
        loop {
            let held = &self.buffer[self.start..self.end];
            if let Some(length) = memchr(b'\n', &held[searched..]) {
                let from = self.start;
                self.start += searched + length + 1;
                return Ok(Some(self.line(from, searched + length, too_long)));
            }
            searched = held.len();
            if self.ended {
                let from = self.start;
                self.start = self.end;
                let any = searched > 0 || too_long;
                return Ok(any.then(|| self.line(from, searched, too_long)));
            }
            if searched == self.buffer.len() {
                too_long = true;
                searched = 0;
                self.end = self.start;
            }
            self.fill()?;
        }
    }

    fn line(&mut self, from: usize, length: usize, too_long: bool) -> InputLine<'_> {
        self.number += 1;
        let bytes = (!too_long).then(|| &self.buffer[from..from + length]);
        // Some editors begin a file with a byte order mark, which is not part of its first line.
        let bytes = match bytes {
            Some(bytes) if self.number == 1 => Some(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)),
            other => other,
        };
        InputLine { number: self.number, bytes }
    }

    /// Moves the buffered bytes to the front, and reads more behind them.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a few bytes at a time, as a pipe may.
    struct DripReader<'a>(&'a [u8], usize);

    impl Read for DripReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn all(text: &[u8], step: usize) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut lines = LineReader::new(DripReader(text, step));
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push((line.number, line.bytes.map(<[u8]>::to_vec)));
        }
        assert_eq!(lines.count(), all.len() as u64);
        all
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        for step in [1, 2, 3, 7, 1_000] {
            let text = b"\xef\xbb\xbfone\n\ntwo\r\nthree";
            let expected: Vec<_> = [b"one".as_slice(), b"", b"two\r", b"three"]
                .iter()
                .zip(1..)
                .map(|(line, number)| (number, Some(line.to_vec())))
                .collect();
            assert_eq!(all(text, step), expected);
        }
        assert_eq!(all(b"", 1), []);
        assert_eq!(all(b"\n", 1), [(1, Some(vec![]))]);
    }

    #[test]
    fn a_line_that_does_not_fit_is_told_and_skipped() {
        let fits = vec![b'a'; MAX_LINE - 1];
        for long in [MAX_LINE, MAX_LINE + 1, 3 * MAX_LINE, 3 * MAX_LINE + 5] {
            let mut text = fits.clone();
            text.push(b'\n');
            text.resize(text.len() + long, b'b');
            text.extend(b"\nend");
            for step in [1_000, 1 << 20] {
                let lines = all(&text, step);
                assert_eq!(lines.len(), 3);
                assert_eq!(lines[0], (1, Some(fits.clone())));
                assert_eq!(lines[1], (2, None), "{long}");
                assert_eq!(lines[2], (3, Some(b"end".to_vec())));
            }
        }
        assert_eq!(all(&vec![b'b'; MAX_LINE + 1], 1_000), [(1, None)]);
    }
}
