//! The vectors through the server: what a client of a limiter would send goes to its dialect; limiters
//! without one are policies, asked by TG.CHECK.

use tollgate_dialects::{Action, Dialect, DialectOutcome, DialectReply, ParsedCall};
use tollgate_kernel::{Cost, Decision, KeyState, Limit, Micros, Policy, Request, Timestamp, Wait};

use super::stored::StoredServer;
use super::wire::{FrontEnd, ServerConnections};
use crate::home::{Answer, Home, Refusal};
use crate::limiters::{Command, DialectLimiter, Limiter, PolicyLimiter};
use crate::line::{Operation, Scenario};
use crate::redis::decision;

/// A server, and the limiter of the scenario that is played.
pub struct ServerHome {
    served: Served,
    limiter: Option<ScenarioLimiter>,
}

/// The server that is asked.
enum Served {
    Own(Box<ServerConnections>),
    Stored(Box<StoredServer>),
}

impl Served {
    /// Forgets what was played before.
    fn forget(&mut self) -> Result<(), Refusal> {
        match self {
            // Another server: nothing is left.
            Self::Own(served) => **served = ServerConnections::open()?,
            Self::Stored(stored) => stored.forget()?,
        }
        Ok(())
    }

    fn dialect(&mut self, name: &str, command: &Command, t: Timestamp) -> Result<DialectReply, Refusal> {
        match self {
            Self::Own(served) => served.dialect(name, &command.keys, &command.args, t),
            Self::Stored(stored) => stored.dialect(name, &command.keys, &command.args, t),
        }
    }

    /// The state behind a call, as its limits find it.
    fn state(&mut self, key: &[u8], call: &ParsedCall) -> Result<KeyState, Refusal> {
        match self {
            Self::Own(served) => {
                let mut states = served.server.states(key).into_iter();
                Ok(states.find(|state| knows(state, call.policy())).unwrap_or_default())
            }
            Self::Stored(stored) => {
                let mut state = KeyState::default();
                let cells = stored.cells(key, call)?;
                call.policy().limits().iter().zip(cells).for_each(|(limit, cell)| state.keep(limit.clone(), cell));
                Ok(state)
            }
        }
    }
}

enum ScenarioLimiter {
    Dialect(&'static DialectLimiter, &'static Dialect, Scenario),
    Policy(&'static PolicyLimiter, Policy),
}

impl ServerHome {
    /// Opens it.
    pub fn open() -> Result<Self, Refusal> {
        Ok(Self { served: Served::Own(Box::new(ServerConnections::open()?)), limiter: None })
    }

    /// Opens one whose keys are in a store.
    pub fn with_store() -> Result<Self, Refusal> {
        Ok(Self { served: Served::Stored(Box::new(StoredServer::open()?)), limiter: None })
    }

    fn spoken(
        &mut self,
        spoken: &DialectLimiter,
        dialect: &Dialect,
        scenario: &Scenario,
        operation: &Operation,
    ) -> Result<Answer, Refusal> {
        let command = (spoken.speak)(scenario, operation)?;
        let unit = scenario.unit.unwrap_or(spoken.unit);
        let home = time(operation.t.saturating_mul(unit.micros()))?;
        let reply = self.served.dialect(dialect.name, &command, home)?;
        let mut answer = (spoken.understand)(operation, &reply)
            .ok_or_else(|| Refusal::new(format!("a reply of another form: {reply}")))?;
        if let Some(look) = spoken.look {
            let call = read(dialect, &command.keys, &command.args)?;
            let t = call.time(home)?;
            let key = call.state_name().or(command.keys.first().map(Vec::as_slice)).unwrap_or_default().to_vec();
            let mut state = self.served.state(&key, &call)?;
            let allowed = answer.get("allowed").and_then(serde_json::Value::as_bool);
            let decision = looked_at(&call, &state, t)
                .map(|decision| Decision { allowed: allowed.unwrap_or(decision.allowed), ..decision });
            let cells = state.cells_of(call.policy(), t).to_vec();
            answer.extend(look(&call, &DialectOutcome { reply, decision }, &cells, t));
        }
        Ok(answer)
    }

