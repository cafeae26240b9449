//! The common and combined log formats of web servers: `host ident user [date] "request" status bytes`, and in the
//! combined one `"referer" "agent"`. Anything behind that is ignored, since many servers are configured to add fields.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;
use memchr::memchr;

use super::{EntryTime, MalformedLine, ReplayEntry, key_names, write_key};
use crate::error::CliError;

/// The fields of a line that can make a key, by the names of `--key`.
const FIELDS: &[(&str, ClfField)] = &[
    ("ip", ClfField::Host),
    ("host", ClfField::Host),
    ("ident", ClfField::Ident),
    ("user", ClfField::User),
    ("method", ClfField::Method),
    ("path", ClfField::Path),
    ("url", ClfField::Url),
    ("protocol", ClfField::Protocol),
    ("status", ClfField::Status),
    ("referer", ClfField::Referer),
    ("agent", ClfField::Agent),
];

/// A field of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClfField {
    Host,
    Ident,
    User,
    Method,
    /// The URL without its query.
    Path,
    Url,
    Protocol,
    Status,
    Referer,
    Agent,
}

/// Access logs.
#[derive(Debug)]
pub(crate) struct ClfFormat {
    names: String,
    fields: Vec<ClfField>,
    /// The latest date and its time: a busy log repeats each many times.
    date: ([u8; DATE], u64),
}

/// The length of `10/Oct/2000:13:55:36 -0700`.
const DATE: usize = 26;

impl ClfFormat {
    /// Returns a format whose key is made of the fields that `key` names.
    pub(crate) fn new(key: &str) -> Result<Self, CliError> {
        let mut fields = Vec::new();
        for name in key_names(key, FIELDS.len())? {
            let Some((_, field)) = FIELDS.iter().find(|(known, _)| *known == name) else {
                let known: Vec<_> = FIELDS.iter().map(|(known, _)| *known).collect();
                let expected = format!("an access log has {}", known.join(", "));
                return Err(CliError::Key { name: name.to_owned(), expected });
            };
            fields.push(*field);
        }
        Ok(Self { names: key.split(',').map(str::trim).collect::<Vec<_>>().join(","), fields, date: ([0; DATE], 0) })
    }

    /// Returns the fields of the key, as `--key` names them.
    pub(crate) fn key_name(&self) -> String {
        self.names.clone()
    }

    /// See [`super::ReplayFormat::parse`].
    pub(crate) fn parse(&mut self, line: &[u8], key: &mut Vec<u8>) -> Result<ReplayEntry, MalformedLine> {
        let line = line.trim_ascii();
        let parts = split(line).map_err(MalformedLine::Clf)?;
        let moment = self.moment(parts.date).ok_or(MalformedLine::Clf("a date such as 10/Oct/2000:13:55:36 -0700"))?;
        if parts.agent.is_none() && self.fields.iter().any(|field| matches!(field, ClfField::Referer | ClfField::Agent))
        {
            return Err(MalformedLine::Clf("a referer and an agent, as in the combined format"));
        }
        write_key(key, self.fields.iter().map(|field| parts.field(*field)))?;
        Ok(ReplayEntry { stamp: EntryTime::Moment(moment), cost: 1 })
    }

    fn moment(&mut self, text: &[u8]) -> Option<u64> {
        let text: [u8; DATE] = text.try_into().ok()?;
        if self.date.0 != text {
            self.date = (text, date(&text)?);
        }
        Some(self.date.1)
    }
}

/// The parts of a line.
struct ClfLine<'a> {
    host: &'a [u8],
    ident: &'a [u8],
    user: &'a [u8],
    date: &'a [u8],
    request: &'a [u8],
    status: &'a [u8],
    referer: Option<&'a [u8]>,
    agent: Option<&'a [u8]>,
}

impl<'a> ClfLine<'a> {
    fn field(&self, field: ClfField) -> &'a [u8] {
        let absent = b"-".as_slice();
        match field {
            ClfField::Host => self.host,
            ClfField::Ident => self.ident,
            ClfField::User => self.user,
            ClfField::Status => self.status,
            ClfField::Referer => self.referer.unwrap_or(absent),
            ClfField::Agent => self.agent.unwrap_or(absent),
            ClfField::Method | ClfField::Path | ClfField::Url | ClfField::Protocol => {
                self.of_request(field).unwrap_or(absent)
            }
        }
    }

    /// Returns a part of the request line. Servers log what clients send, so it may be anything: it has no parts then.
    fn of_request(&self, field: ClfField) -> Option<&'a [u8]> {
        let (method, rest) = cut(self.request, b' ')?;
        let end = rest.iter().rposition(|&byte| byte == b' ');
        let (url, protocol) = match end {
            Some(end) => (&rest[..end], Some(&rest[end + 1..])),
            None => (rest, None),
        };
        let whole = match field {
            ClfField::Method => method,
            ClfField::Url => url,
            ClfField::Path => memchr(b'?', url).map_or(url, |query| &url[..query]),
            _ => protocol?,
        };
        (!whole.is_empty()).then_some(whole)
    }
}

