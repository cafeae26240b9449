//! Parses policy text. Errors point at the first part that is wrong.

use super::TextError;
use crate::algorithms::{ALGORITHMS, AlgorithmInfo};
use crate::limit::{Limit, is_word};
use crate::options::{AlgorithmOptions, Alignment, LimitError, LimitField, Options};
use crate::policy::{MAX_LIMITS, Policy, PolicyError};
use crate::units::Micros;

/// The longest policy text, in bytes: twice what 32 limits with every option need.
const MAX_TEXT: usize = 8_192;
const MAX: u64 = 1_000_000_000;
const MAX_PERIOD: Micros = Micros::from_secs(366 * 86_400);
const EXAMPLE: &str = "100/min";
const OPTIONS: &str = "an algorithm (sliding, gcra, fixed, bucket, slots, estimate, decay) or an option (burst=, grain=, resolution=, \
     factor=, spacing=, align=, name=)";

/// A piece of the text and the byte offset at which it begins.
#[derive(Clone, Copy)]
struct TextSpan<'a> {
    text: &'a str,
    start: usize,
}

impl<'a> TextSpan<'a> {
    fn part(self, start: usize, end: usize) -> Self {
        Self { text: self.text.get(start..end).unwrap_or_default(), start: self.start + start }
    }

    fn after(self, start: usize) -> Self {
        self.part(start, self.text.len())
    }

    fn trim(self) -> Self {
        let front = self.text.len() - self.text.trim_start_matches(' ').len();
        let text = self.text.trim_matches(' ');
        Self { text, start: self.start + front }
    }

    /// Returns the pieces between `separator`s.
    fn split(self, separator: char) -> impl Iterator<Item = Self> {
        let mut start = 0;
        self.text.split(separator).map(move |text| {
            let piece = Self { text, start: self.start + start };
            start += text.len() + separator.len_utf8();
            piece
        })
    }
}

struct Parser<'a> {
    text: &'a str,
}

impl Parser<'_> {
    fn error(&self, piece: TextSpan<'_>, expected: impl Into<String>, example: &'static str) -> TextError {
        let before = self.text.get(..piece.start).unwrap_or(self.text);
        // Long enough to recognise, short enough to read. If something is missing, `found` is the character in its
        // place.
        let mut found: String = piece.text.chars().take(40).collect();
        if found.len() < piece.text.len() {
            found.push('…');
        }
        if found.is_empty() {
            found.extend(self.text.get(piece.start..).unwrap_or_default().chars().next());
        }
        TextError { column: before.chars().count() + 1, expected: expected.into(), found, example }
    }
}

pub(crate) fn policy(text: &str) -> Result<Policy, TextError> {
    let parser = Parser { text };
    let whole = TextSpan { text, start: 0 };
    if text.len() > MAX_TEXT {
        return Err(parser.error(whole, format!("a policy of at most {MAX_TEXT} bytes"), EXAMPLE));
    }
    let mut limits = Vec::new();
    let mut pieces = Vec::new();
    for piece in whole.split(',') {
        let piece = piece.trim();
        limits.push(parser.limit(piece)?);
        pieces.push(piece);
    }
    Policy::new(limits).map_err(|error| {
        let (place, example) = match error {
            PolicyError::SameId(_, second) => (second, "10/s, 1000/h"),
            PolicyError::Grains(second) => (second, "1M/h grain=1s, 5M/d grain=1s"),
            PolicyError::Limits(_) | PolicyError::Name => (MAX_LIMITS.min(pieces.len() - 1), "10/s, 1000/h"),
        };
        let message = error.to_string();
        parser.error(pieces[place], message.strip_prefix("expected ").unwrap_or(&message), example)
    })
}

/// The options of one limit as they are read, with the positions that errors point at.
#[derive(Default)]
struct ParsedOptions<'a> {
    algorithm: Option<(&'static AlgorithmInfo, TextSpan<'a>)>,
    options: Options,
    spacing: Option<Micros>,
    name: Option<&'a str>,
    given: Vec<(&'static str, TextSpan<'a>)>,
}

