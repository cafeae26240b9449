//! Seed 003: `plug_fixed_window` and `plug_token_bucket`.

use tollgate_dialects::Reply;

use super::{Command, Spoken, fields, number, one_unit};
use crate::home::{Answer, Refusal};
use crate::line::{Operation, Scenario, Unit};

pub(super) static FIXED_WINDOW: Spoken = Spoken {
    name: "plug_fixed_window",
    dialect: "fixed_window",
    unit: Unit::Millis,
    speak: |scenario, operation| speak(scenario, operation, &["limit", "window_s"]),
    understand,
    look: None,
};

pub(super) static TOKEN_BUCKET: Spoken = Spoken {
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

fn understand(_operation: &Operation, reply: &Reply) -> Option<Answer> {
    let Reply::Array(parts) = reply else { return None };
    let [Reply::Text(result), Reply::Array(headers)] = &parts[..] else { return None };
    let text = |header: &Reply| match header {
        Reply::Text(text) => Some(text.clone()),
        _ => None,
    };
    let headers = headers.iter().map(text).collect::<Option<Vec<_>>>()?;
    Some(fields([("result", result.clone().into()), ("headers", headers.into())]))
}
