//! The full parser: any JSON object, by serde_json, and the error of a line that is not one. The values used are taken
//! as they are written, so that numbers stay exact.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{COST, Json};
use crate::moment;
use crate::replay::format::{Decimal, Entry, Malformed, Stamp, write_key};

const TIME: &str = "a number from 0 or an RFC 3339 time from 1970 to 2255";
const UNITS: &str = "a whole number from 0 to 9007199254740991";
const KEY: &str = "a string or a number";

/// Returns the request of a line, or what is wrong with it.
pub(super) fn parse(json: &Json, line: &[u8], key: &mut Vec<u8>) -> Result<Entry, Malformed> {
    let text = str::from_utf8(line).map_err(|_| Malformed::NotUtf8)?;
    let found = read(text, Wanted(json))?;
    if let Some(twice) = found.twice {
        return Err(Malformed::Twice(twice));
    }
    let stamp = stamp(json, found.time)?;
    let cost = cost(found.cost)?;
    let mut parts = Vec::with_capacity(json.keys.len());
    for (name, part) in json.keys.iter().zip(found.keys) {
        parts.push(key_part(name, part)?);
    }
    write_key(key, parts.iter().map(String::as_bytes))?;
    Ok(Entry { stamp, cost })
}

/// Returns the names of the fields of a line, at most eight; empty if it is not an object.
pub(super) fn field_names(line: &[u8]) -> Vec<String> {
    let Ok(text) = str::from_utf8(line) else { return Vec::new() };
    let mut names = read(text, Names).unwrap_or_default();
    names.truncate(8);
    names
}

fn read<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, Malformed> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut deserializer);
    value.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| {
        let whole = error.to_string();
        let problem = whole.split(" at line ").next().unwrap_or(&whole).to_owned();
        Malformed::Json { column: error.column(), problem }
    })
}

fn stamp(json: &Json, raw: Option<&RawValue>) -> Result<Stamp, Malformed> {
    let wrong = || Malformed::Value { field: json.time.clone(), expected: TIME };
    let raw = raw.ok_or_else(|| Malformed::Missing(json.time.clone()))?.get();
    if is_number(raw) {
        return Decimal::parse(raw).map(Stamp::Number).ok_or_else(wrong);
    }
    let text: String = serde_json::from_str(raw).map_err(|_| wrong())?;
    moment::parse(&text).map(Stamp::Moment).ok_or_else(wrong)
}

fn cost(raw: Option<&RawValue>) -> Result<u64, Malformed> {
    match raw.map(RawValue::get) {
        // Many writers represent a missing value as null.
        None | Some("null") => Ok(1),
        Some(raw) => {
            let number = if is_number(raw) { Decimal::parse(raw) } else { None };
            let wrong = || Malformed::Value { field: COST.into(), expected: UNITS };
            number.and_then(Decimal::exact).ok_or_else(wrong)
        }
    }
}

fn key_part(name: &str, raw: Option<&RawValue>) -> Result<String, Malformed> {
    let raw = raw.ok_or_else(|| Malformed::Missing(name.into()))?.get();
    if is_number(raw) {
        return Ok(raw.to_owned());
    }
    serde_json::from_str(raw).map_err(|_| Malformed::Value { field: name.into(), expected: KEY })
}

fn is_number(raw: &str) -> bool {
    raw.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// The fields of a line that are used, as they are written.
struct Found<'de> {
    time: Option<&'de RawValue>,
    cost: Option<&'de RawValue>,
    keys: Vec<Option<&'de RawValue>>,
    /// The first field that occurs twice.
    twice: Option<Box<str>>,
}

impl<'de> Found<'de> {
    fn slots<'a>(&'a mut self, json: &Json, name: &str) -> Vec<&'a mut Option<&'de RawValue>> {
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

struct Wanted<'a>(&'a Json);

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = Found<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found<'de>, A::Error> {
        let mut found = Found { time: None, cost: None, keys: vec![None; self.0.keys.len()], twice: None };
        while let Some(name) = map.next_key::<String>()? {
            let mut slots = found.slots(self.0, &name);
            if slots.is_empty() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: &RawValue = map.next_value()?;
            let mut twice = false;
            for slot in &mut slots {
                twice |= slot.replace(value).is_some();
            }
            if twice {
                found.twice.get_or_insert(name.into());
            }
        }
        Ok(found)
    }
}

struct Names;

impl<'de> DeserializeSeed<'de> for Names {
    type Value = Vec<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<String>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Names {
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
