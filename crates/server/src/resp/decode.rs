//! Bytes as commands: arrays of bulk strings, and the inline PING of redis-benchmark.
//!
//! Nothing is copied and nothing is reserved for a length that was only announced: arguments are places in
//! the bytes that have come. Whatever Redis would take for a mistake of the protocol is one here, in its
//! words.

use std::fmt;

/// How much a connection may ask for at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Arguments of a command, its name among them.
    pub(crate) args: usize,
    /// Bytes of an argument.
    pub(crate) arg: usize,
    /// Bytes of a command.
    pub(crate) command: usize,
}

impl Bounds {
    /// For whoever may ask: the longest legal calls are those of 32 rolling limits, 170 arguments, and
    /// those that load our own library.
    pub(crate) const KNOWN: Self = Self { args: 256, arg: 192 << 10, command: 256 << 10 };
    /// For whoever has not said who he is, where that is needed.
    pub(crate) const UNKNOWN: Self = Self { args: 10, arg: 16 << 10, command: 64 << 10 };
}

/// The longest inline command, and the longest line that announces a length.
pub(crate) const LONGEST_LINE: usize = 64;

/// A part of the bytes.
pub(crate) type Place = std::ops::Range<usize>;

/// What the bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A command, its arguments in the places; bytes it took.
    Command(usize),
    /// Nothing to answer, such as an empty array; bytes it took.
    Nothing(usize),
    /// More has to come.
    Incomplete,
}

/// A mistake of the protocol, after which the connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The number of arguments is none, or too great.
    Count,
    /// The length of an argument is none, or too great.
    Length,
    /// An argument that does not begin with `$`.
    Dollar(u8),
    /// An argument that does not end where it should.
    End,
    /// A line that announces something and does not end.
    Line,
    /// The whole command is too long.
    Long,
    /// Something that is no array: inline commands are PING alone, since browsers can be made to send lines.
    Inline,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::Count => f.write_str("invalid multibulk length"),
            Self::Length => f.write_str("invalid bulk length"),
            Self::Dollar(found) => write!(f, "expected '$', got '{}'", found.escape_ascii()),
            Self::End => f.write_str("expected CRLF after an argument"),
            Self::Line => f.write_str("too big mbulk count string"),
            Self::Long => f.write_str("too big command"),
            Self::Inline => f.write_str("expected an array of bulk strings; of inline commands only PING is taken"),
        }
    }
}

/// Reads the command that `bytes` begin with; its arguments go to `places`, which it empties first.
#[inline]
pub(crate) fn decode(bytes: &[u8], bounds: &Bounds, places: &mut Vec<Place>) -> Result<Frame, Mistake> {
    places.clear();
    match bytes.first() {
        None => Ok(Frame::Incomplete),
        Some(b'*') => array(bytes, bounds, places),
        Some(_) => inline(bytes, places),
    }
}

#[inline]
fn array(bytes: &[u8], bounds: &Bounds, places: &mut Vec<Place>) -> Result<Frame, Mistake> {
    let Some((count, mut at)) = number(bytes, 1)? else { return Ok(Frame::Incomplete) };
    let count = count.ok_or(Mistake::Count)?;
    if count <= 0 {
        return Ok(Frame::Nothing(at));
    }
    if count > bounds.args as i64 {
        return Err(Mistake::Count);
    }
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(Frame::Incomplete),
            Some(b'$') => {}
            Some(other) => return Err(Mistake::Dollar(*other)),
        }
        let Some((len, start)) = number(bytes, at + 1)? else { return Ok(Frame::Incomplete) };
        let len = len.and_then(|len| usize::try_from(len).ok()).ok_or(Mistake::Length)?;
        if len > bounds.arg {
            return Err(Mistake::Length);
        }
        let end = start + len;
        if end + 2 > bounds.command {
            return Err(Mistake::Long);
        }
        match bytes.get(end..) {
            Some([b'\r', b'\n', ..]) => {}
            Some([] | [b'\r']) | None => return Ok(Frame::Incomplete),
            Some(_) => return Err(Mistake::End),
        }
        places.push(start..end);
        at = end + 2;
    }
    Ok(Frame::Command(at))
}

/// The number of a line that begins at `at`, and where the next line begins; nothing while it has no end.
/// A line that is no number is `None` in the first place.
#[inline]
fn number(bytes: &[u8], at: usize) -> Result<Option<(Option<i64>, usize)>, Mistake> {
    let rest = bytes.get(at..).unwrap_or_default();
    let (mut value, mut digits) = (0i64, 0);
    // Nearly all are one to five digits.
    for (place, byte) in rest.iter().enumerate().take(LONGEST_LINE) {
        match byte {
            b'0'..=b'9' if digits < 10 => {
                value = value * 10 + i64::from(byte - b'0');
                digits += 1;
            }
            b'\r' if digits > 0 && (value != 0 || digits == 1) && (digits == 1 || rest[0] != b'0') => {
                return match rest.get(place + 1) {
                    None => Ok(None),
                    Some(b'\n') => Ok(Some((Some(value), at + place + 2))),
                    Some(_) => Ok(Some((None, at + place + 2))),
                };
            }
            _ => return other_line(rest, at),
        }
    }
    if rest.len() >= LONGEST_LINE { Err(Mistake::Line) } else { Ok(None) }
}

