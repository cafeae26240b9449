//! `sliding_window_counter` and `leaky_bucket`, which are `estimate` and `gcra` counting in
//! milliseconds instead of microseconds.

use serde_json::{Map, Value};
use tollgate_kernel::{Limit, LimitError, Micros, Options};

use super::{PolicyLimiter, fields};
use crate::home::Refusal;
use crate::line::Unit;

pub(super) static SLIDING_WINDOW_COUNTER: PolicyLimiter = PolicyLimiter {
    name: "sliding_window_counter",
    unit: Unit::Millis,
    limit: |policy| {
        let (limit, window) = (whole(policy, "limit")?, whole(policy, "window_ms")?);
        Limit::build("estimate", limit, Micros::new(window), &Options::default()).map_err(refuse)
    },
    answer: |decision| {
        fields([
            ("allowed", decision.allowed.into()),
            ("remaining", decision.remaining.into()),
            ("retry_after_ms", decision.retry_after.as_flat().into()),
        ])
    },
};

pub(super) static LEAKY_BUCKET: PolicyLimiter = PolicyLimiter {
    name: "leaky_bucket",
    unit: Unit::Millis,
    limit: |policy| {
        let options = Options { burst: Some(whole(policy, "capacity")?), ..Options::default() };
        let (limit, period) = (whole(policy, "limit")?, whole(policy, "period_ms")?);
        Limit::build("gcra", limit, Micros::new(period), &options).map_err(refuse)
    },
    answer: |decision| {
        fields([
            ("allowed", decision.allowed.into()),
            ("remaining", decision.remaining.into()),
            ("retry_after_ms", decision.retry_after.as_flat().into()),
            ("reset_after_ms", decision.reset_after.get().into()),
        ])
    },
};

fn whole(policy: &Map<String, Value>, name: &str) -> Result<u64, Refusal> {
    let number = policy.get(name).and_then(Value::as_u64);
    number.ok_or_else(|| Refusal::new(format!("policy: expected an integer from 0 as {name}")))
}

fn refuse(problem: LimitError) -> Refusal {
    Refusal::new(format!("policy: {problem}"))
}