/// Splits a line into its parts; the error is what was expected.
fn split(line: &[u8]) -> Result<ClfLine<'_>, &'static str> {
    let (host, rest) = cut(line, b' ').ok_or("a client address")?;
    let (ident, rest) = cut(rest, b' ').ok_or("ident and user")?;
    // A user may contain spaces, and perhaps brackets; the date is the part that has the right length.
    let (user, date, rest) = user_and_date(rest).ok_or("a date in brackets")?;
    let rest = rest.strip_prefix(b" \"").ok_or("a request in quotes")?;
    let (request, rest) = quoted(rest).ok_or("a request in quotes")?;
    let rest = rest.strip_prefix(b" ").ok_or("a status")?;
    let (status, rest) = cut(rest, b' ').ok_or("a status and a size")?;
    if status.len() != 3 || !status.iter().all(u8::is_ascii_digit) {
        return Err("a status of three digits");
    }
    let (size, rest) = cut(rest, b' ').unwrap_or((rest, b""));
    if size != b"-" && (size.is_empty() || !size.iter().all(u8::is_ascii_digit)) {
        return Err("a size in bytes or -");
    }
    let mut parts = ClfLine { host, ident, user, date, request, status, referer: None, agent: None };
    if let Some(rest) = rest.strip_prefix(b"\"") {
        let (referer, rest) = quoted(rest).ok_or("a referer in quotes")?;
        if let Some(rest) = rest.strip_prefix(b" \"") {
            let (agent, _) = quoted(rest).ok_or("an agent in quotes")?;
            (parts.referer, parts.agent) = (Some(referer), Some(agent));
        }
    }
    Ok(parts)
}

fn user_and_date(rest: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let mut from = 0;
    loop {
        let bracket = from + memchr(b'[', rest.get(from..)?)?;
        let end = bracket + 1 + DATE;
        if bracket > 0 && rest[bracket - 1] == b' ' && rest.get(end) == Some(&b']') {
            return Some((&rest[..bracket - 1], &rest[bracket + 1..end], &rest[end + 1..]));
        }
        from = bracket + 1;
    }
}

/// Returns the text before and after the first `byte`.
fn cut(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let place = memchr(byte, text)?;
    Some((&text[..place], &text[place + 1..]))
}

/// Returns the text before and after the closing quote; a quote behind a backslash does not close.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut from = 0;
    loop {
        let end = from + memchr(b'"', &text[from..])?;
        let slashes = text[..end].iter().rev().take_while(|&&byte| byte == b'\\').count();
        if slashes.is_multiple_of(2) {
            return Some((&text[..end], &text[end + 1..]));
        }
        from = end + 1;
    }
}

