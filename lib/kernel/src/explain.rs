//! Explanations: what a policy promises, and the reasons for a decision.

use std::fmt;

use crate::decision::{Decision, Detail};
use crate::policy::Policy;
use crate::request::{Mode, Request};
use crate::state::KeyState;
use crate::units::{Micros, Timestamp, Wait};

/// Returns what a policy promises in plain words, one fact per line.
pub fn promises(policy: &Policy) -> Vec<String> {
    let mut lines = Vec::new();
    for limit in policy.limits() {
        lines.push(format!("{limit} ({})", limit.rule().name()));
        lines.extend(limit.rule().promise().into_iter().map(|line| format!("  {line}")));
        if let Some(spacing) = limit.spacing() {
            lines.push(format!("  Two requests are at least {spacing} apart."));
        }
        lines.push(format!("  A key takes at most {} in process.", bytes(limit.bytes_at_most())));
    }
    if policy.limits().len() > 1 {
        lines.push("All limits are charged, or none is; the first that refuses is named.".to_owned());
    }
    lines.push(
        match policy.mode() {
            Mode::Binary => "A request that does not fit as a whole is refused and costs nothing.",
            Mode::Nary => "A request that does not fit as a whole is granted in part.",
            Mode::Uniform => "A refused request counts too.",
        }
        .to_owned(),
    );
    lines
}

/// Formats a size for people, such as `12,345 bytes`.
fn bytes(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + " bytes"
}

/// The explanation of a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// The first instant at which the same request passes, if there is one.
    pub passes_at: Option<Timestamp>,
    /// The limits in policy order.
    pub limits: Vec<LimitExplanation>,
}

/// One limit's part in a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitExplanation {
    /// The name of the limit.
    pub name: String,
    /// The limit's part in the reply.
    pub detail: Detail,
    /// The standing of the limit before the decision.
    pub before: LimitStatus,
    /// The standing of the limit after the decision.
    pub after: LimitStatus,
}

/// The standing of a limit at one point in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitStatus {
    /// The units held against the limit.
    pub held: f64,
    /// The units left; negative if more was consumed than the limit allows.
    pub remaining: i64,
    /// The time until the limit is back in its initial state.
    pub reset_after: Micros,
    /// The time until the spacing lets the next request pass.
    pub spacing_wait: Micros,
}

/// Decides `request` as [`KeyState::decide`] does, and explains the decision.
pub fn explain(state: &mut KeyState, policy: &Policy, t: Timestamp, request: &Request) -> Explanation {
    let before = standings(state, policy, t);
    let (decision, details) = state.decide_full(policy, t, request);
    let after = standings(state, policy, t);
    let limits = policy.limits().iter().zip(details).zip(before.into_iter().zip(after));
    Explanation {
        decision,
        passes_at: if decision.allowed { Some(t) } else { decision.retry_after.span().map(|span| t.plus(span)) },
        limits: limits
            .map(|((limit, detail), (before, after))| LimitExplanation { name: limit.name(), detail, before, after })
            .collect(),
    }
}

fn standings(state: &mut KeyState, policy: &Policy, t: Timestamp) -> Vec<LimitStatus> {
    let cells = state.cells_of(policy, t);
    let each = policy.limits().iter().zip(cells.iter());
    each.map(|(limit, cell)| LimitStatus {
        held: limit.rule().held(cell.memory(), t),
        remaining: limit.remaining(cell, t),
        reset_after: limit.reset_after(cell, t),
        spacing_wait: limit.spacing().map_or(Micros::ZERO, |spacing| crate::spacing::wait(cell.last, t, spacing)),
    })
    .collect()
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decision = &self.decision;
        let refusing = decision.limited_by.and_then(|index| self.limits.get(index)).map_or("", |limit| &limit.name);
        match (decision.allowed, decision.limited_by) {
            (true, None) => write!(f, "allowed: {} granted, {} left", decision.granted, decision.remaining)?,
            (true, Some(_)) => {
                write!(f, "allowed in part: {} granted, the rest does not fit {refusing}", decision.granted)?;
            }
            (false, _) => match decision.retry_after {
                Wait::After(span) => write!(f, "refused by {refusing}: the same request passes in {span}")?,
                Wait::Never => write!(f, "refused by {refusing}: the request asks for more than can ever fit")?,
            },
        }
        for limit in &self.limits {
            let verdict = if limit.detail.fits { "fits" } else { "does not fit" };
            write!(f, "\n  {}: {verdict}; held {} ", limit.name, RoundedCount(limit.before.held))?;
            write!(f, "before, {} after; {} left", RoundedCount(limit.after.held), limit.after.remaining)?;
            if limit.before.spacing_wait > Micros::ZERO {
                write!(f, "; spaced for another {}", limit.before.spacing_wait)?;
            }
            if limit.after.reset_after > Micros::ZERO {
                write!(f, "; as new in {}", limit.after.reset_after)?;
            }
        }
        Ok(())
    }
}

/// A count with at most three decimals.
struct RoundedCount(f64);

impl fmt::Display for RoundedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", (self.0 * 1_000.0).round() / 1_000.0)
    }
}
