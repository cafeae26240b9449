//! Many requests at once: each by itself in order, or all or none.

use std::sync::Arc;

use tollgate_kernel::{Request, Together};

use super::bodies::{Batch, BatchDecided, Check, ItemDecided};
use super::call::Call;
use super::decide::{part_of_check, strange};
use super::decided::Decided;
use super::problem::Problem;
use super::values::Object;
use crate::shared::Shared;
use tollgate_engine::{Answer, Ask, Generation, Known, Part, Question, Tells};
use tollgate_keyspace::Fault;

/// The largest number of items.
pub(super) const MAX_ITEMS: usize = 100;
/// The largest number of items that are charged all or none.
const MAX_PARTS: usize = 32;

pub(super) async fn batch(call: &Call<'_>, body: Batch) -> Result<BatchDecided, Problem> {
    let most = if body.all_or_none { MAX_PARTS } else { MAX_ITEMS };
    let count = body.items.len();
    if !(1..=most).contains(&count) {
        return Err(Problem::wrong(format!("items: expected 1 to {most}, found {count}")));
    }
    let items: Vec<Check> = body.items.into_iter().map(|Object(item)| item).collect();
    if body.all_or_none { together(call, items).await } else { each(call, items).await }
}

/// Charges all items or none. One item that is not valid fails the whole batch.
async fn together(call: &Call<'_>, items: Vec<Check>) -> Result<BatchDecided, Problem> {
    let mut parts = Vec::with_capacity(items.len());
    let generation = Arc::clone(&call.shared.engine.generation());
    for (place, item) in items.iter().enumerate() {
        if item.mode.is_some() {
            let text = format!("items[{place}].mode: expected none where all or none is charged");
            return Err(Problem::wrong(text));
        }
        let read = read(call.shared, &generation, item)
            .map_err(|fault| Fault::new(fault.code, format!("items[{place}]: {}", fault.text)))?;
        parts.push(read.part);
    }
    let question = Question::All(parts);
    match (call.ask(&question).await?, &question) {
        (Answer::Together(Together { allowed, retry_after, decisions, .. }, verdicts), Question::All(parts)) => {
            let decided = parts.iter().zip(&decisions).enumerate().map(|(place, (part, decision))| {
                ItemDecided::Decided(match verdicts.get(place) {
                    Some(verdict) => Decided::new(&part.known, verdict),
                    None => Decided::plain(&part.known, decision),
                })
            });
            Ok(BatchDecided {
                allowed: Some(allowed),
                retry_after_us: Some(retry_after.as_flat()),
                decisions: decided.collect(),
            })
        }
        _ => Err(strange()),
    }
}

/// An item that is well-formed.
struct Asked {
    part: Part,
    request: Request,
}

impl Asked {
    /// Returns whether one call may decide both.
    fn goes_with(&self, known: &Arc<Known>, request: &Request) -> bool {
        Arc::ptr_eq(&self.part.known, known) && self.request == *request
    }
}

fn read(shared: &Shared, generation: &Generation, item: &Check) -> Result<Asked, Fault> {
    let part = part_of_check(shared, generation, item)?;
    let request = Request { mode: item.mode.map(Into::into), ..Request::cost(part.cost) };
    Ok(Asked { part, request })
}

/// Decides each item by itself, in order; adjacent items with the same policy and request are decided by one call.
async fn each(call: &Call<'_>, items: Vec<Check>) -> Result<BatchDecided, Problem> {
    let shared = call.shared;
    call.trace(|span| span.set("tollgate.batch_size", items.len()));
    let generation = Arc::clone(&shared.engine.generation());
    let asked: Vec<Result<Asked, Fault>> = items.iter().map(|item| read(shared, &generation, item)).collect();
    let mut decisions = Vec::with_capacity(asked.len());
    let mut rest = asked.as_slice();
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
            next.goes_with(&first.part.known, &first.request).then_some(next.part.key.as_slice())
        });
        let keys: Vec<&[u8]> = alike.collect();
        decide(shared, first, &keys, &mut decisions).await;
        rest = rest.get(keys.len()..).unwrap_or_default();
    }
    Ok(BatchDecided { allowed: None, retry_after_us: None, decisions })
}

async fn decide(shared: &Shared, asked: &Asked, keys: &[&[u8]], into: &mut Vec<ItemDecided>) {
    let known = &asked.part.known;
    if known.rules.is_some() {
        // Each key is asked separately, since its answer names the rule that decided.
        for key in keys {
            let part = Part { known: Arc::clone(known), key: key.to_vec(), cost: asked.part.cost };
            let ask = Ask { part, mode: asked.request.mode, peek: false, tells: Tells::Rest };
            into.push(match shared.engine.answer(&Question::Check(ask)).await {
                Ok(Answer::Decided(verdict)) => ItemDecided::Decided(Decided::new(known, &verdict)),
                Ok(_) => ItemDecided::Failed { error: strange() },
                Err(fault) => failed(fault),
            });
        }
        return;
    }
    let mut decisions = Vec::with_capacity(keys.len());
    match shared.engine.check_many(known, keys, &asked.request, &mut decisions).await {
        Ok(()) => {
            let decided = decisions.iter().map(|decision| Decided::plain(known, decision));
            into.extend(decided.map(ItemDecided::Decided));
        }
        Err(error) => {
            let fault = Fault::from(error);
            into.extend(keys.iter().map(|_| failed(fault.clone())));
        }
    }
}

fn failed(fault: Fault) -> ItemDecided {
    ItemDecided::Failed { error: fault.into() }
}
