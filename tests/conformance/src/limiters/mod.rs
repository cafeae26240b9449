//! The limiters of the vectors: how each is called, and how its reply is understood.
//!
//! Where a dialect exists, an operation becomes the bytes a client of that limiter would send, and
//! the reply becomes the answer's fields; any home that speaks dialects can use it. Two limiters
//! have no calling convention and are decided by a policy directly.

mod counter;
mod direct;
mod gcra;
mod plug;
mod rolling;
mod slotted;
mod window;

use serde_json::{Map, Value};
use tollgate_dialects::{DialectOutcome, DialectReply, ParsedCall};
use tollgate_kernel::{Cell, Decision, Limit, Timestamp};

use crate::home::{Answer, Refusal};
use crate::line::{Operation, Scenario, Unit};

/// A limiter of the vectors.
#[derive(Clone, Copy)]
pub enum Limiter {
    /// Called by its own convention.
    Dialect(&'static DialectLimiter),
    /// Decided by a policy of one limit.
    Policy(&'static PolicyLimiter),
}

/// A limiter with a calling convention.
pub struct DialectLimiter {
    /// Its name in the vectors.
    pub name: &'static str,
    /// The dialect that speaks it.
    pub dialect: &'static str,
    /// The unit of its clock, if the scenario does not say.
    pub unit: Unit,
    /// What a client sends.
    pub speak: fn(&Scenario, &Operation) -> Result<Command, Refusal>,
    /// What a reply means.
    pub understand: fn(&Operation, &DialectReply) -> Option<Answer>,
    /// What the reply leaves out and only a home that holds the state can tell.
    pub look: Option<StateFields>,
}

/// Fields from the call, its outcome and the key's cells at that time.
pub type StateFields = fn(&ParsedCall, &DialectOutcome, &[Cell], Timestamp) -> Answer;

/// A limiter without one.
pub struct PolicyLimiter {
    /// Its name in the vectors.
    pub name: &'static str,
    /// The unit its policy and clock are in; it becomes the kernel's tick.
    pub unit: Unit,
    /// The policy's limit.
    pub limit: fn(&Map<String, Value>) -> Result<Limit, Refusal>,
    /// The fields of a decision.
    pub answer: fn(&Decision) -> Answer,
}

/// What a client of a dialect sends: keys and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The keys.
    pub keys: Vec<Vec<u8>>,
    /// The arguments behind them.
    pub args: Vec<Vec<u8>>,
}

/// All limiters.
pub static LIMITERS: &[Limiter] = &[
    Limiter::Dialect(&slotted::SLIDING_WINDOW),
    Limiter::Dialect(&slotted::AR1),
    Limiter::Dialect(&counter::REDIS_LIMITER),
    Limiter::Dialect(&window::SLIDING_WINDOW),
    Limiter::Dialect(&plug::FIXED_WINDOW),
    Limiter::Dialect(&plug::TOKEN_BUCKET),
    Limiter::Dialect(&rolling::RISINGSTACK),
    Limiter::Dialect(&gcra::GCRA),
    Limiter::Policy(&direct::SLIDING_WINDOW_COUNTER),
    Limiter::Policy(&direct::LEAKY_BUCKET),
];

impl Limiter {
    /// Its name in the vectors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dialect(limiter) => limiter.name,
            Self::Policy(limiter) => limiter.name,
        }
    }

    /// The limiter of that name.
    pub fn find(name: &str) -> Result<Self, Refusal> {
        let found = LIMITERS.iter().find(|limiter| limiter.name() == name);
        found.copied().ok_or_else(|| {
            let names: Vec<_> = LIMITERS.iter().map(|limiter| limiter.name()).collect();
            Refusal::new(format!("limiter: expected one of {}, found {name:?}", names.join(", ")))
        })
    }
}

/// The number of that name in a policy, as a client would write it.
fn number(policy: &Map<String, Value>, name: &str) -> Result<Vec<u8>, Refusal> {
    let number = policy.get(name).and_then(Value::as_number);
    let number = number.ok_or_else(|| Refusal::new(format!("policy: expected a number as {name}")))?;
    Ok(number.to_string().into_bytes())
}

/// The only key of a call that takes one unit, as conventions without a count do.
fn one_unit(operation: &Operation) -> Result<Vec<u8>, Refusal> {
    match operation.n.as_u64() {
        Some(1) => Ok(operation.key.clone()),
        _ => Err(Refusal::new(format!("n: expected 1, found {}", operation.n))),
    }
}

/// The list of that name in a policy.
fn list<'a>(policy: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], Refusal> {
    let list = policy.get(name).and_then(Value::as_array);
    list.map(Vec::as_slice).ok_or_else(|| Refusal::new(format!("policy: expected a list as {name}")))
}

/// The integers of a reply, if it is a list of them.
fn integers<const N: usize>(reply: &DialectReply) -> Option<[i64; N]> {
    let DialectReply::Array(replies) = reply else { return None };
    let integer = |reply: &DialectReply| match reply {
        DialectReply::Int(number) => Some(*number),
        _ => None,
    };
    replies.iter().map(integer).collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// An answer of these fields.
fn fields<const N: usize>(fields: [(&str, Value); N]) -> Answer {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
