//! The full parser: any JSON object, by serde_json, and the error of a line that is not one. The values used are taken
//! as they are written, so that numbers stay exact.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{COST, JsonFormat};
use crate::moment;
use crate::replay::format::{EntryTime, LogNumber, MalformedLine, ReplayEntry, write_key};

const TIME: &str = "a number from 0 or an RFC 3339 time from 1970 to 2255";
const UNITS: &str = "a whole number from 0 to 9007199254740991";
const KEY: &str = "a string or a number";

/// Returns the request of a line, or what is wrong with it.
pub(super) fn parse(json: &JsonFormat, line: &[u8], key: &mut Vec<u8>) -> Result<ReplayEntry, MalformedLine> {
    let text = str::from_utf8(line).map_err(|_| MalformedLine::NotUtf8)?;
    let fields = read(text, RawFieldsSeed(json))?;
    if let Some(duplicate) = fields.duplicate {
        return Err(MalformedLine::Twice(duplicate));
    }
    let stamp = stamp(json, fields.time)?;
    let cost = cost(fields.cost)?;
    let mut parts = Vec::with_capacity(json.keys.len());
    for (name, part) in json.keys.iter().zip(fields.keys) {
        parts.push(key_part(name, part)?);
    }
    write_key(key, parts.iter().map(String::as_bytes))?;
    Ok(ReplayEntry { stamp, cost })
}

/// Returns the names of the fields of a line, at most eight; empty if it is not an object.
pub(super) fn field_names(line: &[u8]) -> Vec<String> {
    let Ok(text) = str::from_utf8(line) else { return Vec::new() };
    let mut names = read(text, FieldNamesSeed).unwrap_or_default();
    names.truncate(8);
    names
}

fn read<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, MalformedLine> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut deserializer);
    value.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| {
        let whole = error.to_string();
        let problem = whole.split(" at line ").next().unwrap_or(&whole).to_owned();
        MalformedLine::Json { column: error.column(), problem }
    })
}

fn stamp(json: &JsonFormat, raw: Option<&RawValue>) -> Result<EntryTime, MalformedLine> {
    let wrong = || MalformedLine::Value { field: json.time.clone(), expected: TIME };
    let raw = raw.ok_or_else(|| MalformedLine::Missing(json.time.clone()))?.get();
    if is_number(raw) {
        return LogNumber::parse(raw).map(EntryTime::Number).ok_or_else(wrong);
    }
    let text: String = serde_json::from_str(raw).map_err(|_| wrong())?;
    moment::parse(&text).map(EntryTime::Moment).ok_or_else(wrong)
}

fn cost(raw: Option<&RawValue>) -> Result<u64, MalformedLine> {
    match raw.map(RawValue::get) {
        // Many writers represent a missing value as null.
        None | Some("null") => Ok(1),
        Some(raw) => {
            let number = if is_number(raw) { LogNumber::parse(raw) } else { None };
            let wrong = || MalformedLine::Value { field: COST.into(), expected: UNITS };
            number.and_then(LogNumber::exact).ok_or_else(wrong)
        }
    }
}

fn key_part(name: &str, raw: Option<&RawValue>) -> Result<String, MalformedLine> {
    let raw = raw.ok_or_else(|| MalformedLine::Missing(name.into()))?.get();
    if is_number(raw) {
        return Ok(raw.to_owned());
    }
    serde_json::from_str(raw).map_err(|_| MalformedLine::Value { field: name.into(), expected: KEY })
}

fn is_number(raw: &str) -> bool {
    raw.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// The fields of a line that are used, as they are written.
struct RawFields<'de> {
    time: Option<&'de RawValue>,
    cost: Option<&'de RawValue>,
    keys: Vec<Option<&'de RawValue>>,
    /// The first field that occurs twice.
    duplicate: Option<Box<str>>,
}

impl<'de> RawFields<'de> {
    fn slots<'a>(&'a mut self, json: &JsonFormat, name: &str) -> Vec<&'a mut Option<&'de RawValue>> {
        let mut slots = Vec::new();
        if name == &*json.time {
            slots.push(&mut self.time);
        }
        if name == COST {
            slots.push(&mut self.cost);
        }
        let keys = json.keys.iter().zip(&mut self.keys).filter(|(own, _)| ***own == *name);
        slots.extend(keys.map(|(_, slot)| slot));
        slots
    }
}

/// Reads the fields that are used, and skips the others.
struct RawFieldsSeed<'a>(&'a JsonFormat);

impl<'de> DeserializeSeed<'de> for RawFieldsSeed<'_> {
    type Value = RawFields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawFields<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RawFieldsSeed<'_> {
    type Value = RawFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawFields<'de>, A::Error> {
        let mut fields = RawFields { time: None, cost: None, keys: vec![None; self.0.keys.len()], duplicate: None };
        while let Some(name) = map.next_key::<String>()? {
            let mut slots = fields.slots(self.0, &name);
            if slots.is_empty() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: &RawValue = map.next_value()?;
            let mut duplicate = false;
            for slot in &mut slots {
                duplicate |= slot.replace(value).is_some();
            }
            if duplicate {
                fields.duplicate.get_or_insert(name.into());
            }
        }
        Ok(fields)
    }
}

/// Reads the names of all fields.
struct FieldNamesSeed;

impl<'de> DeserializeSeed<'de> for FieldNamesSeed {
    type Value = Vec<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<String>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldNamesSeed {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<String>, A::Error> {
        let mut names = Vec::new();
        while let Some((name, IgnoredAny)) = map.next_entry()? {
            names.push(name);
        }
        Ok(names)
    }
}
