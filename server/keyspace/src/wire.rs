//! The byte encoding of frames and snapshots: numbers take as few bytes as they need, texts are prefixed by their
//! length. Reading validates everything: invalid bytes are refused, and never cause an allocation larger than the
//! input.

use tollgate_kernel::Timestamp;

/// A buffer that bytes are written to.
pub trait WireBuffer {
    /// Writes a number, seven bits a byte, least significant first.
    fn number(&mut self, number: u64);
    /// Writes bytes, prefixed by their length.
    fn text(&mut self, text: &[u8]);
    /// Writes bytes, prefixed by their length, which is not known before they are written.
    fn part(&mut self, fill: impl FnOnce(&mut Vec<u8>));

    /// Writes a time.
    fn time(&mut self, time: Timestamp) {
        self.number(time.get());
    }

    /// Writes an optional time.
    fn maybe_time(&mut self, time: Option<Timestamp>) {
        self.number(time.map_or(0, |time| time.get() + 1));
    }
}

impl WireBuffer for Vec<u8> {
    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.push(number as u8);
    }

    #[inline]
    fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.extend_from_slice(text);
    }

    fn part(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let from = self.len();
        self.extend_from_slice(&[0; 4]);
        fill(self);
        // No part comes near four gigabytes: keys and logs are bounded.
        let len = u32::try_from(self.len() - from - 4).unwrap_or(u32::MAX);
        self[from..from + 4].copy_from_slice(&len.to_le_bytes());
    }
}

/// A reader of bytes.
#[derive(Clone, Copy, Debug)]
pub struct WireReader<'a>(&'a [u8]);

impl<'a> WireReader<'a> {
    /// Returns a reader of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether everything has been read.
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all bytes that are left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Reads a byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads a number that [`WireBuffer::number`] wrote.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte holds only one bit of a number.
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Reads the number of items that follow, which take at least a byte each.
    pub fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len())
    }

    /// Reads `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Reads bytes that [`WireBuffer::text`] wrote.
    #[inline]
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.count()?;
        self.bytes(len)
    }

    /// Reads bytes that [`WireBuffer::part`] wrote.
    pub fn part(&mut self) -> Option<&'a [u8]> {
        let len = self.bytes(4)?.first_chunk().map(|len| u32::from_le_bytes(*len))?;
        self.bytes(usize::try_from(len).ok()?)
    }

    /// Reads a time.
    pub fn time(&mut self) -> Option<Timestamp> {
        Timestamp::new(self.number()?)
    }

    /// Reads a time that [`WireBuffer::maybe_time`] wrote.
    pub fn maybe_time(&mut self) -> Option<Option<Timestamp>> {
        match self.number()?.checked_sub(1) {
            None => Some(None),
            Some(time) => Timestamp::new(time).map(Some),
        }
    }
}

/// Returns a signed number as an unsigned one that is small if the number is near 0.
pub const fn folded(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// Returns the number that was given to [`folded`].
pub const fn unfolded(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut bytes = Vec::new();
        let numbers = [0, 1, 127, 128, 300, 1 << 35, u64::MAX - 1, u64::MAX];
        numbers.iter().for_each(|number| bytes.number(*number));
        bytes.text(b"text");
        bytes.part(|to| to.text(b"within"));
        bytes.maybe_time(None);
        bytes.maybe_time(Timestamp::new(7));
        let mut from = WireReader::new(&bytes);
        assert!(numbers.iter().all(|number| from.number() == Some(*number)));
        assert_eq!(from.text(), Some(&b"text"[..]));
        assert_eq!(WireReader::new(from.part().unwrap()).text(), Some(&b"within"[..]));
        assert_eq!((from.maybe_time(), from.maybe_time()), (Some(None), Some(Timestamp::new(7))));
        assert!(from.is_done());
        for number in [0, 1, -1, 63, -64, i64::MAX, i64::MIN] {
            assert_eq!(unfolded(folded(number)), number);
        }
    }

    #[test]
    fn bytes_that_nobody_wrote_are_refused() {
        assert_eq!(WireReader::new(&[0x80]).number(), None);
        assert_eq!(WireReader::new(&[0xff; 10]).number(), None);
        assert_eq!(WireReader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).number(), None);
        assert_eq!(WireReader::new(&[5, 1, 2]).text(), None);
        assert_eq!(WireReader::new(&[0xff, 0xff, 0xff, 0x7f]).count(), None);
        assert_eq!(WireReader::new(&[9, 0, 0, 0, 1]).part(), None);
        assert_eq!(WireReader::new(&[]).byte(), None);
        assert_eq!(WireReader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).time(), None);
    }
}
