//! How dialects are measured: typical arguments, and which replies are refusals.

use redis::Value;

use crate::server::value::{items, text};

/// A dialect in a measurement.
pub(super) struct MeasuredDialect {
    pub(super) name: &'static str,
    /// The arguments after the key, unless others are given: about 100 a minute.
    pub(super) args: &'static [&'static str],
    pub(super) refuses: fn(&Value) -> bool,
}

pub(super) const MEASURED: &[MeasuredDialect] = &[
    MeasuredDialect { name: "sliding_window", args: &["60000", "100"], refuses: not_zero },
    MeasuredDialect { name: "fixed_window", args: &["100", "60"], refuses: not_allow },
    MeasuredDialect { name: "token_bucket", args: &["100", "60", "20"], refuses: not_allow },
    MeasuredDialect { name: "slot_window", args: &["1", "bench", "[[100,60,1]]", "@now_s"], refuses: not_zero },
    MeasuredDialect { name: "ar1", args: &["1", "bench", "[[100,2,60]]", "@now_s"], refuses: not_zero },
    MeasuredDialect {
        name: "rolling",
        args: &["1", "1", "@now_us", "0", "100", "1000000", "60"],
        refuses: nothing_acknowledged,
    },
    MeasuredDialect { name: "api_counter", args: &["100"], refuses: first_is_zero },
];

/// For native calls and `api_counter`: `allowed` is the first integer.
pub(super) fn first_is_zero(reply: &Value) -> bool {
    items(reply).first() == Some(&Value::Int(0))
}

/// The reply is the window that is full, or a wait, or 1 for exceeded; 0 or null passes.
fn not_zero(reply: &Value) -> bool {
    !matches!(reply, Value::Int(0) | Value::Nil)
}

fn not_allow(reply: &Value) -> bool {
    items(reply).first().and_then(text).as_deref() != Some("allow")
}

/// The reply is remaining, acknowledged, wait; in uniform mode, remaining is below zero after a refusal.
fn nothing_acknowledged(reply: &Value) -> bool {
    matches!(items(reply), [Value::Int(remaining), Value::Int(acknowledged), ..] if *acknowledged == 0 || *remaining < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_with_lua_is_measured() {
        let with_lua = tollgate_dialects::DIALECTS.iter().filter(|dialect| dialect.lua.is_some());
        let names: Vec<&str> = with_lua.map(|dialect| dialect.name).collect();
        assert_eq!(MEASURED.iter().map(|measured| measured.name).collect::<Vec<_>>(), names);
    }
}
