//! Decodes bytes to commands: arrays of bulk strings, and the few inline commands by which clients begin.
//!
//! Nothing is copied and nothing is reserved for a length that was only announced: arguments are ranges of the bytes
//! that have arrived. Everything that Redis reports as a protocol error is one here, in the same words.

use std::fmt;

/// Bounds on one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandBounds {
    /// Arguments of a command, including its name.
    pub(crate) args: usize,
    /// Bytes of an argument.
    pub(crate) arg: usize,
    /// Bytes of a command.
    pub(crate) command: usize,
}

impl CommandBounds {
    /// For callers with a scope: the longest legal calls are those of 32 rolling limits, with 170 arguments, and those
    /// that load Tollgate's own library.
    pub(crate) const KNOWN: Self = Self { args: 256, arg: 192 << 10, command: 256 << 10 };
    /// For callers that have not logged in, where that is required.
    pub(crate) const UNKNOWN: Self = Self { args: 10, arg: 16 << 10, command: 64 << 10 };
}

/// The longest line that announces a length.
const MAX_LINE: usize = 64;
/// The longest inline command.
pub(crate) const MAX_INLINE: usize = 256;
/// The most words of an inline command: AUTH, a name and a token.
const MAX_INLINE_WORDS: usize = 3;
/// The inline commands that are taken: redis-benchmark sends PING, and eredis logs in and selects its database by lines
/// before it sends arrays. Browsers can be made to send lines, so none of these reads or changes a key.
const INLINE: [&[u8]; 3] = [b"PING", b"AUTH", b"SELECT"];

/// The range of an argument in the bytes.
pub(crate) type ArgSpan = std::ops::Range<usize>;

/// What the bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RespFrame {
    /// A command whose arguments are in the spans; the bytes it took.
    Command(usize),
    /// Nothing to answer, such as an empty array; the bytes it took.
    Nothing(usize),
    /// More bytes are needed.
    Incomplete,
}

/// A protocol error, after which the connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RespProtocolError {
    /// The number of arguments is not valid, or too large.
    Count,
    /// The length of an argument is not valid, or too large.
    Length,
    /// An argument does not begin with `$`.
    Dollar(u8),
    /// An argument does not end where it should.
    End,
    /// A line that announces a length does not end.
    Line,
    /// The command as a whole is too long.
    Long,
    /// Bytes that are neither an array nor an inline command that is taken.
    Inline,
}

impl fmt::Display for RespProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::Count => f.write_str("invalid multibulk length"),
            Self::Length => f.write_str("invalid bulk length"),
            Self::Dollar(found) => write!(f, "expected '$', got '{}'", found.escape_ascii()),
            Self::End => f.write_str("expected CRLF after an argument"),
            Self::Line => f.write_str("too big mbulk count string"),
            Self::Long => f.write_str("too big command"),
            Self::Inline => f.write_str(
                "expected an array of bulk strings; of inline commands only PING, AUTH and SELECT are taken",
            ),
        }
    }
}

/// Decodes the command that `bytes` begin with; its arguments are put into `spans`, which is cleared first.
#[inline]
pub(crate) fn decode(
    bytes: &[u8],
    bounds: &CommandBounds,
    spans: &mut Vec<ArgSpan>,
) -> Result<RespFrame, RespProtocolError> {
    spans.clear();
    match bytes.first() {
        None => Ok(RespFrame::Incomplete),
        Some(b'*') => array(bytes, bounds, spans),
        Some(_) => inline(bytes, spans),
    }
}

#[inline]
fn array(bytes: &[u8], bounds: &CommandBounds, spans: &mut Vec<ArgSpan>) -> Result<RespFrame, RespProtocolError> {
    let Some((count, mut at)) = number(bytes, 1)? else { return Ok(RespFrame::Incomplete) };
    let count = count.ok_or(RespProtocolError::Count)?;
    if count <= 0 {
        return Ok(RespFrame::Nothing(at));
    }
    if count > bounds.args as i64 {
        return Err(RespProtocolError::Count);
    }
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(RespFrame::Incomplete),
            Some(b'$') => {}
            Some(other) => return Err(RespProtocolError::Dollar(*other)),
        }
        let Some((len, start)) = number(bytes, at + 1)? else { return Ok(RespFrame::Incomplete) };
        let len = len.and_then(|len| usize::try_from(len).ok()).ok_or(RespProtocolError::Length)?;
        if len > bounds.arg {
            return Err(RespProtocolError::Length);
        }
        let end = start + len;
        if end + 2 > bounds.command {
            return Err(RespProtocolError::Long);
        }
        match bytes.get(end..) {
            Some([b'\r', b'\n', ..]) => {}
            Some([] | [b'\r']) | None => return Ok(RespFrame::Incomplete),
            Some(_) => return Err(RespProtocolError::End),
        }
        spans.push(start..end);
        at = end + 2;
    }
    Ok(RespFrame::Command(at))
}

