//! A decision in words: what the policy promises, the state of each limit, the outcome, and why.

use tollgate_kernel::{Detail, Wait};

use tollgate_engine::{DecisionFacts, Engine, EngineCheck, EngineVerdict};

/// Returns the text.
pub(super) fn text(engine: &Engine, ask: &EngineCheck, verdict: &EngineVerdict) -> String {
    let known = &ask.part.known;
    let policy = &verdict.applied(known).policy;
    let mut lines = tollgate_kernel::promises(policy);
    lines.push(String::new());
    let units = ask.part.cost.get();
    lines.push(format!("now, asked for {units} unit{}:", if units == 1 { "" } else { "s" }));
    for (limit, detail) in policy.limits().iter().zip(&verdict.details) {
        lines.push(format!("  {}", detail_line(&limit.to_string(), detail)));
    }
    let decision = &verdict.decision;
    lines.push(match (decision.allowed, decision.retry_after) {
        (true, _) => format!("allowed: {} would be granted", decision.granted),
        (false, Wait::After(span)) => format!("denied: it would first pass in {span}, if nobody else comes"),
        (false, Wait::Never) => "denied: it can never fit".to_owned(),
    });
    // Of a policy that the caller sent as text nothing more is known.
    if known.generation > 0 {
        lines.push(String::new());
        lines.extend(DecisionFacts::of(engine, known, &ask.part.key, verdict).lines());
    }
    if let Some(used) = engine.usage_of(known, &ask.part.key) {
        lines.push(format!("used so far: {used}"));
    }
    lines.join("\n")
}

/// Returns the line of a limit.
fn detail_line(name: &str, detail: &Detail) -> String {
    let wait = match detail.retry_after.span() {
        _ if detail.fits => "fits".to_owned(),
        Some(span) => format!("refuses for {span}"),
        None => "can never fit".to_owned(),
    };
    format!("{name}: {wait}; {} of {} left, as new in {}", detail.remaining, detail.count, detail.reset_after)
}
