//! The output of `tollgate explain`, for people and for programs.

use serde::Serialize;
use tollgate_kernel::{Explanation, LimitExplanation, LimitStatus, Policy, Wait, promises};

use super::ExplainedEvent;
use super::events::ORIGIN;
use crate::moment;
use crate::text::{ColumnAlignment, TextTable, grouped, wrapped};

/// Formats the whole answer for people.
pub(super) fn print(policy: &Policy, events: &[ExplainedEvent]) -> String {
    let mut table = TextTable::new(&[ColumnAlignment::Left, ColumnAlignment::Left]);
    table.row(["policy", &policy.to_string()]);
    table.row(["mode", policy.mode().name()]);
    table.row(["memory", &format!("at most {} bytes a key", grouped(bytes_at_most(policy)))]);
    let mut text = table.print();
    text.push('\n');
    for line in promises(policy) {
        text += &wrapped(&line);
    }
    if let Some(last) = events.last() {
        text += "\n";
        text += &timeline(events);
        text += &format!("\nthe last event, {}:\n", last.event.text);
        for line in in_words(last).lines() {
            text += &wrapped(&format!("  {line}"));
        }
    }
    text
}

fn bytes_at_most(policy: &Policy) -> u64 {
    policy.limits().iter().map(|limit| limit.bytes_at_most()).fold(0, u64::saturating_add)
}

fn timeline(events: &[ExplainedEvent]) -> String {
    use ColumnAlignment::{Left, Right};
    let mut table = TextTable::new(&[Left, Right, Left, Right, Right, Right, Left]);
    table.row(["at", "cost", "decision", "granted", "left", "retry after", "limited by"]);
    for ExplainedEvent { event, explanation } in events {
        let decision = &explanation.decision;
        let verdict = match (decision.allowed, decision.limited_by) {
            (true, None) => "allowed",
            (true, Some(_)) => "in part",
            (false, _) => "refused",
        };
        let limit = decision.limited_by.and_then(|place| explanation.limits.get(place));
        table.row([
            event.text.split('x').next().unwrap_or_default().trim_end().to_owned(),
            event.cost.get().to_string(),
            verdict.to_owned(),
            decision.granted.to_string(),
            decision.remaining.to_string(),
            if decision.allowed { "-".to_owned() } else { decision.retry_after.to_string() },
            limit.map_or_else(|| "-".to_owned(), |limit| limit.name.clone()),
        ]);
    }
    table.print()
}

/// Returns the kernel's own explanation, and for a refusal the time at which it would pass.
fn in_words(explained: &ExplainedEvent) -> String {
    let ExplainedEvent { event, explanation } = explained;
    let mut text = explanation.to_string();
    if let (false, Some(passes)) = (explanation.decision.allowed, explanation.passes_at) {
        let when = if event.offset {
            tollgate_kernel::Micros::new(passes.get() - ORIGIN).to_string()
        } else {
            moment::print(passes.get())
        };
        text += &format!("\nit would first pass at {when}, if nobody else comes");
    }
    text
}

/// The document of `explain`.
#[derive(Serialize)]
struct ExplainDocument {
    policy: String,
    mode: &'static str,
    bytes_at_most: u64,
    promises: Vec<String>,
    limits: Vec<LimitPromisePart>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decisions: Vec<EventDecisionPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplanationPart>,
}

/// A limit, and what it promises.
#[derive(Serialize)]
struct LimitPromisePart {
    name: String,
    text: String,
    algorithm: &'static str,
    count: u64,
    period_us: u64,
    bytes_at_most: u64,
    promises: Vec<String>,
}

/// An event of `--at`, and its decision.
#[derive(Serialize)]
struct EventDecisionPart {
    at: String,
    at_us: u64,
    cost: u64,
    allowed: bool,
    granted: u64,
    charged: u64,
    remaining: i64,
    retry_after_us: i64,
    next_after_us: i64,
    reset_after_us: u64,
    limited_by: Option<String>,
}

/// Why the last event was decided as it was.
#[derive(Serialize)]
struct ExplanationPart {
    text: String,
    passes_at_us: Option<u64>,
    limits: Vec<LimitExplanationPart>,
}

/// A limit before and after the last event.
#[derive(Serialize)]
struct LimitExplanationPart {
    name: String,
    fits: bool,
    remaining: i64,
    retry_after_us: i64,
    reset_after_us: u64,
    before: StandingPart,
    after: StandingPart,
}

/// What a limit held of a key at one moment.
#[derive(Serialize)]
struct StandingPart {
    held: f64,
    remaining: i64,
    reset_after_us: u64,
    spacing_wait_us: u64,
}

/// Formats the whole answer for programs. Times of offsets count from the origin, others from 1970.
pub(super) fn json(policy: &Policy, events: &[ExplainedEvent]) -> String {
    let document = ExplainDocument {
        policy: policy.to_string(),
        mode: policy.mode().name(),
        bytes_at_most: bytes_at_most(policy),
        promises: promises(policy),
        limits: policy.limits().iter().map(|limit| limit_part(limit)).collect(),
        decisions: events.iter().map(decision_part).collect(),
        explanation: events.last().map(explanation_part),
    };
    // Strings and numbers always have a JSON form.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn limit_part(limit: &tollgate_kernel::Limit) -> LimitPromisePart {
    LimitPromisePart {
        name: limit.name(),
        text: limit.to_string(),
        algorithm: limit.rule().name(),
        count: limit.count(),
        period_us: limit.period().get(),
        bytes_at_most: limit.bytes_at_most(),
        promises: limit.rule().promise(),
    }
}

fn decision_part(explained: &ExplainedEvent) -> EventDecisionPart {
    let ExplainedEvent { event, explanation } = explained;
    let decision = &explanation.decision;
    EventDecisionPart {
        at: event.text.clone(),
        at_us: event.shown_us(),
        cost: event.cost.get(),
        allowed: decision.allowed,
        granted: decision.granted,
        charged: decision.charged,
        remaining: decision.remaining,
        retry_after_us: decision.retry_after.as_flat(),
        next_after_us: decision.next_after.as_flat(),
        reset_after_us: decision.reset_after.get(),
        limited_by: decision.limited_by.and_then(|place| explanation.limits.get(place)).map(|limit| limit.name.clone()),
    }
}

fn explanation_part(explained: &ExplainedEvent) -> ExplanationPart {
    let Explanation { passes_at, limits, .. } = &explained.explanation;
    let base = if explained.event.offset { ORIGIN } else { 0 };
    ExplanationPart {
        text: in_words(explained),
        passes_at_us: passes_at.map(|passes| passes.get() - base),
        limits: limits.iter().map(limit_explanation_part).collect(),
    }
}

fn limit_explanation_part(limit: &LimitExplanation) -> LimitExplanationPart {
    LimitExplanationPart {
        name: limit.name.clone(),
        fits: limit.detail.fits,
        remaining: limit.detail.remaining,
        retry_after_us: Wait::as_flat(limit.detail.retry_after),
        reset_after_us: limit.detail.reset_after.get(),
        before: standing_part(limit.before),
        after: standing_part(limit.after),
    }
}

fn standing_part(standing: LimitStatus) -> StandingPart {
    StandingPart {
        held: standing.held,
        remaining: standing.remaining,
        reset_after_us: standing.reset_after.get(),
        spacing_wait_us: standing.spacing_wait.get(),
    }
}
