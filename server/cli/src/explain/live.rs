//! `tollgate explain POLICY --key KEY`: the state of a key in a store now, in words. Nothing is charged.

use serde::Serialize;
use tollgate_kernel::{Policy, Request};

use super::ExplainArgs;
use crate::decide::report::{CheckReport, DecisionDocument};
use crate::decide::{self, home};
use crate::error::CliError;
use crate::text;

/// The document of `explain --key`.
#[derive(Serialize)]
struct ExplainKeyDocument {
    promises: Vec<String>,
    now: DecisionDocument,
}

/// Explains the policy, and the key under it.
pub(super) fn run(args: &ExplainArgs, policy: &Policy, key: &str) -> Result<String, CliError> {
    let cost = decide::cost(args.cost)?;
    let request = Request { peek: true, ..Request::cost(cost) };
    let key = key.as_bytes();
    let (decision, details) =
        home::with_store(&args.store, async |store| home::decide(store, policy, key, request).await)?;
    let report = CheckReport { key, policy, cost, decision, details, peek: true };
    if args.json {
        return Ok(text::json(&ExplainKeyDocument {
            promises: tollgate_kernel::promises(policy),
            now: report.document(),
        }));
    }
    let words = super::report::print(policy, &[]);
    let units = text::counted(cost.get(), "unit", "units");
    Ok(format!("{words}\nnow, asked for {units}:\n{}{}", report.print(true), last(&report)))
}

/// Returns the time at which it would pass, for a refusal that ends.
fn last(report: &CheckReport<'_>) -> String {
    let decision = &report.decision;
    match decision.retry_after.span() {
        Some(span) if !decision.allowed => {
            let passes = crate::moment::print(decision.at.plus(span).get());
            text::wrapped(&format!("it would first pass at {passes} by the server's clock, if nobody else comes"))
        }
        _ => String::new(),
    }
}
