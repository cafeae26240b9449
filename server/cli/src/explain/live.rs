//! `tollgate explain POLICY --key KEY`: the state of a key in a store now, in words. Nothing is charged.

use serde::Serialize;
use tollgate_kernel::{Policy, Request};

use super::ExplainArgs;
use crate::decide::report::{Decided, Document};
use crate::decide::{self, home};
use crate::error::Error;
use crate::text;

#[derive(Serialize)]
struct Live {
    promises: Vec<String>,
    now: Document,
}

/// Explains the policy, and the key under it.
pub(super) fn run(args: &ExplainArgs, policy: &Policy, key: &str) -> Result<String, Error> {
    let cost = decide::cost(args.cost)?;
    let request = Request { peek: true, ..Request::cost(cost) };
    let key = key.as_bytes();
    let (decision, details) = home::ask(&args.store, async |store| home::decide(store, policy, key, request).await)?;
    let decided = Decided { key, policy, cost, decision, details, peek: true };
    if args.json {
        return Ok(text::json(&Live { promises: tollgate_kernel::promises(policy), now: decided.document() }));
    }
    let words = super::report::print(policy, &[]);
    let asked = text::counted(cost.get(), "unit", "units");
    Ok(format!("{words}\nnow, asked for {asked}:\n{}{}", decided.print(true), last(&decided)))
}

/// Returns the time at which it would pass, for a refusal that ends.
fn last(decided: &Decided<'_>) -> String {
    let decision = &decided.decision;
    match decision.retry_after.span() {
        Some(span) if !decision.allowed => {
            let passes = crate::moment::print(decision.at.plus(span).get());
            text::wrapped(&format!("it would first pass at {passes} by the server's clock, if nobody else comes"))
        }
        _ => String::new(),
    }
}
