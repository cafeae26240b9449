//! The part of the protocol buffers wire format that spans need.

/// The wire types of fields.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

/// The bytes of a message. Fields are written in the order of the calls; a default value is left out by its caller.
#[derive(Debug, Default)]
pub(crate) struct MessageBuffer(Vec<u8>);

impl MessageBuffer {
    /// Returns the bytes written so far.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Writes a number of variable length: an enumerator, a truth value or an integer.
    pub(crate) fn varint(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.raw_varint(value);
    }

    /// Writes a number of eight bytes.
    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend(value.to_le_bytes());
    }

    /// Writes a number of four bytes.
    pub(crate) fn fixed32(&mut self, field: u32, value: u32) {
        self.tag(field, FIXED32);
        self.0.extend(value.to_le_bytes());
    }

    /// Writes bytes or a text.
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, LENGTH);
        self.raw_varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Writes a message within the message.
    pub(crate) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn tag(&mut self, field: u32, wire_type: u64) {
        self.raw_varint(u64::from(field) << 3 | wire_type);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the format's own description, and the ends of the ranges.
    #[test]
    fn fields_are_written_as_the_format_says() {
        let written = |write: &dyn Fn(&mut MessageBuffer)| {
            let mut message = MessageBuffer::default();
            write(&mut message);
            message.into_bytes()
        };
        assert_eq!(written(&|message| message.varint(1, 150)), [0x08, 0x96, 0x01]);
        assert_eq!(written(&|message| message.bytes(2, b"testing")), b"\x12\x07testing");
        assert_eq!(
            written(&|message| message.message(3, |inner| inner.varint(1, 150))),
            [0x1a, 0x03, 0x08, 0x96, 0x01]
        );
        assert_eq!(written(&|message| message.varint(16, 0)), [0x80, 0x01, 0x00]);
        let longest = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(written(&|message| message.varint(1, u64::MAX)), longest);
        assert_eq!(written(&|message| message.fixed64(1, 1)), [0x09, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(written(&|message| message.fixed32(1, 1)), [0x0d, 1, 0, 0, 0]);
    }
}
