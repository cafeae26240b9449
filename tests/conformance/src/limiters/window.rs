//! `amvtek_sliding_window`: the library rdslim.

use serde_json::Value;
use tollgate_dialects::DialectReply;

use super::{Command, DialectLimiter, fields, list, number, one_unit};
use crate::home::{Answer, Refusal};
use crate::line::{Operation, Scenario, Unit};

pub(super) static SLIDING_WINDOW: DialectLimiter = DialectLimiter {
    name: "amvtek_sliding_window",
    dialect: "sliding_window",
    unit: Unit::Micros,
    speak,
    understand,
    look: None,
};

fn speak(scenario: &Scenario, operation: &Operation) -> Result<Command, Refusal> {
    let mut args = Vec::new();
    let policy = operation.policy.as_ref().unwrap_or(&scenario.policy);
    for window in list(policy, "windows")? {
        let Some([Value::Number(size), Value::Number(limit)]) = window.as_array().map(Vec::as_slice) else {
            return Err(Refusal::new("policy: expected windows of a size and a limit"));
        };
        args.extend([size.to_string().into_bytes(), limit.to_string().into_bytes()]);
    }
    if policy.contains_key("extra_ttl_ms") {
        args.push(number(policy, "extra_ttl_ms")?);
    }
    Ok(Command { keys: vec![one_unit(operation)?], args })
}

fn understand(_operation: &Operation, reply: &DialectReply) -> Option<Answer> {
    match reply {
        DialectReply::Int(status) => Some(fields([("status", (*status).into())])),
        _ => None,
    }
}
