//! The syntax of bans: `PERIOD after COUNT/PERIOD refusals[, up to PERIOD]`, with the counts and periods of policy
//! text.

use tollgate_kernel::{Limit, Micros, Policy, TextError};

use super::findings::ConfigReader;
use crate::model::Ban;
use crate::tree::TreeNode;

/// The longest ban if the text does not specify one.
const MAX: Micros = Micros::from_secs(86_400);
const EXAMPLE: &str = "10min after 20/min refusals, up to 1d";

/// A word and the byte where it begins.
type BanWord<'t> = (usize, &'t str);

/// A mistake: its byte, what was expected, what was found.
struct BanMistake(usize, String, String);

impl<'a> ConfigReader<'a> {
    /// Reads the ban for keys that are refused repeatedly.
    pub(super) fn ban(&mut self, node: &TreeNode<'a>) -> Option<Ban> {
        let text = self.text(node, "a ban", &format!("for example \"{EXAMPLE}\""))?;
        match parse(text) {
            Ok(ban) => Some(ban),
            Err(BanMistake(byte, expected, found)) => {
                self.in_text_at(node, byte, &expected, &found, EXAMPLE);
                None
            }
        }
    }
}

fn parse(text: &str) -> Result<Ban, BanMistake> {
    let mut words = words(text).into_iter();
    let mut next = || words.next().unwrap_or((text.len(), ""));
    let first = period(next())?;
    expect(next(), "after")?;
    let refusals = limit(next(), "a count, a slash and a period, such as 20/min")?;
    expect(next(), "refusals")?;
    let mut most = MAX.max(first);
    let comma = next();
    if !comma.1.is_empty() {
        expect(comma, ",")?;
        expect(next(), "up")?;
        expect(next(), "to")?;
        let word = next();
        most = period(word)?;
        if most < first {
            return Err(BanMistake(word.0, format!("a longest ban of at least the first, {first}"), word.1.to_owned()));
        }
        let end = next();
        if !end.1.is_empty() {
            return Err(BanMistake(end.0, "the end".to_owned(), end.1.to_owned()));
        }
    }
    Ok(Ban { first, most, refusals: refusals.count(), within: refusals.period() })
}

/// Splits a text into words at spaces; a comma is a word of its own.
fn words(text: &str) -> Vec<BanWord<'_>> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, char) in text.char_indices() {
        if !matches!(char, ' ' | ',') {
            start.get_or_insert(at);
            continue;
        }
        words.extend(start.take().map(|start| (start, &text[start..at])));
        if char == ',' {
            words.push((at, &text[at..at + 1]));
        }
    }
    words.extend(start.map(|start| (start, &text[start..])));
    words
}

fn expect((at, found): BanWord<'_>, expected: &str) -> Result<(), BanMistake> {
    if found == expected { Ok(()) } else { Err(BanMistake(at, format!("{expected:?}"), found.to_owned())) }
}

fn period((at, text): BanWord<'_>) -> Result<Micros, BanMistake> {
    // A period is parsed as that of a limit, so that both have the same units and bounds.
    if text.is_empty() || text.contains('/') {
        return Err(BanMistake(at, "a period such as 10min".to_owned(), text.to_owned()));
    }
    match format!("1/{text}").parse::<Policy>() {
        Ok(policy) => Ok(policy.limits().first().map(|limit| limit.period()).unwrap_or_default()),
        Err(error) => Err(wrong(at, text, 2, error)),
    }
}

fn limit((at, text): BanWord<'_>, expected: &str) -> Result<std::sync::Arc<Limit>, BanMistake> {
    if text.is_empty() {
        return Err(BanMistake(at, expected.to_owned(), String::new()));
    }
    let policy: Policy = text.parse().map_err(|error| wrong(at, text, 0, error))?;
    policy.limits().first().cloned().ok_or_else(|| BanMistake(at, expected.to_owned(), text.to_owned()))
}

/// Returns the mistake in a word that was parsed with `put` characters before it.
fn wrong(at: usize, text: &str, put: usize, error: TextError) -> BanMistake {
    let column = error.column.saturating_sub(1 + put);
    let byte = text.char_indices().nth(column).map_or(text.len(), |(byte, _)| byte);
    BanMistake(at + byte, error.expected, error.found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_are_read_and_mistakes_have_their_byte() {
        let seconds = |first, most, refusals, within| Ban {
            first: Micros::from_secs(first),
            most: Micros::from_secs(most),
            refusals,
            within: Micros::from_secs(within),
        };
        for (text, ban) in [
            ("10min after 20/min refusals, up to 1d", seconds(600, 86_400, 20, 60)),
            ("10min after 20/min refusals", seconds(600, 86_400, 20, 60)),
            ("2d after 1k/h refusals", seconds(172_800, 172_800, 1_000, 3_600)),
            (" h  after 5/s refusals , up to 2h ", seconds(3_600, 7_200, 5, 1)),
        ] {
            assert!(parse(text).is_ok_and(|read| read == ban), "{text}");
        }
        for (text, byte, expected, found) in [
            ("", 0, "a period such as 10min", ""),
            ("10", 2, "a unit (us, ms, s, min, h, d, w)", ""),
            ("10/min", 0, "a period such as 10min", "10/min"),
            ("10parsec after", 2, "a unit (us, ms, s, min, h, d, w)", "parsec"),
            ("10min", 5, "\"after\"", ""),
            ("10min for 20/min refusals", 6, "\"after\"", "for"),
            ("10min after", 11, "a count, a slash and a period, such as 20/min", ""),
            ("10min after 0/min refusals", 12, "a count from 1 to 1_000_000_000, such as 100, 10k or 5M", "0"),
            ("10min after 20/min", 18, "\"refusals\"", ""),
            ("10min after 20/min gcra refusals", 19, "\"refusals\"", "gcra"),
            ("10min after 20/min refusals up to 1d", 28, "\",\"", "up"),
            ("10min after 20/min refusals,", 28, "\"up\"", ""),
            ("10min after 20/min refusals, up to 1min", 35, "a longest ban of at least the first, 10min", "1min"),
            ("10min after 20/min refusals, up to 1d or so", 38, "the end", "or"),
            ("10min after 20/min refusals, up to 9999d", 35, "a period from 1ms to 366d", "9999d"),
        ] {
            let Err(BanMistake(at, wanted, got)) = parse(text) else { panic!("{text} is read") };
            assert_eq!((at, wanted.as_str(), got.as_str()), (byte, expected, found), "{text}");
        }
    }
}
