//! Many requests at once: each by itself in order, or all or none.

use std::sync::Arc;

use tollgate_core::{Request, Together};

use super::bodies::{Batch, BatchDecided, Check, Decided, ItemDecided, cost};
use super::call::Call;
use super::decide::{key, part, strange};
use super::problem::Problem;
use super::values::Object;
use crate::desk::{Answer, Known, Part, Question};
use crate::fault::Fault;
use crate::shared::Shared;

/// The most items.
pub(super) const MOST_ITEMS: usize = 100;
/// The most items of which all are charged or none is.
const MOST_PARTS: usize = 32;

pub(super) async fn batch(call: &Call<'_>, body: Batch) -> Result<BatchDecided, Problem> {
    let most = if body.all_or_none { MOST_PARTS } else { MOST_ITEMS };
    let count = body.items.len();
    if !(1..=most).contains(&count) {
        return Err(Problem::wrong(format!("items: expected 1 to {most}, found {count}")));
    }
    let items = body.items.into_iter().map(|Object(item)| item).collect();
    if body.all_or_none { together(call.shared, items).await } else { each(call.shared, items).await }
}

/// All are charged or none is. One that is wrong spoils all.
async fn together(shared: &Shared, items: Vec<Check>) -> Result<BatchDecided, Problem> {
    let mut parts = Vec::with_capacity(items.len());
    for (place, item) in items.into_iter().enumerate() {
        if item.mode.is_some() {
            let text = format!("items[{place}].mode: expected none where all or none is charged");
            return Err(Problem::wrong(text));
        }
        let read =
            read(shared, item).map_err(|fault| Fault::new(fault.code, format!("items[{place}]: {}", fault.text)))?;
        parts.push(read.part);
    }
    let question = Question::All(parts);
    match (shared.desk.answer(&question).await?, &question) {
        (Answer::Together(Together { allowed, retry_after, decisions, .. }), Question::All(parts)) => {
            let decided = parts
                .iter()
                .zip(&decisions)
                .map(|(part, decision)| ItemDecided::Decided(Decided::new(&part.known.policy, decision, &[])));
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
    /// Whether one call may decide both.
    fn goes_with(&self, known: &Arc<Known>, request: &Request) -> bool {
        Arc::ptr_eq(&self.part.known, known) && self.request == *request
    }
}

fn read(shared: &Shared, item: Check) -> Result<Asked, Fault> {
    let key = key(item.key, item.key_base64)?;
    let part = part(shared, key, &item.policy, item.name.as_deref(), cost(item.cost))?;
    let request = Request { mode: item.mode.map(Into::into), ..Request::cost(part.cost) };
    Ok(Asked { part, request })
}

/// Each by itself, in order; neighbours that ask alike are decided by one call.
async fn each(shared: &Shared, items: Vec<Check>) -> Result<BatchDecided, Problem> {
    let asked: Vec<Result<Asked, Fault>> = items.into_iter().map(|item| read(shared, item)).collect();
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
    let mut decisions = Vec::with_capacity(keys.len());
    match shared.desk.check_many(known, keys, &asked.request, &mut decisions).await {
        Ok(()) => {
            let decided = decisions.iter().map(|decision| Decided::new(&known.policy, decision, &[]));
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
