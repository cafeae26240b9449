//! Homes in this process: dialects read the call, the kernel decides it, and the keys are kept in one
//! way or another.

use std::collections::HashMap;

use tollgate_dialects::{ApiCounterUsage, Dialect, ParsedCall};
use tollgate_kernel::{Cell, Cost, EXACT, Policy, Request, StoreError, Timestamp, decide};

use crate::home::{Answer, Home, Refusal};
use crate::limiters::{DialectLimiter, Limiter, PolicyLimiter};
use crate::line::{Operation, Scenario};

/// Where keys are kept. The default knows none.
pub trait Keys: Default {
    /// Does `act` to the key's cells under the policy, at `t`.
    fn act<R>(
        &mut self,
        policy: &Policy,
        key: &[u8],
        t: Timestamp,
        act: impl FnMut(&mut [Cell], Timestamp) -> R,
    ) -> Result<R, Refusal>;
}

/// A home that keeps the keys of one scenario in `K`.
#[derive(Default)]
pub struct ProcessHome<K> {
    limiter: Option<ScenarioLimiter>,
    keys: K,
    usage: HashMap<Vec<u8>, ApiCounterUsage>,
}

/// The limiter of the scenario that is played.
enum ScenarioLimiter {
    Dialect(&'static DialectLimiter, &'static Dialect, Scenario),
    Policy(&'static PolicyLimiter, Policy),
}

impl<K: Keys> Home for ProcessHome<K> {
    fn scenario(&mut self, scenario: &Scenario) -> Result<(), Refusal> {
        *self = Self::default();
        self.limiter = Some(match Limiter::find(&scenario.limiter)? {
            Limiter::Dialect(spoken) => start(spoken, scenario)?,
            Limiter::Policy(direct) => {
                if scenario.unit.is_some_and(|unit| unit != direct.unit) {
                    return Err(Refusal::new(format!("t_unit: expected {:?} for {}", direct.unit, direct.name)));
                }
                let limit = (direct.limit)(&scenario.policy)?;
                let policy = Policy::new(vec![limit]).map_err(|error| Refusal::new(format!("policy: {error}")))?;
                ScenarioLimiter::Policy(direct, policy)
            }
        });
        Ok(())
    }

    fn operation(&mut self, operation: &Operation) -> Result<Answer, Refusal> {
        match &self.limiter {
            None => Err(Refusal::new("expected a scenario that begins before its operations")),
            Some(ScenarioLimiter::Dialect(spoken, dialect, scenario)) => {
                let call = read(spoken, dialect, scenario, operation)?;
                let unit = scenario.unit.unwrap_or(spoken.unit);
                let t = call.time(time(operation.t.saturating_mul(unit.micros()))?)?;
                let known = self.usage.entry(call.state_key().to_vec()).or_default();
                let done = self.keys.act(call.policy(), call.state_key(), t, |cells, t| {
                    // Done twice, it must count once.
                    let mut usage = *known;
                    let outcome = call.run_on(cells, &mut usage, t)?;
                    let mut answer = (spoken.understand)(operation, &outcome.reply)
                        .ok_or_else(|| Refusal::new(format!("a reply of another form: {}", outcome.reply)))?;
                    if let Some(look) = spoken.look {
                        answer.extend(look(&call, &outcome, cells, t));
                    }
                    Ok::<_, Refusal>((answer, usage))
                });
                let (answer, usage) = done??;
                *known = usage;
                Ok(answer)
            }
            Some(ScenarioLimiter::Policy(direct, policy)) => {
                StoreError::check_key(&operation.key).map_err(|error| Refusal::new(error.to_string()))?;
                let cost = operation.n.as_u64().and_then(Cost::new);
                let cost =
                    cost.ok_or_else(|| Refusal::new(format!("n: expected an integer from 0 to {}", EXACT - 1)))?;
                let request = Request::cost(cost);
                let decide = |cells: &mut [Cell], t| decide(policy, cells, t, &request);
                Ok((direct.answer)(&self.keys.act(policy, &operation.key, time(operation.t)?, decide)?))
            }
        }
    }
}

/// Starts a limiter by reading a call of it, so that a policy that is none is noticed here.
fn start(spoken: &'static DialectLimiter, scenario: &Scenario) -> Result<ScenarioLimiter, Refusal> {
    let dialect = tollgate_dialects::find(spoken.dialect);
    let dialect = dialect.ok_or_else(|| Refusal::new(format!("no dialect {:?}", spoken.dialect)))?;
    let first = Operation { t: scenario.start, key: Vec::new(), n: 1.into(), want_wait: false, policy: None };
    read(spoken, dialect, scenario, &first)?;
    Ok(ScenarioLimiter::Dialect(spoken, dialect, scenario.clone()))
}

fn read(
    spoken: &DialectLimiter,
    dialect: &Dialect,
    scenario: &Scenario,
    operation: &Operation,
) -> Result<ParsedCall, Refusal> {
    let command = (spoken.speak)(scenario, operation)?;
    let keys: Vec<&[u8]> = command.keys.iter().map(Vec::as_slice).collect();
    let args: Vec<&[u8]> = command.args.iter().map(Vec::as_slice).collect();
    Ok((dialect.parse)(&keys, &args)?)
}

fn time(t: u64) -> Result<Timestamp, Refusal> {
    Timestamp::new(t).ok_or_else(|| Refusal::new("t: expected a time before the year 2255"))
}