    fn direct(&mut self, direct: &PolicyLimiter, policy: &Policy, operation: &Operation) -> Result<Answer, Refusal> {
        let cost = operation.n.as_u64().and_then(Cost::new);
        let cost = cost.ok_or_else(|| Refusal::new("n: expected an integer below 2^53"))?.get().to_string();
        let unit = direct.unit.micros();
        let t = time(operation.t.saturating_mul(unit))?;
        let args = ["COST", &cost, "REST"];
        let on = [(&operation.key[..], policy)];
        let flat = match &mut self.served {
            Served::Own(served) => served.native(FrontEnd::Resp, "tollgate", &on, &args, t)?,
            Served::Stored(stored) => stored.native(FrontEnd::Resp, "tollgate", &on, &args, t)?,
        };
        let found = decision(&flat).ok_or_else(|| Refusal::new(format!("a reply of another form: {flat:?}")))?;
        Ok((direct.answer)(&in_ticks(found, unit)))
    }
}

impl Home for ServerHome {
    fn scenario(&mut self, scenario: &Scenario) -> Result<(), Refusal> {
        self.limiter = None;
        self.served.forget()?;
        self.limiter = Some(match Limiter::find(&scenario.limiter)? {
            Limiter::Dialect(spoken) => {
                let dialect = tollgate_dialects::find(spoken.dialect);
                let dialect = dialect.ok_or_else(|| Refusal::new(format!("no dialect {:?}", spoken.dialect)))?;
                // A first call, on a key of its own, tells whether the policy is one.
                let key = match spoken.name {
                    "redis_limiter" => b"{api:first}".to_vec(),
                    _ => b"first".to_vec(),
                };
                let first = Operation { t: scenario.start, key, n: 1.into(), want_wait: false, policy: None };
                self.spoken(spoken, dialect, scenario, &first)?;
                self.served.forget()?;
                ScenarioLimiter::Dialect(spoken, dialect, scenario.clone())
            }
            Limiter::Policy(direct) => ScenarioLimiter::Policy(direct, in_micros(direct, scenario)?),
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

/// Whether a state is of the policy's limits.
fn knows(state: &KeyState, policy: &Policy) -> bool {
    policy.limits().iter().all(|limit| state.each().any(|(held, _)| held.id() == limit.id()))
}

/// What is left to tell of a decision, from the state it left: a refusal changed nothing, so the same request
/// waits as long again; until all is as new does not depend on what is asked.
fn looked_at(call: &ParsedCall, state: &KeyState, t: Timestamp) -> Option<Decision> {
    let Action::Check(request) = call.action() else { return None };
    Some(state.clone().decide(call.policy(), t, &Request { peek: true, ..*request }))
}

/// The policy of a scenario in microseconds: its own unit is the tick of the vectors.
fn in_micros(direct: &PolicyLimiter, scenario: &Scenario) -> Result<Policy, Refusal> {
    let limit = (direct.limit)(&scenario.policy)?;
    let (count, period, options) = limit.rule().numbers();
    let period = Micros::new(period.get().saturating_mul(direct.unit.micros()));
    let limit = Limit::build(limit.rule().name(), count, period, &options);
    let limit = limit.map_err(|problem| Refusal::new(format!("policy: {problem}")))?;
    Policy::new(vec![limit]).map_err(|error| Refusal::new(format!("policy: {error}")))
}

/// A decision with its waits in ticks, rounded up: nothing happens between them.
fn in_ticks(decision: Decision, unit: u64) -> Decision {
    let ticks =
        |wait: Wait| wait.span().map_or(Wait::Never, |span| Wait::After(Micros::new(span.get().div_ceil(unit))));
    Decision {
        retry_after: ticks(decision.retry_after),
        next_after: ticks(decision.next_after),
        reset_after: Micros::new(decision.reset_after.get().div_ceil(unit)),
        ..decision
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
