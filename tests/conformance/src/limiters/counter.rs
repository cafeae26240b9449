//! `redis_limiter`: redis-limiter. The token is the vectors' key.

use serde_json::Value;
use tollgate_dialects::DialectReply;

use super::{Command, DialectLimiter, fields, number, one_unit};
use crate::home::{Answer, Refusal};
use crate::line::{Operation, Scenario, Unit};

pub(super) static REDIS_LIMITER: DialectLimiter =
    DialectLimiter { name: "redis_limiter", dialect: "api_counter", unit: Unit::Millis, speak, understand, look: None };

fn speak(scenario: &Scenario, operation: &Operation) -> Result<Command, Refusal> {
    let key = [b"{api:", &one_unit(operation)?[..], b"}"].concat();
    Ok(Command { keys: vec![key], args: vec![number(&scenario.policy, "threshold")?] })
}

fn understand(_operation: &Operation, reply: &DialectReply) -> Option<Answer> {
    let DialectReply::Array(replies) = reply else { return None };
    let &[
        DialectReply::Int(allowed),
        DialectReply::Int(count),
        DialectReply::Int(minute),
        ref last,
        DialectReply::Int(ops),
    ] = &replies[..]
    else {
        return None;
    };
    let last = match last {
        DialectReply::Int(last) => Value::from(*last),
        DialectReply::Nil => Value::Null,
        _ => return None,
    };
    Some(fields([
        ("allowed", (allowed == 1).into()),
        ("count", count.into()),
        ("minute", minute.into()),
        ("last", last),
        ("ops", ops.into()),
    ]))
}
