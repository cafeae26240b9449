//! Bytes as they stand in frames and snapshots: numbers take as few as they need, texts tell their length.
//! Reading checks everything: bytes that nobody wrote are refused, never believed, and never a reason to take more
//! memory than they are.

use tollgate_core::Timestamp;

/// Where bytes are written.
pub(crate) trait Put {
    /// A number, seven bits a byte, the least first.
    fn number(&mut self, number: u64);
    /// Bytes behind their length.
    fn text(&mut self, text: &[u8]);
    /// Bytes behind their length, which is not known before they are written.
    fn part(&mut self, fill: impl FnOnce(&mut Vec<u8>));

    fn time(&mut self, time: Timestamp) {
        self.number(time.get());
    }

    /// A time that may be none.
    fn maybe_time(&mut self, time: Option<Timestamp>) {
        self.number(time.map_or(0, |time| time.get() + 1));
    }
}

impl Put for Vec<u8> {
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
        // No part comes near to four gigabytes: keys and logs are bounded.
        let len = u32::try_from(self.len() - from - 4).unwrap_or(u32::MAX);
        self[from..from + 4].copy_from_slice(&len.to_le_bytes());
    }
}

/// Where bytes are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Take<'a>(&'a [u8]);

impl<'a> Take<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// All that is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // Ten bytes would hold more than a number has.
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

    /// A number of things that take at least a byte each.
    pub(crate) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len())
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    #[inline]
    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.count()?;
        self.bytes(len)
    }

    pub(crate) fn part(&mut self) -> Option<&'a [u8]> {
        let len = self.bytes(4)?.first_chunk().map(|len| u32::from_le_bytes(*len))?;
        self.bytes(usize::try_from(len).ok()?)
    }

    pub(crate) fn time(&mut self) -> Option<Timestamp> {
        Timestamp::new(self.number()?)
    }

    pub(crate) fn maybe_time(&mut self) -> Option<Option<Timestamp>> {
        match self.number()?.checked_sub(1) {
            None => Some(None),
            Some(time) => Timestamp::new(time).map(Some),
        }
    }
}

/// A number that may be negative, near 0 mostly.
pub(crate) const fn folded(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// What [`folded`] was given.
pub(crate) const fn unfolded(number: u64) -> i64 {
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
        let mut from = Take::new(&bytes);
        assert!(numbers.iter().all(|number| from.number() == Some(*number)));
        assert_eq!(from.text(), Some(&b"text"[..]));
        assert_eq!(Take::new(from.part().unwrap()).text(), Some(&b"within"[..]));
        assert_eq!((from.maybe_time(), from.maybe_time()), (Some(None), Some(Timestamp::new(7))));
        assert!(from.is_done());
        for number in [0, 1, -1, 63, -64, i64::MAX, i64::MIN] {
            assert_eq!(unfolded(folded(number)), number);
        }
    }

    #[test]
    fn bytes_that_nobody_wrote_are_refused() {
        assert_eq!(Take::new(&[0x80]).number(), None);
        assert_eq!(Take::new(&[0xff; 10]).number(), None);
        assert_eq!(Take::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).number(), None);
        assert_eq!(Take::new(&[5, 1, 2]).text(), None);
        assert_eq!(Take::new(&[0xff, 0xff, 0xff, 0x7f]).count(), None);
        assert_eq!(Take::new(&[9, 0, 0, 0, 1]).part(), None);
        assert_eq!(Take::new(&[]).byte(), None);
        assert_eq!(Take::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).time(), None);
    }
}