impl Parser<'_> {
    fn limit(&self, piece: TextSpan<'_>) -> Result<Limit, TextError> {
        let mut words = piece.split(' ').filter(|word| !word.text.is_empty());
        let Some(rate) = words.next() else {
            return Err(self.error(piece, "a limit: count/period", EXAMPLE));
        };
        let Some(slash) = rate.text.find('/') else {
            return Err(self.error(rate, "a count, a slash and a period", EXAMPLE));
        };
        let (count_at, period_at) = (rate.part(0, slash), rate.after(slash + 1));
        let count = self.count(count_at, EXAMPLE)?;
        let period = self.period(period_at, Micros::new(1_000), EXAMPLE)?;
        let mut reading = ParsedOptions::default();
        for word in words {
            self.word(&mut reading, word)?;
        }
        let end = piece.after(piece.text.len());
        let listed = reading.algorithm.map_or(&ALGORITHMS[0], |(listed, _)| listed);
        self.refuse_unused(&reading, listed)?;
        let at = |field| match field {
            LimitField::Count => count_at,
            LimitField::Period => period_at,
            LimitField::Option(name) => {
                reading.given.iter().find(|(given, _)| *given == name).map_or(end, |(_, value)| *value)
            }
        };
        let explain = |error: LimitError| self.error(at(error.field), error.expected, error.example);
        let mut limit = (listed.build)(count, period, &reading.options).map(Limit::new).map_err(explain)?;
        if let Some(spacing) = reading.spacing {
            limit = limit.spaced(spacing).map_err(explain)?;
        }
        if let Some(name) = reading.name {
            limit = limit.named(name).map_err(explain)?;
        }
        Ok(limit)
    }

    fn word<'a>(&self, reading: &mut ParsedOptions<'a>, word: TextSpan<'a>) -> Result<(), TextError> {
        let Some(equals) = word.text.find('=') else {
            let known = ALGORITHMS.iter().find(|listed| listed.takes.in_text && listed.name == word.text);
            let listed = known.ok_or_else(|| self.error(word, OPTIONS, "10/s gcra burst=20"))?;
            if reading.algorithm.replace((listed, word)).is_some() {
                return Err(self.error(word, "one algorithm for a limit", "10/s gcra"));
            }
            return Ok(());
        };
        let (key, value) = (word.part(0, equals), word.after(equals + 1));
        let name = self.option(reading, key, value)?;
        if reading.given.iter().any(|(given, _)| *given == name) {
            return Err(self.error(word, format!("{name}= once"), example_of(name)));
        }
        reading.given.push((name, value));
        Ok(())
    }

    fn option<'a>(
        &self,
        reading: &mut ParsedOptions<'a>,
        key: TextSpan<'a>,
        value: TextSpan<'a>,
    ) -> Result<&'static str, TextError> {
        let Some((name, example)) = EXAMPLES.iter().find(|(name, _)| *name == key.text).copied() else {
            return Err(self.error(key, OPTIONS, "10/s gcra burst=20"));
        };
        let span = || self.period(value, Micros::new(1), example);
        match name {
            "burst" => reading.options.burst = Some(self.count(value, example)?),
            "grain" => reading.options.grain = Some(span()?),
            "resolution" => reading.options.resolution = Some(span()?),
            "factor" => reading.options.factor = Some(self.factor(value)?),
            "spacing" => reading.spacing = Some(span()?),
            "align" => {
                reading.options.align = Some(match value.text {
                    "clock" => Alignment::Clock,
                    "first" => Alignment::First,
                    _ => return Err(self.error(value, "clock or first", example)),
                });
            }
            _ => {
                if !is_word(value.text) {
                    return Err(self.error(value, "a name of 1 to 64 letters, digits, - and _", example));
                }
                reading.name = Some(value.text);
            }
        }
        Ok(name)
    }

    fn refuse_unused(&self, reading: &ParsedOptions<'_>, listed: &AlgorithmInfo) -> Result<(), TextError> {
        for (name, value) in &reading.given {
            if !takes(&listed.takes, name) {
                let key = TextSpan { text: name, start: value.start - name.len() - 1 };
                let users: Vec<_> =
                    ALGORITHMS.iter().filter(|other| takes(&other.takes, name)).map(|other| other.name).collect();
                let expected = format!("an option of {} ({name}= goes with {})", listed.name, users.join(" and "));
                return Err(self.error(key, expected, example_of(name)));
            }
        }
        Ok(())
    }

    fn count(&self, piece: TextSpan<'_>, example: &'static str) -> Result<u64, TextError> {
        let wrong = || self.error(piece, "a count from 1 to 1_000_000_000, such as 100, 10k or 5M", example);
        let (digits, scale) = match piece.text.as_bytes().last() {
            Some(b'k') => (&piece.text[..piece.text.len() - 1], 1_000),
            Some(b'M') => (&piece.text[..piece.text.len() - 1], 1_000_000),
            _ => (piece.text, 1),
        };
        let mut value = 0u64;
        for group in digits.split('_') {
            if group.is_empty() || !group.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(wrong());
            }
            for digit in group.bytes() {
                value = value.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            }
        }
        let value = value.saturating_mul(scale);
        if (1..=MAX).contains(&value) { Ok(value) } else { Err(wrong()) }
    }

    fn period(&self, piece: TextSpan<'_>, least: Micros, example: &'static str) -> Result<Micros, TextError> {
        let digits = piece.text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit_at) = (piece.part(0, digits), piece.after(digits));
        let Some(size) = unit(unit_at.text) else {
            let expected = "a unit (us, ms, s, min, h, d, w)";
            return Err(self.error(unit_at, expected, example));
        };
        let number: u64 = if number.text.is_empty() { 1 } else { number.text.parse().unwrap_or(u64::MAX) };
        let period = Micros::new(number.saturating_mul(size.get()));
        if period < least || period > MAX_PERIOD {
            return Err(self.error(piece, format!("a period from {least} to 366d"), example));
        }
        Ok(period)
    }

    fn factor(&self, piece: TextSpan<'_>) -> Result<f64, TextError> {
        let plain = piece.text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        match piece.text.parse::<f64>() {
            Ok(factor) if plain && piece.text.len() <= 24 => Ok(factor),
            _ => Err(self.error(piece, "a number such as 1.5", example_of("factor"))),
        }
    }
}