/// A line that is not one of digits alone: `-1` is a number too.
#[cold]
fn other_line(rest: &[u8], at: usize) -> Result<Option<(Option<i64>, usize)>, Mistake> {
    let line = rest.iter().take(LONGEST_LINE).position(|byte| *byte == b'\r');
    let Some(end) = line else {
        return if rest.len() >= LONGEST_LINE { Err(Mistake::Line) } else { Ok(None) };
    };
    if rest.get(end + 1).is_none() {
        return Ok(None);
    }
    let negative = rest[..end].strip_prefix(b"-").filter(|digits| {
        !digits.is_empty() && digits.len() < 19 && digits[0] != b'0' && digits.iter().all(u8::is_ascii_digit)
    });
    Ok(Some((negative.map(|_| -1), at + end + 2)))
}

/// A line that is no array.
fn inline(bytes: &[u8], places: &mut Vec<Place>) -> Result<Frame, Mistake> {
    let Some(end) = bytes.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n') else {
        // A line that cannot become PING any more need not be waited for.
        let is_ping = b"PING\r".get(..bytes.len()).is_some_and(|start| bytes.eq_ignore_ascii_case(start));
        return if is_ping || bytes == b"\r" { Ok(Frame::Incomplete) } else { Err(Mistake::Inline) };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    if line.is_empty() {
        return Ok(Frame::Nothing(end + 1));
    }
    if !line.eq_ignore_ascii_case(b"PING") {
        return Err(Mistake::Inline);
    }
    places.push(0..line.len());
    Ok(Frame::Command(end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<(Frame, Vec<&[u8]>), Mistake> {
        let mut places = Vec::new();
        let frame = decode(bytes, &Bounds::KNOWN, &mut places)?;
        Ok((frame, places.into_iter().map(|place| &bytes[place]).collect()))
    }

    #[test]
    fn commands_are_read_wherever_the_bytes_are_cut() {
        let whole = b"*3\r\n$8\r\nTG.CHECK\r\n$1\r\nk\r\n$7\r\n100/min\r\n*1\r\n$4\r\nPING\r\n";
        let first = whole.len() - 14;
        assert_eq!(read(whole), Ok((Frame::Command(first), vec![&b"TG.CHECK"[..], b"k", b"100/min"])));
        for cut in 0..first {
            assert_eq!(read(&whole[..cut]).map(|read| read.0), Ok(Frame::Incomplete), "cut at {cut}");
        }
        assert_eq!(read(&whole[first..]), Ok((Frame::Command(14), vec![&b"PING"[..]])));
    }

    #[test]
    fn empty_commands_and_arguments_are_no_mistakes() {
        assert_eq!(read(b"*0\r\n"), Ok((Frame::Nothing(4), vec![])));
        assert_eq!(read(b"*-1\r\n"), Ok((Frame::Nothing(5), vec![])));
        assert_eq!(read(b"\r\nPING\r\n").map(|read| read.0), Ok(Frame::Nothing(2)));
        assert_eq!(read(b"*1\r\n$0\r\n\r\n"), Ok((Frame::Command(10), vec![&b""[..]])));
    }

    #[test]
    fn of_inline_commands_ping_alone_is_taken() {
        assert_eq!(read(b"PING\r\n"), Ok((Frame::Command(6), vec![&b"PING"[..]])));
        assert_eq!(read(b"ping\n"), Ok((Frame::Command(5), vec![&b"ping"[..]])));
        for cut in 1..5 {
            assert_eq!(read(&b"PING\r\n"[..cut]).map(|read| read.0), Ok(Frame::Incomplete));
        }
        for line in
            ["POST / HTTP/1.1\r\n", "GET", "P\r\n", "Host: x\r\n", "GET / HTTP/1.1\r\nHost: a\r\n", "PINGS", "PING\rx"]
        {
            assert_eq!(read(line.as_bytes()), Err(Mistake::Inline), "{line:?}");
        }
    }

    #[test]
    fn mistakes_have_the_words_of_redis() {
        for (bytes, mistake, words) in [
            (&b"*x\r\n"[..], Mistake::Count, "invalid multibulk length"),
            (b"*257\r\n", Mistake::Count, "invalid multibulk length"),
            (b"*99999999999999999999\r\n", Mistake::Count, "invalid multibulk length"),
            (b"*1\r\n:1\r\n", Mistake::Dollar(b':'), "expected '$', got ':'"),
            (b"*1\r\n$-1\r\n", Mistake::Length, "invalid bulk length"),
            (b"*1\r\n$1000000\r\n", Mistake::Length, "invalid bulk length"),
            (b"*1\r\n$4\r\nPINGxx", Mistake::End, "expected CRLF after an argument"),
        ] {
            let found = read(bytes).unwrap_err();
            assert_eq!(found, mistake);
            assert_eq!(found.to_string(), format!("Protocol error: {words}"));
        }
        assert_eq!(read(&[b"*".as_slice(), &[b'1'; 70]].concat()), Err(Mistake::Line));
    }
}
