//! The commands of our own: TG.CHECK, TG.PEEK, TG.RESET, TG.REFUND, TG.EXPLAIN, TG.CHECKALL.

use tollgate_core::{Cost, Decision, Detail, EXACT, Timestamp, Wait};

use super::options::{Options, Takes, cost, whole};
use super::{Args, Asked, Form, Turn, detail_line};
use crate::desk::{Ask, Part, Question, Tells};
use crate::fault::Fault;
use crate::shared::Shared;

/// The most parts of one TG.CHECKALL.
const MOST_PARTS: usize = 32;

pub(super) fn check(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    decide(turn, false)
}

pub(super) fn peek(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    decide(turn, true)
}

fn decide(turn: &mut Turn<'_>, peek: bool) -> Result<Asked, Fault> {
    let (ask, source) = read_check(&turn.args, turn.shared, peek)?;
    Ok(Asked::Question(Question::Check(ask), Form::Integers { source }))
}

/// What a check asks, and whether the source is told.
pub(crate) fn read_check(args: &Args<'_>, shared: &Shared, peek: bool) -> Result<(Ask, bool), Fault> {
    let (options, _) = Options::read(args, 3, Takes::All)?;
    let part = part(args, shared, 1, &options)?;
    Ok((Ask { part, mode: options.mode, peek, tells: options.tells.unwrap_or_default() }, options.source))
}

pub(super) fn explain(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    let (options, _) = Options::read(&turn.args, 3, Takes::Asking)?;
    let part = part(&turn.args, turn.shared, 1, &options)?;
    let ask = Ask { part, mode: options.mode, peek: true, tells: Tells::Full };
    Ok(Asked::Question(Question::Check(ask), Form::Explained))
}

pub(super) fn reset(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    let (options, _) = Options::read(&turn.args, 3, Takes::Name)?;
    Ok(Asked::Question(Question::Reset(part(&turn.args, turn.shared, 1, &options)?), Form::Integers { source: false }))
}

pub(super) fn refund(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    let (options, _) = Options::read(&turn.args, 5, Takes::Name)?;
    let part = part(&turn.args, turn.shared, 1, &options)?;
    let units = cost("n", turn.args.at(3))?;
    let at = Timestamp::saturating(whole("at_us", turn.args.at(4), EXACT - 1)?);
    Ok(Asked::Question(Question::Refund { part, units, at }, Form::Integers { source: false }))
}

pub(super) fn check_all(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    let (mut parts, mut at) = (Vec::new(), 1);
    loop {
        if turn.args.len() < at + 2 {
            return Err(Fault::wrong("syntax error: expected a key and a policy, and more of them behind AND"));
        }
        let (options, end) = Options::read(&turn.args, at + 2, Takes::Part)?;
        parts.push(part(&turn.args, turn.shared, at, &options)?);
        if parts.len() > MOST_PARTS {
            return Err(Fault::wrong(format!("expected 1 to {MOST_PARTS} parts")));
        }
        if end == turn.args.len() {
            return Ok(Asked::Question(Question::All(parts), Form::Integers { source: true }));
        }
        at = end + 1;
    }
}

/// The key at `at` and the policy behind it.
fn part(args: &Args<'_>, shared: &Shared, at: usize, options: &Options<'_>) -> Result<Part, Fault> {
    let known = shared.desk.policy(args.at(at + 1), options.name)?;
    let key = args.at(at).to_vec();
    tollgate_core::StoreError::check_key(&key)?;
    Ok(Part { known, key, cost: options.cost.unwrap_or(Cost::ONE) })
}

/// A decision in words: what the policy promises, how each limit stands, and what comes of it.
pub(super) fn explained(ask: &Ask, decision: &Decision, details: &[Detail]) -> String {
    let policy = &ask.part.known.policy;
    let mut lines = tollgate_core::promises(policy);
    lines.push(String::new());
    let units = ask.part.cost.get();
    lines.push(format!("now, asked for {units} unit{}:", if units == 1 { "" } else { "s" }));
    for (limit, detail) in policy.limits().iter().zip(details) {
        lines.push(format!("  {}", detail_line(&limit.to_string(), detail)));
    }
    lines.push(match (decision.allowed, decision.retry_after) {
        (true, _) => format!("allowed: {} would be granted", decision.granted),
        (false, Wait::After(span)) => format!("denied: it would first pass in {span}, if nobody else comes"),
        (false, Wait::Never) => "denied: it can never fit".to_owned(),
    });
    lines.join("\n")
}
