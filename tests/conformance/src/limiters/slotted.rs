//! `o1_sliding_window` and `o1_ar1`: o1.rate-limiter. Times are in the scenario's own unit.

use tollgate_dialects::{DialectOutcome, DialectReply, ParsedCall};
use tollgate_kernel::{Cell, Timestamp};

use super::{Command, DialectLimiter, fields};
use crate::home::{Answer, Refusal};
use crate::line::{Operation, Scenario, Unit};

pub(super) static SLIDING_WINDOW: DialectLimiter = DialectLimiter {
    name: "o1_sliding_window",
    dialect: "slot_window",
    unit: Unit::Seconds,
    speak,
    understand,
    look: None,
};

pub(super) static AR1: DialectLimiter =
    DialectLimiter { name: "o1_ar1", dialect: "ar1", unit: Unit::Seconds, speak, understand, look: Some(look) };

fn speak(scenario: &Scenario, operation: &Operation) -> Result<Command, Refusal> {
    let policy = &scenario.policy;
    let namespace = match policy.get("namespace") {
        None => "",
        Some(namespace) => namespace.as_str().ok_or_else(|| Refusal::new("policy: expected a text as namespace"))?,
    };
    let limits = policy.get("limits").ok_or_else(|| Refusal::new("policy: expected limits"))?;
    let want_wait = if operation.want_wait { "1" } else { "0" };
    let args = [&operation.n.to_string(), namespace, &limits.to_string(), &operation.t.to_string(), want_wait];
    Ok(Command { keys: vec![operation.key.clone()], args: args.map(|arg| arg.as_bytes().to_vec()).into() })
}

fn understand(operation: &Operation, reply: &DialectReply) -> Option<Answer> {
    match (operation.want_wait, reply) {
        (true, DialectReply::Int(wait)) => Some(fields([("exceeded", (*wait != 0).into()), ("wait", (*wait).into())])),
        (false, DialectReply::Int(1)) => Some(fields([("exceeded", true.into())])),
        (false, DialectReply::Nil) => Some(fields([("exceeded", false.into())])),
        _ => None,
    }
}

fn look(call: &ParsedCall, _outcome: &DialectOutcome, cells: &[Cell], t: Timestamp) -> Answer {
    let counts: Vec<f64> = call.held(cells, t).collect();
    fields([("counts", counts.into())])
}
