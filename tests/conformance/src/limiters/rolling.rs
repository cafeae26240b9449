//! `risingstack`: the rolling limiter with modes, through the options of its factory.

use serde_json::{Map, Value};
use tollgate_dialects::{DialectReply, RollingOptions};

use super::{Command, DialectLimiter, fields, integers, list};
use crate::home::{Answer, Refusal};
use crate::line::{Operation, Scenario, Unit};

pub(super) static RISINGSTACK: DialectLimiter =
    DialectLimiter { name: "risingstack", dialect: "rolling", unit: Unit::Micros, speak, understand, look: None };

/// What the vectors call the document's options.
const NAMES: [(&str, &str); 4] = [
    ("interval_ms", "interval"),
    ("max", "maxInInterval"),
    ("min_difference_ms", "minDifference"),
    ("buckets", "buckets"),
];

fn speak(scenario: &Scenario, operation: &Operation) -> Result<Command, Refusal> {
    let limits = list(&scenario.policy, "limits")?.iter().map(|limit| {
        let named = NAMES.iter().filter_map(|(ours, theirs)| Some(((*theirs).to_owned(), limit.get(ours)?.clone())));
        Value::Object(named.collect())
    });
    let mut options = Map::from_iter([("limits".to_owned(), Value::Array(limits.collect()))]);
    options.extend(scenario.policy.get("mode").map(|mode| ("mode".to_owned(), mode.clone())));
    let options = RollingOptions::from_json(Value::Object(options).to_string().as_bytes())?;
    let now = operation.t.saturating_mul(scenario.unit.unwrap_or(Unit::Micros).micros());
    let args = options.args(&operation.n.to_string(), &now.to_string());
    Ok(Command { keys: options.keys(&operation.key), args })
}

fn understand(_operation: &Operation, reply: &DialectReply) -> Option<Answer> {
    let [remaining, acknowledged, wait] = integers(reply)?;
    Some(fields([
        ("actionsRemaining", remaining.into()),
        ("acknowledged", acknowledged.into()),
        ("wait_us", wait.into()),
    ]))
}
