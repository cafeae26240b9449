//! Texts, words, numbers, moments and policy texts.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use tollgate_kernel::{EXACT, Policy, TextError, Timestamp};

use super::MAX_NOTE;
use super::findings::ConfigReader;
use crate::tree::{TreeNode, TreeValue, quoted};

impl<'a> ConfigReader<'a> {
    /// Reads a text.
    pub(super) fn text<'n>(&mut self, node: &'n TreeNode<'a>, expected: &str, hint: &str) -> Option<&'n str> {
        match &node.value {
            TreeValue::Text(text) => Some(text),
            TreeValue::Number(number) => {
                let written: String = number.chars().take(40).collect();
                let hint = if hint.is_empty() { format!("as a text it is \"{written}\"") } else { hint.to_owned() };
                self.wrong_value(node, expected, hint);
                None
            }
            _ => {
                self.wrong_value(node, expected, hint);
                None
            }
        }
    }

    /// Reads one of several words.
    pub(super) fn word<T>(&mut self, node: &TreeNode<'a>, words: &[(&str, T)]) -> Option<T>
    where
        T: Copy,
    {
        let text = match &node.value {
            TreeValue::Text(text) => text.as_ref(),
            _ => "",
        };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let hint = super::fields::nearest(text, &names).map(|near| format!("did you mean {near}?"));
        self.wrong_value(node, either(&names), hint.unwrap_or_default());
        None
    }

    /// Reads `true` or `false`, or `on` or `off`.
    pub(super) fn switch(&mut self, node: &TreeNode<'a>) -> Option<bool> {
        match &node.value {
            TreeValue::Bool(bool) => Some(*bool),
            TreeValue::Text(text) if text == "on" => Some(true),
            TreeValue::Text(text) if text == "off" => Some(false),
            _ => {
                self.wrong_value(node, "true or false", "on and off are taken too");
                None
            }
        }
    }

    /// Reads percentages in rising order, or `off`.
    pub(super) fn alerts(&mut self, node: &TreeNode<'a>) -> Option<Vec<u8>> {
        const EXPECTED: &str = "percentages such as [80, 95], or off";
        let list = match &node.value {
            TreeValue::List(list) => list,
            TreeValue::Bool(false) => return Some(Vec::new()),
            TreeValue::Text(text) if text == "off" => return Some(Vec::new()),
            _ => {
                self.wrong_value(node, EXPECTED, "");
                return None;
            }
        };
        let mut alerts: Vec<u8> = Vec::new();
        for (index, node) in list.iter().enumerate() {
            let percent = match &node.value {
                TreeValue::Number(number) => number.parse().ok().filter(|percent| (1..=100).contains(percent)),
                _ => None,
            };
            let least = alerts.last().copied().unwrap_or_default();
            match percent {
                Some(percent) if percent > least => alerts.push(percent),
                wrong => {
                    let hint = if wrong.is_some() { "they must rise: [80, 95]" } else { "for example [80, 95]" };
                    let expected = format!("a whole number from {} to 100", (least + 1).min(100));
                    self.at_index(index, |reader| reader.wrong_value(node, expected, hint));
                    return None;
                }
            }
        }
        Some(alerts)
    }

    /// Reads a note.
    pub(super) fn note(&mut self, node: &TreeNode<'a>) -> Option<String> {
        let text = self.text(node, "a text", "")?;
        let length = text.chars().count();
        if length > MAX_NOTE {
            let found = format!("{length}");
            self.wrong(
                node.at,
                format!("a note of at most {MAX_NOTE} characters"),
                found,
                "keep the long story elsewhere",
            );
            return None;
        }
        if let Some(control) = text.chars().find(|char| char.is_control() && !matches!(char, '\n' | '\t')) {
            self.wrong(node.at, "a note without control characters", format!("{control:?}"), "");
            return None;
        }
        Some(text.to_owned())
    }

    /// Reads limits.
    pub(super) fn limits(&mut self, node: &TreeNode<'a>) -> Option<Policy> {
        let text = self.text(node, "policy text", "for example \"100/min\" or \"5/min, 20/h\"")?;
        match text.parse() {
            Ok(policy) => Some(policy),
            Err(error) => {
                self.in_text(node, text, 0, &error);
                None
            }
        }
    }

    /// Reports a mistake in a text that is the part of `whole` from the byte `from` on, at its own column.
    pub(super) fn in_text(&mut self, node: &TreeNode<'a>, whole: &str, from: usize, error: &TextError) {
        let part = whole.get(from..).unwrap_or_default();
        let place = part.char_indices().nth(error.column.saturating_sub(1)).map_or(part.len(), |(place, _)| place);
        self.in_text_at(node, from + place, &error.expected, &error.found, error.example);
    }

    /// Reports a mistake at a byte of the text.
    pub(super) fn in_text_at(&mut self, node: &TreeNode<'a>, byte: usize, expected: &str, found: &str, example: &str) {
        let found = if found.is_empty() { "the end".to_owned() } else { quoted(found) };
        let hint = format!("for example \"{example}\"");
        match node.text_start(self.text) {
            Some(start) => self.wrong(start + byte, expected, found, hint),
            // The text contains escapes or several lines.
            None => self.wrong(node.at, expected, found, format!("{hint}; at byte {} of the text", byte + 1)),
        }
    }

    /// Reads a moment, or a date, which means the first microsecond after it.
    pub(super) fn moment(&mut self, node: &TreeNode<'a>) -> Option<Timestamp> {
        let text = match &node.value {
            TreeValue::Text(text) | TreeValue::Date(text) => text.as_ref(),
            _ => "",
        };
        let moment = if text.len() == 10 { end_of(text) } else { text.parse().ok() };
        let us = moment.and_then(|moment: jiff::Timestamp| u64::try_from(moment.as_microsecond()).ok());
        match us.filter(|us| *us < EXACT) {
            Some(us) => Some(Timestamp::saturating(us)),
            None => {
                let hint = "for example 2027-01-31 or 2027-01-31T12:00:00Z, up to the year 2255";
                self.wrong_value(node, "a date, or a moment with its offset from UTC", hint);
                None
            }
        }
    }
}

fn end_of(date: &str) -> Option<jiff::Timestamp> {
    let next = date.parse::<Date>().ok()?.tomorrow().ok()?;
    Some(next.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Returns `a, b or c`.
fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
