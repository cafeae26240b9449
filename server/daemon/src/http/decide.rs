//! Check, peek, reset, refund and explain.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use tollgate_kernel::{Cost, StoreError, promises};

use super::bodies::{Check, Explain, Explained, Refund, Refunded, Reset, ResetDone, cost};
use super::call::Call;
use super::decided::Decided;
use super::parts::{self, Parts};
use super::problem::Problem;
use crate::shared::Shared;
use tollgate_engine::{Answer, Ask, Facts, Generation, Known, Part, Question, Tells, Verdict};
use tollgate_keyspace::Fault;

pub(super) async fn check(call: &Call<'_>, body: Check, peek: bool) -> Result<Decided, Problem> {
    let part = part_of_check(call.shared, &call.shared.engine.generation(), &body)?;
    let ask = Ask { part, mode: body.mode.map(Into::into), peek, tells: Tells::Full };
    Ok(decided(call, ask).await?.0)
}

pub(super) async fn reset(call: &Call<'_>, body: Reset) -> Result<ResetDone, Problem> {
    let who = Who { key: body.key, base64: body.key_base64, parts: body.parts };
    let part = one(call.shared, who, &body.policy, body.name.as_deref())?;
    call.ask(&Question::Reset(part)).await?;
    Ok(ResetDone { reset: true })
}

pub(super) async fn refund(call: &Call<'_>, body: Refund) -> Result<Refunded, Problem> {
    let who = Who { key: body.key, base64: body.key_base64, parts: body.parts };
    let part = one(call.shared, who, &body.policy, body.name.as_deref())?;
    let question = Question::Refund { part, units: body.units.cost(), at: body.at_us.timestamp() };
    match call.ask(&question).await? {
        Answer::Units(refunded) => Ok(Refunded { refunded }),
        _ => Err(strange()),
    }
}

pub(super) async fn explain(call: &Call<'_>, body: Explain) -> Result<Explained, Problem> {
    let engine = &call.shared.engine;
    let known = engine.policy(body.policy.as_bytes(), body.name.as_deref().map(str::as_bytes))?;
    let mut explained = Explained {
        policy: known.policy.to_string(),
        promises: promises(&known.policy),
        generation: Some(known.generation).filter(|generation| *generation > 0),
        now: None,
        because: None,
        usage: None,
    };
    let who = Who { key: body.key, base64: body.key_base64, parts: body.parts };
    if who.is_said() {
        let part = Part { key: who.key(&known)?, known, cost: cost(body.cost) };
        explained.usage = engine.used(&part.known, &part.key).map(Into::into);
        let ask = Ask { part, mode: body.mode.map(Into::into), peek: true, tells: Tells::Full };
        let (now, verdict, Part { known, key, .. }) = decided(call, ask).await?;
        explained.now = Some(now);
        if known.generation > 0 {
            explained.because = Some(Facts::of(engine, &known, &key, &verdict).into());
        }
    }
    Ok(explained)
}

async fn decided(call: &Call<'_>, ask: Ask) -> Result<(Decided, Verdict, Part), Problem> {
    let question = Question::Check(ask);
    match (call.ask(&question).await?, question) {
        (Answer::Decided(verdict), Question::Check(ask)) => {
            Ok((Decided::new(&ask.part.known, &verdict), verdict, ask.part))
        }
        _ => Err(strange()),
    }
}

/// Returns the error of an answer of the wrong kind: the engine answers each question with its own kind.
pub(super) fn strange() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the engine answered another question")
}

/// The key of a request, in whichever way it is written.
pub(super) struct Who {
    key: Option<String>,
    base64: Option<String>,
    parts: Option<Parts>,
}

impl Who {
    fn is_said(&self) -> bool {
        self.key.is_some() || self.base64.is_some() || self.parts.is_some()
    }

    /// Returns the key under a policy, which may define the parts it is made of.
    fn key(self, known: &Known) -> Result<Vec<u8>, Fault> {
        let key = match (self.key, self.base64, self.parts) {
            (Some(text), None, None) => text.into_bytes(),
            (None, Some(base64), None) => STANDARD
                .decode(&base64)
                .map_err(|error| Fault::wrong(format!("key_base64: expected base64 with its padding: {error}")))?,
            (None, None, Some(parts)) => parts::told(known, parts)?,
            (None, None, None) => {
                let parts = if parts::made_of(known).is_empty() { "" } else { "parts, " };
                let text = format!("expected {parts}key (text) or key_base64 (any bytes), found neither");
                return Err(Fault::wrong(text));
            }
            (Some(_), Some(_), _) => return Err(Fault::wrong("expected key or key_base64, found both")),
            (_, _, Some(_)) => return Err(Fault::wrong("expected parts or a key, found both")),
        };
        StoreError::check_key(&key)?;
        Ok(key)
    }
}

/// Returns the key, the policy and the cost of a check, in a generation.
pub(super) fn part_of_check(shared: &Shared, generation: &Generation, body: &Check) -> Result<Part, Fault> {
    let who = Who { key: body.key.clone(), base64: body.key_base64.clone(), parts: body.parts.clone() };
    let name = body.name.as_deref().map(str::as_bytes);
    let known = shared.engine.policy_of(generation, body.policy.as_bytes(), name)?;
    Ok(Part { key: who.key(&known)?, known, cost: cost(body.cost) })
}

fn one(shared: &Shared, who: Who, policy: &str, name: Option<&str>) -> Result<Part, Fault> {
    let known = shared.engine.policy(policy.as_bytes(), name.map(str::as_bytes))?;
    Ok(Part { key: who.key(&known)?, known, cost: Cost::ONE })
}
