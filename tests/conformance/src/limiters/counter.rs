//! Seed 001: `redis_limiter`. The token is the vectors' key.

use serde_json::Value;
use tollgate_dialects::Reply;

use super::{Command, Spoken, fields, number, one_unit};
use crate::home::{Answer, Refusal};
use crate::line::{Operation, Scenario, Unit};

pub(super) static REDIS_LIMITER: Spoken =
    Spoken { name: "redis_limiter", dialect: "api_counter", unit: Unit::Millis, speak, understand, look: None };

fn speak(scenario: &Scenario, operation: &Operation) -> Result<Command, Refusal> {
    let key = [b"{api:", &one_unit(operation)?[..], b"}"].concat();
    Ok(Command { keys: vec![key], args: vec![number(&scenario.policy, "threshold")?] })
}

fn understand(_operation: &Operation, reply: &Reply) -> Option<Answer> {
    let Reply::Array(replies) = reply else { return None };
    let &[Reply::Int(allowed), Reply::Int(count), Reply::Int(minute), ref last, Reply::Int(ops)] = &replies[..] else {
        return None;
    };
    let last = match last {
        Reply::Int(last) => Value::from(*last),
        Reply::Nil => Value::Null,
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
