//! How dialects are measured: with typical arguments.

use redis::Value;
use tollgate_dialects::{Dialect, ReplyValue};

/// A dialect in a measurement.
pub(super) struct MeasuredDialect {
    pub(super) name: &'static str,
    /// The arguments after the key, unless others are given: about 100 a minute.
    pub(super) args: &'static [&'static str],
}

pub(super) const MEASURED: &[MeasuredDialect] = &[
    MeasuredDialect { name: "sliding_window", args: &["60000", "100"] },
    MeasuredDialect { name: "fixed_window", args: &["100", "60"] },
    MeasuredDialect { name: "token_bucket", args: &["100", "60", "20"] },
    MeasuredDialect { name: "slot_window", args: &["1", "bench", "[[100,60,1]]", "@now_s"] },
    MeasuredDialect { name: "ar1", args: &["1", "bench", "[[100,2,60]]", "@now_s"] },
    MeasuredDialect { name: "rolling", args: &["1", "1", "@now_us", "0", "100", "1000000", "60"] },
    MeasuredDialect { name: "api_counter", args: &["100"] },
];

/// Returns whether a reply is a refusal: of a dialect, as its registry says; of a native call if its first integer is 0.
pub(super) fn refuses(dialect: Option<&Dialect>, reply: &Value) -> bool {
    let values = match reply {
        Value::Array(items) => [0, 1].map(|place| items.get(place).map_or(ReplyValue::Nothing, value)),
        one => [value(one), ReplyValue::Nothing],
    };
    dialect.map_or(values[0] == ReplyValue::Integer(0), |dialect| !(dialect.allows)(values))
}

fn value(value: &Value) -> ReplyValue<'_> {
    match value {
        Value::Int(number) => ReplyValue::Integer(*number),
        Value::BulkString(text) => ReplyValue::Text(text),
        _ => ReplyValue::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_refusals_as_their_dialects_say() {
        let text = |text: &str| Value::BulkString(text.into());
        for (name, reply, expected) in [
            ("", Value::Array(vec![Value::Int(1), Value::Int(5)]), false),
            ("", Value::Array(vec![Value::Int(0), Value::Int(5)]), true),
            ("sliding_window", Value::Int(0), false),
            ("sliding_window", Value::Int(2), true),
            ("slot_window", Value::Nil, false),
            ("fixed_window", Value::Array(vec![text("allow"), Value::Array(vec![])]), false),
            ("token_bucket", Value::Array(vec![text("deny"), Value::Array(vec![])]), true),
            ("rolling", Value::Array(vec![Value::Int(3), Value::Int(0), Value::Int(9)]), true),
            ("api_counter", Value::Array(vec![Value::Int(1), Value::Int(3)]), false),
        ] {
            assert_eq!(refuses(tollgate_dialects::find(name), &reply), expected, "{name} {reply:?}");
        }
    }

    #[test]
    fn every_dialect_with_lua_is_measured() {
        let with_lua = tollgate_dialects::DIALECTS.iter().filter(|dialect| dialect.lua.is_some());
        let names: Vec<&str> = with_lua.map(|dialect| dialect.name).collect();
        assert_eq!(MEASURED.iter().map(|measured| measured.name).collect::<Vec<_>>(), names);
    }
}