/// Parses a date such as `10/Oct/2000:13:55:36 -0700` to microseconds since 1970.
fn date(text: &[u8; DATE]) -> Option<u64> {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let marks = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':'), (20, b' ')];
    if marks.iter().any(|&(place, mark)| text[place] != mark) {
        return None;
    }
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0i16, |sum, byte| {
            let digit = byte.is_ascii_digit().then(|| i16::from(byte - b'0'))?;
            Some(10 * sum + digit)
        })
    };
    let small = |from: usize| number(from, from + 2).and_then(|number| i8::try_from(number).ok());
    let month = MONTHS.chunks_exact(3).position(|name| *name == text[3..6])?;
    let day = Date::new(number(7, 11)?, i8::try_from(month).ok()? + 1, small(0)?).ok()?;
    // A leap second is treated as the second before it.
    let time = Time::new(small(12)?, small(15)?, small(18)?.min(59), 0).ok()?;
    let ahead = 3_600 * i32::from(small(22)?) + 60 * i32::from(small(24)?);
    let offset = match text[21] {
        b'+' => Offset::from_seconds(ahead).ok()?,
        b'-' => Offset::from_seconds(-ahead).ok()?,
        _ => return None,
    };
    let moment = offset.to_timestamp(DateTime::from_parts(day, time)).ok()?;
    u64::try_from(moment.as_microsecond()).ok().filter(|us| *us < tollgate_kernel::EXACT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_random::Rng;

    const COMMON: &str = r#"192.0.2.7 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif?x=1 HTTP/1.0" 200 2326"#;
    const COMBINED: &str = r#"192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 - "http://x/ \"y\"" "Mozilla/4.08 [en] \\" 0.25"#;

    fn key(names: &str, line: &str) -> Result<String, MalformedLine> {
        let mut key = Vec::new();
        let entry = ClfFormat::new(names).unwrap().parse(line.as_bytes(), &mut key)?;
        assert_eq!(entry, ReplayEntry { stamp: EntryTime::Moment(971_211_336_000_000), cost: 1 });
        Ok(crate::text::key(&key))
    }

    #[test]
    fn every_field_can_be_the_key() {
        for (names, line, expected) in [
            ("ip", COMMON, "192.0.2.7"),
            ("host", COMMON, "192.0.2.7"),
            ("ident", COMMON, "-"),
            ("user", COMMON, "frank"),
            ("method", COMMON, "GET"),
            ("path", COMMON, "/a.gif"),
            ("url", COMMON, "/a.gif?x=1"),
            ("protocol", COMMON, "HTTP/1.0"),
            ("status", COMMON, "200"),
            ("ip,path", COMMON, "192.0.2.7 /a.gif"),
            ("referer", COMBINED, r#"http://x/ \"y\""#),
            ("agent", COMBINED, r"Mozilla/4.08 [en] \\"),
            (" ip , method ", COMBINED, "192.0.2.7 GET"),
        ] {
            assert_eq!(key(names, line).unwrap(), expected, "{names}");
        }
    }

    #[test]
    fn odd_but_real_lines_are_taken() {
        let at = "[10/Oct/2000:13:55:36 -0700]";
        for (names, line, expected) in [
            ("user", format!(r#"::1 - Ann [x] Lee {at} "GET / HTTP/2" 200 5"#), "Ann [x] Lee"),
            ("path", format!(r#"::1 - - {at} "\x16\x03\x01" 400 5 "-" "-""#), "-"),
            ("path", format!(r#"::1 - - {at} "-" 408 - "-" "-""#), "-"),
            ("path", format!(r#"::1 - - {at} "GET /a b HTTP/1.1" 400 0"#), "/a b"),
            ("url", format!(r#"::1 - - {at} "GET /" 400 0"#), "/"),
            ("protocol", format!(r#"::1 - - {at} "GET /" 400 0"#), "-"),
            ("ip", format!("::1 - - {at} \"GET / HTTP/1.1\" 200 0\r"), "::1"),
        ] {
            assert_eq!(key(names, &line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn malformed_lines_say_what_was_expected() {
        for (line, expected) in [
            ("", "a client address"),
            ("hello world", "ident and user"),
            ("::1 - -", "a date in brackets"),
            ("::1 - - [10/Oct/2000]", "a date in brackets"),
            ("::1 - - [10/Okt/2000:13:55:36 -0700] \"GET /\" 200 1", "a date such as 10/Oct/2000:13:55:36 -0700"),
            ("::1 - - [31/Feb/2000:13:55:36 -0700] \"GET /\" 200 1", "a date such as 10/Oct/2000:13:55:36 -0700"),
            ("::1 - - [10/Oct/2000:13:55:36 -0700] GET /", "a request in quotes"),
            ("::1 - - [10/Oct/2000:13:55:36 -0700] \"GET / 200 1", "a request in quotes"),
            ("::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /\"", "a status"),
            ("::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 20 1", "a status of three digits"),
            ("::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 200", "a status and a size"),
            ("::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 200 x", "a size in bytes or -"),
            ("::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 200 1 \"x", "a referer in quotes"),
        ] {
            assert_eq!(key("ip", line), Err(MalformedLine::Clf(expected)), "{line}");
        }
        assert_eq!(key("agent", COMMON), Err(MalformedLine::Clf("a referer and an agent, as in the combined format")));
        assert!(matches!(ClfFormat::new("ip,nobody"), Err(CliError::Key { name, .. }) if name == "nobody"));
        assert!(matches!(ClfFormat::new("ip,"), Err(CliError::Key { .. })));
    }

    #[test]
    fn no_bytes_break_the_parser() {
        let mut rng = Rng::new(88_172);
        for round in 0..100_000 {
            let mut line = if round % 2 == 0 { COMMON } else { COMBINED }.as_bytes().to_vec();
            for _ in 0..3 {
                let place = rng.index(line.len());
                match rng.below(3) {
                    0 => line[place] = rng.next_u64() as u8,
                    1 => line.truncate(place.max(1)),
                    _ => line.insert(place, rng.pick(b"\"[] \\-")),
                }
            }
            let mut clf = ClfFormat::new("ip,user,path,agent").unwrap();
            let _ = clf.parse(&line, &mut Vec::new());
        }
    }
}