/// The options, each with an example of a limit that has it.
const EXAMPLES: &[(&str, &str)] = &[
    ("burst", "10/s gcra burst=20"),
    ("grain", "5M/h grain=1s"),
    ("resolution", "5/h slots resolution=10min"),
    ("factor", "100/10s decay factor=2"),
    ("spacing", "100/s spacing=10ms"),
    ("align", "1000/h fixed align=clock"),
    ("name", "5/h name=login"),
];

fn example_of(option: &str) -> &'static str {
    EXAMPLES.iter().find(|(name, _)| *name == option).map_or(EXAMPLE, |(_, example)| example)
}

fn takes(takes: &AlgorithmOptions, option: &str) -> bool {
    match option {
        "burst" => takes.burst,
        "grain" => takes.grain,
        "resolution" => takes.resolution,
        "factor" => takes.factor,
        "align" => takes.align,
        _ => true,
    }
}

/// Returns the length of a unit of the grammar, such as `min`.
pub fn unit(name: &str) -> Option<Micros> {
    let us = match name {
        "us" => 1,
        "ms" => 1_000,
        "s" | "sec" | "second" => 1_000_000,
        "m" | "min" | "minute" => 60_000_000,
        "h" | "hour" => 3_600_000_000,
        "d" | "day" => 86_400_000_000,
        "w" | "week" => 7 * 86_400_000_000,
        _ => return None,
    };
    Some(Micros::new(us))
}
