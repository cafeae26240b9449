//! `plug_fixed_window` and `plug_token_bucket`: PlugLimit.

use tollgate_dialects::DialectReply;

use super::{Command, DialectLimiter, fields, number, one_unit};
use crate::home::{Answer, Refusal};
use crate::line::{Operation, Scenario, Unit};

pub(super) static FIXED_WINDOW: DialectLimiter = DialectLimiter {
    name: "plug_fixed_window",
    dialect: "fixed_window",
    unit: Unit::Millis,
    speak: |scenario, operation| speak(scenario, operation, &["limit", "window_s"]),
    understand,
    look: None,
};

pub(super) static TOKEN_BUCKET: DialectLimiter = DialectLimiter {
    name: "plug_token_bucket",
    dialect: "token_bucket",
    unit: Unit::Millis,
    speak: |scenario, operation| speak(scenario, operation, &["limit", "window_s", "burst"]),
    understand,
    look: None,
};

fn speak(scenario: &Scenario, operation: &Operation, names: &[&str]) -> Result<Command, Refusal> {
    let args = names.iter().map(|name| number(&scenario.policy, name)).collect::<Result<_, _>>()?;
    Ok(Command { keys: vec![one_unit(operation)?], args })
}

fn understand(_operation: &Operation, reply: &DialectReply) -> Option<Answer> {
    let DialectReply::Array(parts) = reply else { return None };
    let [DialectReply::Text(result), DialectReply::Array(headers)] = &parts[..] else { return None };
    let text = |header: &DialectReply| match header {
        DialectReply::Text(text) => Some(text.clone()),
        _ => None,
    };
    let headers = headers.iter().map(text).collect::<Option<Vec<_>>>()?;
    Some(fields([("result", result.clone().into()), ("headers", headers.into())]))
}
