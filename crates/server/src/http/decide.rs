//! Check, peek, reset, refund and explain.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use tollgate_core::{Cost, StoreError, promises};

use super::bodies::{Check, Decided, Explain, Explained, Refund, Refunded, Reset, ResetDone, cost};
use super::call::Call;
use super::problem::Problem;
use crate::desk::{Answer, Ask, Part, Question, Tells};
use crate::fault::Fault;
use crate::shared::Shared;

pub(super) async fn check(call: &Call<'_>, body: Check, peek: bool) -> Result<Decided, Problem> {
    let key = key(body.key, body.key_base64)?;
    let part = part(call.shared, key, &body.policy, body.name.as_deref(), cost(body.cost))?;
    let ask = Ask { part, mode: body.mode.map(Into::into), peek, tells: Tells::Full };
    decided(call.shared, ask).await
}

pub(super) async fn reset(call: &Call<'_>, body: Reset) -> Result<ResetDone, Problem> {
    let key = key(body.key, body.key_base64)?;
    let part = part(call.shared, key, &body.policy, body.name.as_deref(), Cost::ONE)?;
    call.shared.desk.answer(&Question::Reset(part)).await?;
    Ok(ResetDone { reset: true })
}

pub(super) async fn refund(call: &Call<'_>, body: Refund) -> Result<Refunded, Problem> {
    let key = key(body.key, body.key_base64)?;
    let part = part(call.shared, key, &body.policy, body.name.as_deref(), Cost::ONE)?;
    let question = Question::Refund { part, units: body.units.cost(), at: body.at_us.timestamp() };
    match call.shared.desk.answer(&question).await? {
        Answer::Units(refunded) => Ok(Refunded { refunded }),
        _ => Err(strange()),
    }
}

pub(super) async fn explain(call: &Call<'_>, body: Explain) -> Result<Explained, Problem> {
    let known = call.shared.desk.policy(body.policy.as_bytes(), body.name.as_deref().map(str::as_bytes))?;
    let (text, promises) = (known.policy.to_string(), promises(&known.policy));
    let mut now = None;
    if body.key.is_some() || body.key_base64.is_some() {
        let part = Part { known, key: key(body.key, body.key_base64)?, cost: cost(body.cost) };
        let ask = Ask { part, mode: body.mode.map(Into::into), peek: true, tells: Tells::Full };
        now = Some(decided(call.shared, ask).await?);
    }
    Ok(Explained { policy: text, promises, now })
}

async fn decided(shared: &Shared, ask: Ask) -> Result<Decided, Problem> {
    let question = Question::Check(ask);
    match (shared.desk.answer(&question).await?, &question) {
        (Answer::Decided(decision, details), Question::Check(ask)) => {
            Ok(Decided::new(&ask.part.known.policy, &decision, &details))
        }
        _ => Err(strange()),
    }
}

/// The desk answers each question by its own kind.
pub(super) fn strange() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the desk answered another question")
}

/// The key of a body, whichever way it is written.
pub(super) fn key(text: Option<String>, base64: Option<String>) -> Result<Vec<u8>, Fault> {
    let key = match (text, base64) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(base64)) => STANDARD
            .decode(&base64)
            .map_err(|error| Fault::wrong(format!("key_base64: expected base64 with its padding: {error}")))?,
        (Some(_), Some(_)) => return Err(Fault::wrong("expected key or key_base64, found both")),
        (None, None) => return Err(Fault::wrong("expected key (text) or key_base64 (any bytes), found neither")),
    };
    StoreError::check_key(&key)?;
    Ok(key)
}

pub(super) fn part(shared: &Shared, key: Vec<u8>, policy: &str, name: Option<&str>, cost: Cost) -> Result<Part, Fault> {
    let known = shared.desk.policy(policy.as_bytes(), name.map(str::as_bytes))?;
    Ok(Part { known, key, cost })
}