/// Returns the number in the line that begins at `at`, and where the next line begins; `None` while the line has no
/// end. The number is `None` if the line is not a number.
#[inline]
fn number(bytes: &[u8], at: usize) -> Result<Option<(Option<i64>, usize)>, RespProtocolError> {
    let rest = bytes.get(at..).unwrap_or_default();
    let (mut value, mut digits) = (0i64, 0);
    // Nearly all have one to five digits.
    for (place, byte) in rest.iter().enumerate().take(MAX_LINE) {
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
    if rest.len() >= MAX_LINE { Err(RespProtocolError::Line) } else { Ok(None) }
}

/// Parses a line that is not digits alone: `-1` is a number too.
#[cold]
fn other_line(rest: &[u8], at: usize) -> Result<Option<(Option<i64>, usize)>, RespProtocolError> {
    let line = rest.iter().take(MAX_LINE).position(|byte| *byte == b'\r');
    let Some(end) = line else {
        return if rest.len() >= MAX_LINE { Err(RespProtocolError::Line) } else { Ok(None) };
    };
    if rest.get(end + 1).is_none() {
        return Ok(None);
    }
    let negative = rest[..end].strip_prefix(b"-").filter(|digits| {
        !digits.is_empty() && digits.len() < 19 && digits[0] != b'0' && digits.iter().all(u8::is_ascii_digit)
    });
    Ok(Some((negative.map(|_| -1), at + end + 2)))
}

/// Decodes a line that is not an array.
fn inline(bytes: &[u8], spans: &mut Vec<ArgSpan>) -> Result<RespFrame, RespProtocolError> {
    let Some(end) = bytes.iter().take(MAX_INLINE).position(|byte| *byte == b'\n') else {
        // A line that can no longer become one of them is rejected at once.
        let may_become = bytes == b"\r" || INLINE.iter().any(|name| may_become(bytes, name));
        let is_short = bytes.len() < MAX_INLINE;
        return if may_become && is_short { Ok(RespFrame::Incomplete) } else { Err(RespProtocolError::Inline) };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    if line.is_empty() {
        return Ok(RespFrame::Nothing(end + 1));
    }
    words(line, spans)?;
    // The name begins the line and has no quotes.
    let name = spans.first().filter(|name| name.start == 0).and_then(|name| line.get(name.clone())).unwrap_or_default();
    let is_taken = INLINE.iter().any(|taken| name.eq_ignore_ascii_case(taken));
    if is_taken { Ok(RespFrame::Command(end + 1)) } else { Err(RespProtocolError::Inline) }
}

/// Returns whether a line that begins so, and has no end yet, may be the inline command of that name.
fn may_become(start: &[u8], name: &[u8]) -> bool {
    let (begin, rest) = start.split_at(start.len().min(name.len()));
    let follows = match rest {
        [] | [b'\r'] => true,
        [b' ', words @ ..] => words.iter().rev().skip(1).all(|byte| *byte != b'\r'),
        _ => false,
    };
    follows && begin.eq_ignore_ascii_case(&name[..begin.len()])
}

/// Finds the words of a line, which are bare or in double quotes. A word with a quote or a backslash inside is not taken.
fn words(line: &[u8], spans: &mut Vec<ArgSpan>) -> Result<(), RespProtocolError> {
    let (mut at, length_to) = (0, |from: usize, end: u8| line[from..].iter().position(|byte| *byte == end));
    while let Some(first) = line.get(at) {
        if *first == b' ' {
            at += 1;
            continue;
        }
        let is_quoted = *first == b'"';
        let start = at + usize::from(is_quoted);
        let end = start
            + if is_quoted {
                length_to(start, b'"').ok_or(RespProtocolError::Inline)?
            } else {
                length_to(start, b' ').unwrap_or(line.len() - start)
            };
        at = end + usize::from(is_quoted);
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
        let ends = line.get(at).is_none_or(|byte| *byte == b' ');
        if !ends || spans.len() == MAX_INLINE_WORDS || !line[start..end].iter().all(is_plain) {
            return Err(RespProtocolError::Inline);
        }
        spans.push(start..end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<(RespFrame, Vec<&[u8]>), RespProtocolError> {
        let mut spans = Vec::new();
        let frame = decode(bytes, &CommandBounds::KNOWN, &mut spans)?;
        Ok((frame, spans.into_iter().map(|span| &bytes[span]).collect()))
    }

    #[test]
    fn commands_are_read_wherever_the_bytes_are_cut() {
        let whole = b"*3\r\n$8\r\nTG.CHECK\r\n$1\r\nk\r\n$7\r\n100/min\r\n*1\r\n$4\r\nPING\r\n";
        let first = whole.len() - 14;
        assert_eq!(read(whole), Ok((RespFrame::Command(first), vec![&b"TG.CHECK"[..], b"k", b"100/min"])));
        for cut in 0..first {
            assert_eq!(read(&whole[..cut]).map(|read| read.0), Ok(RespFrame::Incomplete), "cut at {cut}");
        }
        assert_eq!(read(&whole[first..]), Ok((RespFrame::Command(14), vec![&b"PING"[..]])));
    }

    #[test]
    fn empty_commands_and_arguments_are_no_mistakes() {
        assert_eq!(read(b"*0\r\n"), Ok((RespFrame::Nothing(4), vec![])));
        assert_eq!(read(b"*-1\r\n"), Ok((RespFrame::Nothing(5), vec![])));
        assert_eq!(read(b"\r\nPING\r\n").map(|read| read.0), Ok(RespFrame::Nothing(2)));
        assert_eq!(read(b"*1\r\n$0\r\n\r\n"), Ok((RespFrame::Command(10), vec![&b""[..]])));
    }

    #[test]
    fn few_inline_commands_are_taken() {
        for (line, words) in [
            ("PING\r\n", &["PING"][..]),
            ("ping\n", &["ping"]),
            ("PING x\r\n", &["PING", "x"]),
            ("AUTH \"tg_a-b_c\"\r\n", &["AUTH", "tg_a-b_c"]),
            ("auth  someone tg_a \r\n", &["auth", "someone", "tg_a"]),
            ("AUTH \"\" \"x\"\r\n", &["AUTH", "", "x"]),
            ("SELECT 9\r\n", &["SELECT", "9"]),
        ] {
            let words = words.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(read(line.as_bytes()), Ok((RespFrame::Command(line.len()), words)), "{line:?}");
            for cut in 1..line.len() {
                let found = read(&line.as_bytes()[..cut]).map(|read| read.0);
                assert_eq!(found, Ok(RespFrame::Incomplete), "{line:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn other_lines_are_rejected_as_soon_as_they_can_be_told() {
        for line in [
            "POST / HTTP/1.1\r\n",
            "GET",
            "P\r\n",
            "Host: x\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n",
            "PINGS",
            "PING\rx",
            "SELECT 9\rx",
            "SELECTION 9\r\n",
            "AUTH \"x\r\n",
            "AUTH \"x\"y\r\n",
            "AUTH x\"y\r\n",
            "AUTH x\\y\r\n",
            "AUTH 'x'\r\n",
            "SELECT\t9\r\n",
            "AUTH a b c\r\n",
            " PING\r\n",
            "\"PING\"\r\n",
        ] {
            assert_eq!(read(line.as_bytes()), Err(RespProtocolError::Inline), "{line:?}");
        }
        let long = |bytes: usize| format!("AUTH {}", "x".repeat(bytes - 5));
        assert_eq!(read(long(MAX_INLINE - 1).as_bytes()).map(|read| read.0), Ok(RespFrame::Incomplete));
        assert_eq!(read(long(MAX_INLINE).as_bytes()), Err(RespProtocolError::Inline));
        assert_eq!(read(format!("{}\r\n", long(MAX_INLINE)).as_bytes()), Err(RespProtocolError::Inline));
    }

    #[test]
    fn mistakes_have_the_words_of_redis() {
        for (bytes, mistake, words) in [
            (&b"*x\r\n"[..], RespProtocolError::Count, "invalid multibulk length"),
            (b"*257\r\n", RespProtocolError::Count, "invalid multibulk length"),
            (b"*99999999999999999999\r\n", RespProtocolError::Count, "invalid multibulk length"),
            (b"*1\r\n:1\r\n", RespProtocolError::Dollar(b':'), "expected '$', got ':'"),
            (b"*1\r\n$-1\r\n", RespProtocolError::Length, "invalid bulk length"),
            (b"*1\r\n$1000000\r\n", RespProtocolError::Length, "invalid bulk length"),
            (b"*1\r\n$4\r\nPINGxx", RespProtocolError::End, "expected CRLF after an argument"),
        ] {
            let found = read(bytes).unwrap_err();
            assert_eq!(found, mistake);
            assert_eq!(found.to_string(), format!("Protocol error: {words}"));
        }
        assert_eq!(read(&[b"*".as_slice(), &[b'1'; 70]].concat()), Err(RespProtocolError::Line));
    }
}
