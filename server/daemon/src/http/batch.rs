//! Many requests at once: each by itself in order, or all or none.

use std::sync::Arc;

use tollgate_kernel::{JointDecision, Request};

use super::bodies::{BatchBody, BatchItemBody, BatchRequest, CheckRequest};
use super::call::HttpCall;
use super::decide::{part_of_check, unexpected_answer};
use super::decision::DecisionBody;
use super::problem::HttpProblem;
use super::values::JsonObject;
use crate::shared::ServerState;
use tollgate_engine::{
    DetailLevel, EngineAnswer, EngineCheck, EnginePolicy, EngineQuestion, PolicyGeneration, QuestionPart,
};
use tollgate_keyspace::Fault;

/// The largest number of items.
pub(super) const MAX_ITEMS: usize = 100;
/// The largest number of items that are charged all or none.
const MAX_PARTS: usize = 32;

pub(super) async fn batch(call: &HttpCall<'_>, body: BatchRequest) -> Result<BatchBody, HttpProblem> {
    let most = if body.all_or_none { MAX_PARTS } else { MAX_ITEMS };
    let count = body.items.len();
    if !(1..=most).contains(&count) {
        return Err(HttpProblem::bad_request(format!("items: expected 1 to {most}, found {count}")));
    }
    let items: Vec<CheckRequest> = body.items.into_iter().map(|JsonObject(item)| item).collect();
    if body.all_or_none { decide_together(call, items).await } else { decide_each(call, items).await }
}

/// Charges all items or none. One item that is not valid fails the whole batch.
async fn decide_together(call: &HttpCall<'_>, items: Vec<CheckRequest>) -> Result<BatchBody, HttpProblem> {
    let mut parts = Vec::with_capacity(items.len());
    let generation = Arc::clone(&call.shared.engine.generation());
    for (place, item) in items.iter().enumerate() {
        if item.mode.is_some() {
            let text = format!("items[{place}].mode: expected none where all or none is charged");
            return Err(HttpProblem::bad_request(text));
        }
        let parsed = parse_item(call.shared, &generation, item)
            .map_err(|fault| Fault::new(fault.code, format!("items[{place}]: {}", fault.text)))?;
        parts.push(parsed.part);
    }
    let question = EngineQuestion::All(parts);
    match (call.ask(&question).await?, &question) {
        (
            EngineAnswer::Together(JointDecision { allowed, retry_after, decisions, .. }, verdicts),
            EngineQuestion::All(parts),
        ) => {
            let decided = parts.iter().zip(&decisions).enumerate().map(|(place, (part, decision))| {
                BatchItemBody::Decided(match verdicts.get(place) {
                    Some(verdict) => DecisionBody::new(&part.known, verdict),
                    None => DecisionBody::plain(&part.known, decision),
                })
            });
            Ok(BatchBody {
                allowed: Some(allowed),
                retry_after_us: Some(retry_after.as_flat()),
                decisions: decided.collect(),
            })
        }
        _ => Err(unexpected_answer()),
    }
}

/// An item that is well-formed.
struct BatchItem {
    part: QuestionPart,
    request: Request,
}

impl BatchItem {
    /// Returns whether one call may decide both.
    fn is_alike(&self, known: &Arc<EnginePolicy>, request: &Request) -> bool {
        Arc::ptr_eq(&self.part.known, known) && self.request == *request
    }
}

fn parse_item(shared: &ServerState, generation: &PolicyGeneration, item: &CheckRequest) -> Result<BatchItem, Fault> {
    let part = part_of_check(shared, generation, item)?;
    let request = Request { mode: item.mode.map(Into::into), ..Request::cost(part.cost) };
    Ok(BatchItem { part, request })
}

/// Decides each item by itself, in order; adjacent items with the same policy and request are decided by one call.
async fn decide_each(call: &HttpCall<'_>, items: Vec<CheckRequest>) -> Result<BatchBody, HttpProblem> {
    let shared = call.shared;
    call.trace(|span| span.set("tollgate.batch_size", items.len()));
    let generation = Arc::clone(&shared.engine.generation());
    let parsed: Vec<Result<BatchItem, Fault>> =
        items.iter().map(|item| parse_item(shared, &generation, item)).collect();
    let mut decisions = Vec::with_capacity(parsed.len());
    let mut rest = parsed.as_slice();
    while let Some(first) = rest.first() {
        let first = match first {
            Ok(first) => first,
            Err(fault) => {
                decisions.push(failed(fault.clone()));
                rest = &rest[1..];
                continue;
            }
        };
        let alike = rest.iter().map_while(|next| {
            let next = next.as_ref().ok()?;
            next.is_alike(&first.part.known, &first.request).then_some(next.part.key.as_slice())
        });
        let keys: Vec<&[u8]> = alike.collect();
        decide(shared, first, &keys, &mut decisions).await;
        rest = rest.get(keys.len()..).unwrap_or_default();
    }
    Ok(BatchBody { allowed: None, retry_after_us: None, decisions })
}

async fn decide(shared: &ServerState, item: &BatchItem, keys: &[&[u8]], into: &mut Vec<BatchItemBody>) {
    let known = &item.part.known;
    if known.rules.is_some() {
        // Each key is asked separately, since its answer names the rule that decided.
        for key in keys {
            let part = QuestionPart { known: Arc::clone(known), key: key.to_vec(), cost: item.part.cost };
            let ask = EngineCheck { part, mode: item.request.mode, peek: false, detail: DetailLevel::Rest };
            into.push(match shared.engine.answer(&EngineQuestion::Check(ask)).await {
                Ok(EngineAnswer::Decided(verdict)) => BatchItemBody::Decided(DecisionBody::new(known, &verdict)),
                Ok(_) => BatchItemBody::Failed { error: unexpected_answer() },
                Err(fault) => failed(fault),
            });
        }
        return;
    }
    let mut decisions = Vec::with_capacity(keys.len());
    match shared.engine.check_many(known, keys, &item.request, &mut decisions).await {
        Ok(()) => {
            let decided = decisions.iter().map(|decision| DecisionBody::plain(known, decision));
            into.extend(decided.map(BatchItemBody::Decided));
        }
        Err(error) => {
            let fault = Fault::from(error);
            into.extend(keys.iter().map(|_| failed(fault.clone())));
        }
    }
}

fn failed(fault: Fault) -> BatchItemBody {
    BatchItemBody::Failed { error: fault.into() }
}
