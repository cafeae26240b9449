//! JSON Lines. Most lines are plain and handled by the fast parser; what that does not know, and every mistake, is left
//! to the full parser. A test checks that both return the same for every line.
//!
//! | file | what it is |
//! |---|---|
//! | `fast.rs` | the fast parser: flat objects of plain strings and numbers |
//! | `full.rs` | the full parser: any JSON object, by serde_json |

mod fast;
mod full;

use super::{MalformedLine, ReplayEntry, key_names};
use crate::error::CliError;

/// The largest number of fields of a key.
pub(crate) const MAX_KEYS: usize = 8;

/// The names of the fields of a JSON line.
#[derive(Debug)]
pub(crate) struct JsonFormat {
    time: Box<str>,
    keys: Vec<Box<str>>,
}

/// The field of the cost.
const COST: &str = "cost";

impl JsonFormat {
    /// Returns a format with the time in the field `time` and the key in the fields that `key` names.
    pub(crate) fn new(key: &str, time: &str) -> Result<Self, CliError> {
        let names = key_names(key, MAX_KEYS)?;
        Ok(Self { time: time.into(), keys: names.into_iter().map(Box::from).collect() })
    }

    /// See [`super::ReplayFormat::parse`].
    pub(crate) fn parse(&self, line: &[u8], key: &mut Vec<u8>) -> Result<ReplayEntry, MalformedLine> {
        let start = key.len();
        if let Some(entry) = fast::parse(self, line, key) {
            return Ok(entry);
        }
        key.truncate(start);
        full::parse(self, line, key)
    }

    /// Returns the fields of the key, as `--key` names them.
    pub(crate) fn key_name(&self) -> String {
        self.keys.join(",")
    }

    /// Returns a hint that names the fields of the line, if it is at least an object.
    pub(crate) fn hint(&self, line: &[u8]) -> String {
        let fields = full::field_names(line);
        if fields.is_empty() {
            return "expected lines such as {\"t\":1700000000.5,\"key\":\"user:1\"}, or --format clf".to_owned();
        }
        format!("the line has the fields {}; choose with --key and --time", fields.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use tollgate_random::Rng;

    use super::*;

    const NAMES: &[&str] =
        &["t", "key", "cost", "path", "\\u0074", "k\\u0065y", "", "T", "kéy", "a b", "a\\\"b", "\u{7f}"];
    /// Valid, odd and invalid values; the first six are times.
    const VALUES: &str = r#"0 1 12 1700000000.123456 1700000000123456 0.5 5.0 5.000000000 -1 -0 -0.0 01 1. .5 1e3 1E+2
        1e-2 1e 1.5e400 9007199254740991 9007199254740992 18446744073709551615 99999999999999999999 0.00000019999
        "user:1" "" "a\nb" "\ud800" "\ud83d\ude00" "\x" "é" "a\"b" "unterminated "2026-01-05T09:00:00Z"
        "2026-01-05T09:00:00.25+01:00" "2026-01-05" true false null nul truee [] [1,[2,{"a":3}]] {} {"t":1} {"t":}
        +1 0x10 NaN --1 , : "#;
    const CONTROLS: &[&str] = &["\"a\u{1}b\"", "\"a\u{7f}b\"", "\"a\tb\"", ""];
    const BLANKS: &[&str] = &["", "", "", " ", "\t", "\r", "  "];
    const NO_BLANKS: &[&str] = &["\u{b}", "\u{a0}", "\0", "/**/"];

    /// Returns a line that is mostly valid: random bytes would all fail in their first column.
    fn line(rng: &mut Rng) -> Vec<u8> {
        let values: Vec<_> = VALUES.split_ascii_whitespace().chain(CONTROLS.iter().copied()).collect();
        let mut text = String::new();
        let blank = |rng: &mut Rng, text: &mut String| {
            let right = rng.below(100) > 0;
            text.push_str(rng.pick(if right { BLANKS } else { NO_BLANKS }));
        };
        blank(rng, &mut text);
        text.push('{');
        let mut fields = vec![("t", rng.pick(&values[..6])), ("key", rng.pick(&["\"a\"", "\"user:12345\"", "7"]))];
        if rng.one_in(2) {
            fields.push(("path", "\"/a\""));
        }
        for _ in 0..rng.below(3) {
            let place = rng.index(fields.len() + 1);
            fields.insert(place, (rng.pick(NAMES), rng.pick(&values)));
        }
        fields.truncate(1 + rng.index(9));
        for (place, (name, value)) in fields.into_iter().enumerate() {
            if place > 0 {
                text.push(',');
            }
            blank(rng, &mut text);
            text += &format!("\"{name}\"");
            blank(rng, &mut text);
            text.push(':');
            blank(rng, &mut text);
            text.push_str(value);
            blank(rng, &mut text);
        }
        text.push('}');
        blank(rng, &mut text);
        damaged(rng, text.into_bytes())
    }

    /// Damages one byte of a quarter of the lines.
    fn damaged(rng: &mut Rng, mut line: Vec<u8>) -> Vec<u8> {
        if rng.one_in(4) {
            let place = rng.index(line.len());
            match rng.below(3) {
                0 => line[place] = rng.next_u64() as u8,
                1 => drop(line.remove(place)),
                _ => line.insert(place, rng.pick(b"{}[]:,\"\\0-. e")),
            }
        }
        line
    }

    #[test]
    fn the_fast_way_and_the_full_way_agree_on_every_line() {
        let mut rng = Rng::new(0x2545_f491);
        let formats = ["key", "key,path", "t", "cost,key", "key,key"].map(|key| JsonFormat::new(key, "t").unwrap());
        let (mut taken, mut refused, mut fast_ones) = (0, 0, 0);
        for _ in 0..200_000 {
            let line = line(&mut rng);
            let json = &formats[rng.index(formats.len())];
            let (mut fast_key, mut full_key) = (Vec::new(), Vec::new());
            let fast = fast::parse(json, &line, &mut fast_key);
            let full = full::parse(json, &line, &mut full_key);
            match &full {
                Ok(_) => taken += 1,
                Err(_) => refused += 1,
            }
            if let Some(entry) = fast {
                fast_ones += 1;
                assert_eq!((Ok(entry), fast_key), (full, full_key), "{}", String::from_utf8_lossy(&line));
            }
        }
        assert!(taken > 20_000 && refused > 20_000 && fast_ones > 10_000, "{taken} {refused} {fast_ones}");
    }

    #[test]
    fn plain_lines_go_the_fast_way() {
        let json = JsonFormat::new("key", "t").unwrap();
        for line in [
            r#"{"t":1700000000.123456,"key":"user:12345"}"#,
            r#"{"t":1700000000123456,"key":"user:12345"}"#,
            r#"{"key": "user:12345", "cost": 3, "t": 1700000000, "ok": true, "path": "/a"}"#,
            "{ \"t\" : 5 , \"key\" : 17 }\r",
            r#"{"t":"2026-01-05T09:00:00Z","key":"a"}"#,
        ] {
            assert!(fast::parse(&json, line.as_bytes(), &mut Vec::new()).is_some(), "{line}");
        }
    }
}
