//! The fast parser: flat objects of plain strings, plain numbers and the three words. It returns only what it has
//! understood to the last byte; anything else is `None`, and is left to the full parser.

use super::{COST, JsonFormat, MAX_KEYS};
use crate::moment;
use crate::replay::format::{EntryTime, LogNumber, ReplayEntry, write_key};

/// Returns the request of a plain line.
pub(super) fn parse(json: &JsonFormat, line: &[u8], key: &mut Vec<u8>) -> Option<ReplayEntry> {
    let mut cursor = LineCursor { line, place: 0 };
    let mut fields = PlainFields { stamp: None, cost: None, keys: [None; MAX_KEYS] };
    cursor.blank();
    cursor.take(b'{')?;
    loop {
        cursor.blank();
        let name = cursor.string()?;
        cursor.blank();
        cursor.take(b':')?;
        cursor.blank();
        let value = cursor.value()?;
        fields.field(json, name, value)?;
        cursor.blank();
        match cursor.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    cursor.blank();
    if cursor.place < line.len() {
        return None;
    }
    fields.entry(json, key)
}

/// The fields of a line that are used.
struct PlainFields<'a> {
    stamp: Option<EntryTime>,
    cost: Option<u64>,
    keys: [Option<&'a [u8]>; MAX_KEYS],
}

/// A value that the fast parser understands.
#[derive(Clone, Copy)]
enum PlainValue<'a> {
    Text(&'a [u8]),
    Number(&'a [u8], LogNumber),
    Word,
}

impl<'a> PlainFields<'a> {
    /// Records a field that is used. A field that occurs twice is not plain.
    #[inline]
    fn field(&mut self, json: &JsonFormat, name: &[u8], value: PlainValue<'a>) -> Option<()> {
        if name == json.time.as_bytes() {
            let stamp = match value {
                PlainValue::Number(_, number) => EntryTime::Number(number),
                PlainValue::Text(text) => EntryTime::Moment(moment::parse(str::from_utf8(text).ok()?)?),
                PlainValue::Word => return None,
            };
            set(&mut self.stamp, stamp)?;
        }
        if name == COST.as_bytes() {
            let PlainValue::Number(_, number) = value else { return None };
            set(&mut self.cost, number.exact()?)?;
        }
        for (own, slot) in json.keys.iter().zip(&mut self.keys) {
            if name == own.as_bytes() {
                let (PlainValue::Text(text) | PlainValue::Number(text, _)) = value else { return None };
                set(slot, text)?;
            }
        }
        Some(())
    }

    fn entry(self, json: &JsonFormat, key: &mut Vec<u8>) -> Option<ReplayEntry> {
        let keys = &self.keys[..json.keys.len()];
        if keys.iter().any(Option::is_none) {
            return None;
        }
        write_key(key, keys.iter().flatten().copied()).ok()?;
        Some(ReplayEntry { stamp: self.stamp?, cost: self.cost.unwrap_or(1) })
    }
}

fn set<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

/// A line, and the place of the next byte.
struct LineCursor<'a> {
    line: &'a [u8],
    place: usize,
}

impl<'a> LineCursor<'a> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.line.get(self.place).copied()
    }

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.place += 1;
        Some(byte)
    }

    #[inline]
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    #[inline]
    fn blank(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.place += 1;
        }
    }

    /// Parses a string of ASCII without escapes; returns it without its quotes.
    #[inline]
    fn string(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let rest = &self.line[self.place..];
        let end = rest.iter().position(|&byte| !PLAIN[usize::from(byte)])?;
        self.place += end;
        self.take(b'"')?;
        Some(&rest[..end])
    }

    #[inline]
    fn value(&mut self) -> Option<PlainValue<'a>> {
        match self.peek()? {
            b'"' => self.string().map(PlainValue::Text),
            b'0'..=b'9' => self.number(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => None,
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<PlainValue<'a>> {
        let rest = &self.line[self.place..];
        self.place += word.len();
        rest.starts_with(word).then_some(PlainValue::Word)
    }

    /// Parses a number without sign and exponent whose whole part fits 64 bits.
    #[inline]
    fn number(&mut self) -> Option<PlainValue<'a>> {
        let start = self.place;
        let whole = self.digits();
        let length = self.place - start;
        // 19 digits always fit; a leading zero must be the only digit.
        if length > 19 || (length > 1 && self.line[start] == b'0') {
            return None;
        }
        let mut number = LogNumber { whole, millionths: 0, more: false };
        if self.peek() == Some(b'.') {
            self.place += 1;
            self.fraction(&mut number)?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            return None;
        }
        Some(PlainValue::Number(&self.line[start..self.place], number))
    }

    /// Returns the value of the digits here; wrong, and not used, if there are more than 19.
    #[inline]
    fn digits(&mut self) -> u64 {
        let mut value = 0u64;
        while let Some(byte @ b'0'..=b'9') = self.peek() {
            value = value.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            self.place += 1;
        }
        value
    }

    #[inline]
    fn fraction(&mut self, number: &mut LogNumber) -> Option<()> {
        let mut places = 0usize;
        while let Some(byte @ b'0'..=b'9') = self.peek() {
            if places < 6 {
                number.millionths = 10 * number.millionths + u32::from(byte - b'0');
            } else {
                number.more |= byte != b'0';
            }
            places += 1;
            self.place += 1;
        }
        number.millionths *= PADDING[places.min(6)];
        (places > 0).then_some(())
    }
}

/// The factors that extend a number of decimals to six.
const PADDING: [u32; 7] = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/// The bytes that represent themselves in a JSON string.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x80 {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};
