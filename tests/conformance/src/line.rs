//! The lines of a vector file, read into types; what is not asked of a home is left out.

use serde_json::{Map, Number, Value};

use crate::home::Refusal;

/// A line of a vector file.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// Opens a scenario.
    Scenario(Scenario),
    /// One call in it.
    Operation(Operation),
}

/// A limiter with its policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The limiter's name.
    pub limiter: String,
    /// Its policy, in its own words.
    pub policy: Map<String, Value>,
    /// The unit of its operations' times, if it has operations.
    pub unit: Option<Unit>,
    /// When it begins, in that unit.
    pub start: u64,
}

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The clock, in the scenario's unit.
    pub t: u64,
    /// The key's bytes.
    pub key: Vec<u8>,
    /// How many, as written: the limiter judges it.
    pub n: Number,
    /// Whether the caller asks for the wait.
    pub want_wait: bool,
    /// The policy of this call, if it is not the scenario's. Only windows are added and taken away.
    pub policy: Option<Map<String, Value>>,
}

/// The unit of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
}

impl Unit {
    /// The unit in microseconds.
    pub const fn micros(self) -> u64 {
        match self {
            Self::Seconds => 1_000_000,
            Self::Millis => 1_000,
            Self::Micros => 1,
        }
    }

    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "s" => Self::Seconds,
            "ms" => Self::Millis,
            "us" => Self::Micros,
            _ => return None,
        })
    }
}

impl Line {
    /// Reads a line.
    pub fn read(text: &[u8]) -> Result<Self, Refusal> {
        match serde_json::from_slice(text) {
            Ok(Value::Object(fields)) if fields.contains_key("scenario") => read_scenario(fields).map(Self::Scenario),
            Ok(Value::Object(fields)) => read_operation(&fields).map(Self::Operation),
            Ok(_) => Err(Refusal::new("expected a JSON object a line")),
            Err(error) => Err(Refusal::new(format!("expected a JSON object a line: {error}"))),
        }
    }
}

fn read_scenario(mut fields: Map<String, Value>) -> Result<Scenario, Refusal> {
    let Some(Value::String(limiter)) = fields.remove("limiter") else {
        return Err(Refusal::new("limiter: expected a text"));
    };
    let Some(Value::Object(policy)) = fields.remove("policy") else {
        return Err(Refusal::new("policy: expected an object"));
    };
    let unit = match fields.get("t_unit") {
        None | Some(Value::Null) => None,
        Some(unit) => {
            let read = unit.as_str().and_then(Unit::read);
            Some(read.ok_or_else(|| Refusal::new("t_unit: expected \"s\", \"ms\" or \"us\""))?)
        }
    };
    let start = fields.get("start").and_then(Value::as_u64).unwrap_or_default();
    Ok(Scenario { limiter, policy, unit, start })
}

fn read_operation(fields: &Map<String, Value>) -> Result<Operation, Refusal> {
    let t = fields.get("t").and_then(Value::as_u64).ok_or_else(|| Refusal::new("t: expected an integer from 0"))?;
    let key = match (fields.get("key"), fields.get("key_hex")) {
        (Some(Value::String(key)), None) => key.as_bytes().to_vec(),
        (None, Some(Value::String(hex))) => {
            from_hex(hex).ok_or_else(|| Refusal::new("key_hex: expected pairs of hexadecimal digits"))?
        }
        _ => return Err(Refusal::new("key: expected a text, or key_hex")),
    };
    let n = match fields.get("n") {
        None => Number::from(1),
        Some(Value::Number(n)) => n.clone(),
        Some(_) => return Err(Refusal::new("n: expected a number")),
    };
    let want_wait = match fields.get("want_wait") {
        None => false,
        Some(want) => want.as_bool().ok_or_else(|| Refusal::new("want_wait: expected true or false"))?,
    };
    let policy = match fields.get("policy") {
        None => None,
        Some(Value::Object(policy)) => Some(policy.clone()),
        Some(_) => return Err(Refusal::new("policy: expected an object")),
    };
    Ok(Operation { t, key, n, want_wait, policy })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bytes() {
        let read = |text: &str| match Line::read(text.as_bytes()) {
            Ok(Line::Operation(operation)) => operation.key,
            other => panic!("{other:?}"),
        };
        assert_eq!(read(r#"{"t": 1, "key": "a\u0000é"}"#), "a\0é".as_bytes());
        assert_eq!(read(r#"{"t": 1, "key_hex": "807bC07d"}"#), [0x80, 0x7b, 0xc0, 0x7d]);
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (text, reason) in [
            ("[]", "expected a JSON object a line"),
            (r#"{"scenario": "x"}"#, "limiter: expected a text"),
            (r#"{"scenario": "x", "limiter": "gcra"}"#, "policy: expected an object"),
            (
                r#"{"scenario": "x", "limiter": "gcra", "policy": {}, "t_unit": "min"}"#,
                "t_unit: expected \"s\", \"ms\" or \"us\"",
            ),
            (r#"{"key": "k"}"#, "t: expected an integer from 0"),
            (r#"{"t": -1, "key": "k"}"#, "t: expected an integer from 0"),
            (r#"{"t": 1}"#, "key: expected a text, or key_hex"),
            (r#"{"t": 1, "key_hex": "abc"}"#, "key_hex: expected pairs of hexadecimal digits"),
            (r#"{"t": 1, "key": "k", "n": "1"}"#, "n: expected a number"),
            (r#"{"t": 1, "key": "k", "want_wait": 1}"#, "want_wait: expected true or false"),
        ] {
            assert_eq!(Line::read(text.as_bytes()).unwrap_err().to_string(), reason, "{text}");
        }
        let error = Line::read(b"{").unwrap_err().to_string();
        assert!(error.starts_with("expected a JSON object a line: "), "{error}");
    }
}
