//! Strings and integers of structured fields (RFC 9651). The writers are our own; tests compare them with a third-party
//! parser.

use http::HeaderValue;

/// The greatest integer of a structured field.
pub(crate) const MAX: u64 = 999_999_999_999_999;

/// The number of bytes of a line that need no allocation: enough for four limits with names of usual lengths.
const INLINE: usize = 192;

/// The value of a field while it is written: on the stack, unless it is long.
pub(crate) struct FieldBuffer {
    inline: [u8; INLINE],
    len: usize,
    /// The whole value, once it is longer than [`INLINE`].
    long: Vec<u8>,
}

impl FieldBuffer {
    pub(crate) fn new() -> Self {
        Self { inline: [0; INLINE], len: 0, long: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if let (true, Some(free)) = (self.long.is_empty(), self.inline.get_mut(self.len..end)) {
            free.copy_from_slice(bytes);
            self.len = end;
        } else {
            self.push_long(bytes);
        }
    }

    #[cold]
    fn push_long(&mut self, bytes: &[u8]) {
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.inline[..self.len]);
        }
        self.long.extend_from_slice(bytes);
    }

    /// Appends a number, clamped to the greatest integer of a structured field.
    #[inline]
    pub(crate) fn integer(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number.min(MAX)).as_bytes());
    }

    fn as_bytes(&self) -> &[u8] {
        if self.long.is_empty() { &self.inline[..self.len] } else { &self.long }
    }

    /// Returns the value. It contains only visible ASCII.
    pub(crate) fn value(&self) -> Option<HeaderValue> {
        HeaderValue::from_bytes(self.as_bytes()).ok()
    }
}

/// Writes a string of a structured field. It contains only visible ASCII: other characters become `?`.
pub(crate) fn quote(name: &str, into: &mut Vec<u8>) {
    into.push(b'"');
    for letter in name.chars() {
        match letter {
            '"' | '\\' => into.extend([b'\\', letter as u8]),
            ' '..='~' => into.push(letter as u8),
            _ => into.push(b'?'),
        }
    }
    into.push(b'"');
}

/// Appends a number, clamped to the greatest integer of a structured field.
pub(crate) fn integer(number: u64, into: &mut Vec<u8>) {
    into.extend_from_slice(itoa::Buffer::new().format(number.min(MAX)).as_bytes());
}

/// Returns a number as the value of a field, clamped to the greatest integer of a structured field.
#[inline]
pub(crate) fn number(number: u64) -> HeaderValue {
    whole(number.min(MAX))
}

/// Returns a number as the value of a field, unclamped. This takes one allocation; the conversion of `http` takes two.
#[inline]
pub(crate) fn whole<T: itoa::Integer + Copy>(number: T) -> HeaderValue
where
    HeaderValue: From<T>,
{
    let mut buffer = itoa::Buffer::new();
    HeaderValue::from_bytes(buffer.format(number).as_bytes()).unwrap_or_else(|_| HeaderValue::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_strings_of_structured_fields() {
        let mut text = Vec::new();
        quote("a\"b\\c\u{e9}\n", &mut text);
        assert_eq!(text, br#""a\"b\\c??""#);
    }

    #[test]
    fn a_buffer_of_any_length_is_complete() {
        for lengths in [vec![0], vec![1; 400], vec![INLINE], vec![INLINE + 1], vec![INLINE, 1], vec![100, 100, 100]] {
            let (mut line, mut whole) = (FieldBuffer::new(), Vec::new());
            for (place, length) in lengths.iter().enumerate() {
                let part = vec![b'a' + (place % 26) as u8; *length];
                line.push(&part);
                whole.extend_from_slice(&part);
            }
            assert_eq!(line.value().unwrap().as_bytes(), whole, "{lengths:?}");
        }
    }

    #[test]
    fn integers_end_at_15_digits() {
        for (number, expected) in
            [(0, "0"), (MAX, "999999999999999"), (MAX + 1, "999999999999999"), (u64::MAX, "999999999999999")]
        {
            let mut line = FieldBuffer::new();
            line.integer(number);
            let mut text = Vec::new();
            integer(number, &mut text);
            assert_eq!((line.value().unwrap().as_bytes(), text.as_slice()), (expected.as_bytes(), expected.as_bytes()));
            assert_eq!(super::number(number), expected);
        }
    }
}
