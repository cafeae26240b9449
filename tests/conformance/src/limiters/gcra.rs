//! `gcra`: redis-cell's CL.THROTTLE, and the same in microseconds from the decision behind it.

use tollgate_dialects::{DialectOutcome, DialectReply, ParsedCall};
use tollgate_kernel::{Cell, Timestamp};

use super::{Command, DialectLimiter, fields, integers, number};
use crate::home::{Answer, Refusal};
use crate::line::{Operation, Scenario, Unit};

pub(super) static GCRA: DialectLimiter =
    DialectLimiter { name: "gcra", dialect: "cl.throttle", unit: Unit::Micros, speak, understand, look: Some(look) };

fn speak(scenario: &Scenario, operation: &Operation) -> Result<Command, Refusal> {
    let [burst, limit, period] = ["burst", "limit", "period_s"].map(|name| number(&scenario.policy, name));
    let args = vec![burst?, limit?, period?, operation.n.to_string().into_bytes()];
    Ok(Command { keys: vec![operation.key.clone()], args })
}

fn understand(_operation: &Operation, reply: &DialectReply) -> Option<Answer> {
    let [limited, limit, remaining, retry_after, reset_after] = integers(reply)?;
    Some(fields([
        ("allowed", (limited == 0).into()),
        ("limit", limit.into()),
        ("remaining", remaining.into()),
        ("retry_after", retry_after.into()),
        ("reset_after", reset_after.into()),
    ]))
}

fn look(_call: &ParsedCall, outcome: &DialectOutcome, _cells: &[Cell], _t: Timestamp) -> Answer {
    let Some(decision) = outcome.decision else { return Answer::new() };
    let retry_after = if decision.allowed { -1 } else { decision.retry_after.as_flat() };
    fields([("retry_after_us", retry_after.into()), ("reset_after_us", decision.reset_after.get().into())])
}
