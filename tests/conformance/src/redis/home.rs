//! The vectors through a home in Redis: what a client of the limiter would send goes to its function or
//! script; limiters without one are policies of one limit, decided by `tollgate`.

use tollgate_dialects::{Action, ApiCounterUsage, Dialect, DialectOutcome, ParsedCall};
use tollgate_kernel::{Cell, Cost, Decision, Micros, Policy, Source, StoreError, Timestamp, Wait};

use super::value::{RecordLookup, cells};
use super::wire::{Packaging, Target, Wire};
use crate::home::{Answer, Home, Refusal};
use crate::limiters::{DialectLimiter, Limiter, PolicyLimiter};
use crate::line::{Operation, Scenario};

/// A home in Redis.
pub struct RedisHome {
    wire: Wire,
    packaging: Packaging,
    limiter: Option<ScenarioLimiter>,
}

enum ScenarioLimiter {
    Dialect(&'static DialectLimiter, &'static Dialect, Scenario),
    Policy(&'static PolicyLimiter, Policy),
}

impl RedisHome {
    /// Opens it on the server of the environment, or on one of its own.
    pub fn open(packaging: Packaging) -> Result<Self, Refusal> {
        Ok(Self { wire: Wire::open(&Target::from_env())?, packaging, limiter: None })
    }

    fn spoken(
        &mut self,
        spoken: &DialectLimiter,
        dialect: &Dialect,
        scenario: &Scenario,
        operation: &Operation,
    ) -> Result<Answer, Refusal> {
        let command = (spoken.speak)(scenario, operation)?;
        let keys: Vec<Vec<u8>> = command.keys.iter().map(|key| self.wire.key(key)).collect();
        let unit = scenario.unit.unwrap_or(spoken.unit);
        let home = time(operation.t.saturating_mul(unit.micros()))?;
        let call = read(dialect, &keys, &command.args);
        let outcome = if dialect.lua.is_some() {
            // Not read here: the Lua must find what is wrong by itself.
            let reply = self.wire.dialect(self.packaging, dialect.name, &keys, &command.args, home)?;
            DialectOutcome { reply, decision: None }
        } else {
            self.decided(call.as_ref().map_err(Clone::clone)?, &keys, home)?
        };
        let mut answer = (spoken.understand)(operation, &outcome.reply)
            .ok_or_else(|| Refusal::new(format!("a reply of another form: {}", outcome.reply)))?;
        if let (Some(look), Ok(call)) = (spoken.look, call) {
            let t = call.time(home)?;
            let cells = self.cells(&call, &keys)?;
            answer.extend(look(&call, &outcome, &cells, t));
        }
        Ok(answer)
    }

    fn cells(&mut self, call: &ParsedCall, keys: &[Vec<u8>]) -> Result<Vec<Cell>, Refusal> {
        let key = call.state_name().or(keys.first().map(Vec::as_slice)).unwrap_or_default();
        cells(&mut self.wire, key, call.policy(), RecordLookup::Place)
    }

    /// A call whose convention has no function: its policy decided by `tollgate`, worded here.
    fn decided(&mut self, call: &ParsedCall, keys: &[Vec<u8>], home: Timestamp) -> Result<DialectOutcome, Refusal> {
        let Action::Check(request) = call.action() else { return Err(Refusal::new("expected a request")) };
        let decision = self.decide(call.policy(), keys, request.cost.get(), call.time(home)?)?;
        Ok(DialectOutcome { reply: call.reply(&decision, &[], &ApiCounterUsage::default()), decision: Some(decision) })
    }

    fn direct(&mut self, direct: &PolicyLimiter, policy: &Policy, operation: &Operation) -> Result<Answer, Refusal> {
        let cost = operation.n.as_u64().and_then(Cost::new);
        let cost = cost.ok_or_else(|| Refusal::new("n: expected an integer below 2^53"))?;
        // As the client in Rust does: Redis takes any key.
        StoreError::check_key(&operation.key).map_err(|error| Refusal::new(error.to_string()))?;
        let keys = [self.wire.key(&operation.key)];
        let decision = self.decide(policy, &keys, cost.get(), time(operation.t)?)?;
        Ok((direct.answer)(&decision))
    }

    fn decide(&mut self, policy: &Policy, keys: &[Vec<u8>], cost: u64, t: Timestamp) -> Result<Decision, Refusal> {
        let args = [Wire::policy(policy), b"COST".to_vec(), cost.to_string().into_bytes(), b"REST".to_vec()];
        let flat = self.wire.native(self.packaging, "tollgate", keys, &[policy], &args, t)?;
        decision(&flat).ok_or_else(|| Refusal::new(format!("a reply of another form: {flat:?}")))
    }
}

impl Home for RedisHome {
    fn scenario(&mut self, scenario: &Scenario) -> Result<(), Refusal> {
        self.limiter = None;
        self.wire.forget()?;
        self.limiter = Some(match Limiter::find(&scenario.limiter)? {
            Limiter::Dialect(spoken) => {
                let dialect = tollgate_dialects::find(spoken.dialect);
                let dialect = dialect.ok_or_else(|| Refusal::new(format!("no dialect {:?}", spoken.dialect)))?;
                // A first call, of which nothing stays, tells whether the policy is one.
                let first = Operation {
                    t: scenario.start,
                    key: b"first".to_vec(),
                    n: 1.into(),
                    want_wait: false,
                    policy: None,
                };
                self.spoken(spoken, dialect, scenario, &first)?;
                self.wire.forget()?;
                ScenarioLimiter::Dialect(spoken, dialect, scenario.clone())
            }
            Limiter::Policy(direct) => {
                let limit = (direct.limit)(&scenario.policy)?;
                ScenarioLimiter::Policy(
                    direct,
                    Policy::new(vec![limit]).map_err(|error| Refusal::new(error.to_string()))?,
                )
            }
        });
        Ok(())
    }

    fn operation(&mut self, operation: &Operation) -> Result<Answer, Refusal> {
        let running = self.limiter.take();
        let answer = match &running {
            None => Err(Refusal::new("expected a scenario that begins before its operations")),
            Some(ScenarioLimiter::Dialect(spoken, dialect, scenario)) => {
                self.spoken(spoken, dialect, scenario, operation)
            }
            Some(ScenarioLimiter::Policy(direct, policy)) => self.direct(direct, policy, operation),
        };
        self.limiter = running;
        answer
    }
}

fn read(dialect: &Dialect, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Result<ParsedCall, Refusal> {
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    Ok((dialect.parse)(&keys, &args)?)
}

fn time(t: u64) -> Result<Timestamp, Refusal> {
    Timestamp::new(t).ok_or_else(|| Refusal::new("t: expected a time before the year 2255"))
}

/// The decision of a flat reply with its rest.
pub(crate) fn decision(flat: &[i64]) -> Option<Decision> {
    let &[allowed, granted, remaining, retry, reset, limited_by, charged, next, at, ..] = flat else { return None };
    let wait = |flat: i64| u64::try_from(flat).map_or(Wait::Never, |us| Wait::After(Micros::new(us)));
    Some(Decision {
        allowed: allowed == 1,
        granted: u64::try_from(granted).ok()?,
        charged: u64::try_from(charged).ok()?,
        remaining,
        retry_after: wait(retry),
        next_after: wait(next),
        reset_after: Micros::new(u64::try_from(reset).ok()?),
        limited_by: usize::try_from(limited_by).ok()?.checked_sub(1),
        at: Timestamp::new(u64::try_from(at).ok()?)?,
        source: Source::Home,
    })
}
