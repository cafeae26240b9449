//! Check, peek, reset, refund and explain.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use tollgate_kernel::{Cost, StoreError, promises};

use super::bodies::{
    CheckRequest, ExplainRequest, ExplanationBody, RefundBody, RefundRequest, ResetBody, ResetRequest, cost,
};
use super::call::HttpCall;
use super::decision::DecisionBody;
use super::parts::{self, KeyParts};
use super::problem::HttpProblem;
use crate::shared::ServerState;
use tollgate_engine::{
    DecisionFacts, DetailLevel, EngineAnswer, EngineCheck, EnginePolicy, EngineQuestion, EngineVerdict,
    PolicyGeneration, QuestionPart,
};
use tollgate_keyspace::Fault;

pub(super) async fn check(call: &HttpCall<'_>, body: CheckRequest, peek: bool) -> Result<DecisionBody, HttpProblem> {
    let part = part_of_check(call.shared, &call.shared.engine.generation(), &body)?;
    let ask = EngineCheck { part, mode: body.mode.map(Into::into), peek, detail: DetailLevel::Full };
    Ok(decide(call, ask).await?.0)
}

pub(super) async fn reset(call: &HttpCall<'_>, body: ResetRequest) -> Result<ResetBody, HttpProblem> {
    let key = RequestKey { key: body.key, base64: body.key_base64, parts: body.parts };
    let part = key_part(call.shared, key, &body.policy, body.name.as_deref())?;
    call.ask(&EngineQuestion::Reset(part)).await?;
    Ok(ResetBody { reset: true })
}

pub(super) async fn refund(call: &HttpCall<'_>, body: RefundRequest) -> Result<RefundBody, HttpProblem> {
    let key = RequestKey { key: body.key, base64: body.key_base64, parts: body.parts };
    let part = key_part(call.shared, key, &body.policy, body.name.as_deref())?;
    let question = EngineQuestion::Refund { part, units: body.units.cost(), at: body.at_us.timestamp() };
    match call.ask(&question).await? {
        EngineAnswer::Units(refunded) => Ok(RefundBody { refunded }),
        _ => Err(unexpected_answer()),
    }
}

pub(super) async fn explain(call: &HttpCall<'_>, body: ExplainRequest) -> Result<ExplanationBody, HttpProblem> {
    let engine = &call.shared.engine;
    let known = engine.policy(body.policy.as_bytes(), body.name.as_deref().map(str::as_bytes))?;
    let mut explained = ExplanationBody {
        policy: known.policy.to_string(),
        promises: promises(&known.policy),
        generation: Some(known.generation).filter(|generation| *generation > 0),
        now: None,
        because: None,
        usage: None,
    };
    let key = RequestKey { key: body.key, base64: body.key_base64, parts: body.parts };
    if key.is_present() {
        let part = QuestionPart { key: key.into_key(&known)?, known, cost: cost(body.cost) };
        explained.usage = engine.usage_of(&part.known, &part.key).map(Into::into);
        let ask = EngineCheck { part, mode: body.mode.map(Into::into), peek: true, detail: DetailLevel::Full };
        let (now, verdict, QuestionPart { known, key, .. }) = decide(call, ask).await?;
        explained.now = Some(now);
        if known.generation > 0 {
            explained.because = Some(DecisionFacts::of(engine, &known, &key, &verdict).into());
        }
    }
    Ok(explained)
}

async fn decide(
    call: &HttpCall<'_>,
    ask: EngineCheck,
) -> Result<(DecisionBody, EngineVerdict, QuestionPart), HttpProblem> {
    let question = EngineQuestion::Check(ask);
    match (call.ask(&question).await?, question) {
        (EngineAnswer::Decided(verdict), EngineQuestion::Check(ask)) => {
            Ok((DecisionBody::new(&ask.part.known, &verdict), verdict, ask.part))
        }
        _ => Err(unexpected_answer()),
    }
}

/// Returns the error of an answer of the wrong kind: the engine answers each question with its own kind.
pub(super) fn unexpected_answer() -> HttpProblem {
    HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "the engine answered another question")
}

/// The key of a request, in whichever way it is written.
pub(super) struct RequestKey {
    key: Option<String>,
    base64: Option<String>,
    parts: Option<KeyParts>,
}

impl RequestKey {
    fn is_present(&self) -> bool {
        self.key.is_some() || self.base64.is_some() || self.parts.is_some()
    }

    /// Returns the key under a policy, which may define the parts it is made of.
    fn into_key(self, known: &EnginePolicy) -> Result<Vec<u8>, Fault> {
        let key = match (self.key, self.base64, self.parts) {
            (Some(text), None, None) => text.into_bytes(),
            (None, Some(base64), None) => STANDARD
                .decode(&base64)
                .map_err(|error| Fault::wrong(format!("key_base64: expected base64 with its padding: {error}")))?,
            (None, None, Some(parts)) => parts::stated_key(known, parts)?,
            (None, None, None) => {
                let parts = if parts::key_parts(known).is_empty() { "" } else { "parts, " };
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
pub(super) fn part_of_check(
    shared: &ServerState,
    generation: &PolicyGeneration,
    body: &CheckRequest,
) -> Result<QuestionPart, Fault> {
    let key = RequestKey { key: body.key.clone(), base64: body.key_base64.clone(), parts: body.parts.clone() };
    let name = body.name.as_deref().map(str::as_bytes);
    let known = shared.engine.policy_of(generation, body.policy.as_bytes(), name)?;
    Ok(QuestionPart { key: key.into_key(&known)?, known, cost: cost(body.cost) })
}

fn key_part(shared: &ServerState, key: RequestKey, policy: &str, name: Option<&str>) -> Result<QuestionPart, Fault> {
    let known = shared.engine.policy(policy.as_bytes(), name.map(str::as_bytes))?;
    Ok(QuestionPart { key: key.into_key(&known)?, known, cost: Cost::ONE })
}
