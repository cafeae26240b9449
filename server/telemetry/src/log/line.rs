//! A line of the log. It is a single line without control characters, whatever its values contain.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{LogFields, LogFormat};

/// Returns the line of an event.
pub(super) fn line(format: LogFormat, now: SystemTime, level: &str, event: &str, fields: LogFields<'_>) -> String {
    let mut line = String::with_capacity(128);
    let at = moment(now);
    match format {
        LogFormat::Json => {
            line.push_str("{\"time\":");
            line.push_str(&json(&at));
            for (name, value) in [("level", level), ("event", event)] {
                put_json(&mut line, name, value);
            }
            for (name, value) in fields {
                put_json(&mut line, name, &value.to_string());
            }
            line.push('}');
        }
        LogFormat::Text | LogFormat::Off => {
            line.push_str(&at);
            for word in [level, event] {
                line.push(' ');
                line.push_str(word);
            }
            for (name, value) in fields {
                let _ = write!(line, " {name}={}", text(&value.to_string()));
            }
        }
    }
    line.push('\n');
    line
}

/// Returns a value as it is if it is a plain word, otherwise in quotes.
fn text(value: &str) -> String {
    let plain = |char: char| char.is_ascii_graphic() && !matches!(char, '"' | '\\' | '=');
    if !value.is_empty() && value.chars().all(plain) { value.to_owned() } else { format!("{value:?}") }
}

fn put_json(line: &mut String, name: &str, value: &str) {
    let _ = write!(line, ",{}:{}", json(name), json(value));
}

/// Returns a JSON string. All control characters are escaped, including those that JSON allows.
pub fn json(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    text.push('"');
    for char in value.chars() {
        match char {
            '"' | '\\' => text.extend(['\\', char]),
            char if char.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(char));
            }
            char => text.push(char),
        }
    }
    text.push('"');
    text
}

/// Returns a time in RFC 3339, in UTC, to the millisecond.
pub fn moment(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:03}Z", second(since.as_secs()), since.subsec_millis())
}

/// Returns a time in RFC 3339, in UTC, to the microsecond.
pub fn micros(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:06}Z", second(since.as_secs()), since.subsec_micros())
}

/// Returns a time such as `2026-09-21T14:13:20`.
fn second(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// Returns the date of a day counted from 1970. Years are counted from March, so that the leap day is the last.
fn date(days: u64) -> (u64, u64, u64) {
    // Counted from the first of March of the year 0; 146,097 days are 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds: u64| moment(UNIX_EPOCH + Duration::from_millis(seconds * 1_000 + 7));
        assert_eq!(at(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(micros(UNIX_EPOCH + Duration::from_micros(951_782_400_000_042)), "2000-02-29T00:00:00.000042Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.007Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.007Z");
        assert_eq!(at(1_790_000_000), "2026-09-21T14:13:20.007Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.007Z");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut last = date(0);
        for days in 1..200_000 {
            let (year, month, day) = date(days);
            let next = match last {
                (y, m, d) if day == d + 1 => (y, m, day),
                (y, 12, 31) => (y + 1, 1, 1),
                (y, m, 28..=31) => (y, m + 1, 1),
                other => panic!("{other:?} before {:?}", (year, month, day)),
            };
            assert_eq!((year, month, day), next);
            last = next;
        }
    }

    #[test]
    fn values_stay_on_their_line() {
        let evil = "a\nb\x1b[2J\"c\\ \u{9b}";
        let fields: LogFields<'_> = &[("plain", &"5/min"), ("evil", &evil), ("none", &"")];
        let said = line(LogFormat::Text, UNIX_EPOCH, "info", "event", fields);
        let expected = r#"info event plain=5/min evil="a\nb\u{1b}[2J\"c\\ \u{9b}" none="""#;
        assert_eq!(said, format!("1970-01-01T00:00:00.000Z {expected}\n"));
        let said = line(LogFormat::Json, UNIX_EPOCH, "info", "event", fields);
        assert!(!said.trim_end().contains(|char: char| char.is_control()), "{said:?}");
        let document: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&document["event"], &document["evil"]), (&"event".into(), &evil.into()));
    }
}
