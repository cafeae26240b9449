//! Tollgate's own commands: TG.CHECK, TG.PEEK, TG.RESET, TG.REFUND, TG.EXPLAIN, TG.USAGE, TG.CHECKALL.

use tollgate_kernel::{Cost, EXACT, Timestamp};

use super::options::{Options, Takes, cost, whole};
use super::{Args, Asked, Form, Turn};
use crate::shared::Shared;
use tollgate_engine::{Ask, Generation, Part, Question, Tells};
use tollgate_keyspace::{Fault, quoted};

/// The largest number of parts of one TG.CHECKALL.
const MAX_PARTS: usize = 32;

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

/// Parses what a check asks, and whether it wants the source.
pub(crate) fn read_check(args: &Args<'_>, shared: &Shared, peek: bool) -> Result<(Ask, bool), Fault> {
    let (options, _) = Options::read(args, 3, Takes::All)?;
    let part = part(args, shared, &shared.engine.generation(), 1, &options)?;
    Ok((Ask { part, mode: options.mode, peek, tells: options.tells.unwrap_or_default() }, options.source))
}

pub(super) fn explain(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    let (options, _) = Options::read(&turn.args, 3, Takes::Asking)?;
    let part = one(turn, &options)?;
    let ask = Ask { part, mode: options.mode, peek: true, tells: Tells::Full };
    Ok(Asked::Question(Question::Check(ask), Form::Explained))
}

pub(super) fn reset(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    let (options, _) = Options::read(&turn.args, 3, Takes::Name)?;
    let question = Question::Reset(one(turn, &options)?);
    Ok(Asked::Reset(Box::new((question, turn.session.by()))))
}

pub(super) fn refund(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    let (options, _) = Options::read(&turn.args, 5, Takes::Name)?;
    let part = one(turn, &options)?;
    let units = cost("n", turn.args.at(3))?;
    let at = Timestamp::saturating(whole("at_us", turn.args.at(4), EXACT - 1)?);
    Ok(Asked::Question(Question::Refund { part, units, at }, Form::Integers { source: false }))
}

/// `TG.USAGE key policy`: requests, refused, units, first_us, last_us.
pub(super) fn usage(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let engine = &turn.shared.engine;
    let Part { known, key, .. } = one(turn, &Options::default())?;
    let used = engine.used(&known, &key).ok_or_else(|| {
        let found = quoted(turn.args.at(2));
        Fault::wrong(format!("policy: expected one with usage: true in the policy file, found {found}"))
    })?;
    turn.out.array(5);
    for number in [used.requests, used.refused, used.units, used.first.get(), used.last.get()] {
        turn.out.int(i64::try_from(number).unwrap_or(i64::MAX));
    }
    Ok(())
}

pub(super) fn check_all(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    let (mut parts, mut at) = (Vec::new(), 1);
    let generation = turn.shared.engine.generation();
    loop {
        if turn.args.len() < at + 2 {
            return Err(Fault::wrong("syntax error: expected a key and a policy, and more of them behind AND"));
        }
        let (options, end) = Options::read(&turn.args, at + 2, Takes::Part)?;
        parts.push(part(&turn.args, turn.shared, &generation, at, &options)?);
        if parts.len() > MAX_PARTS {
            return Err(Fault::wrong(format!("expected 1 to {MAX_PARTS} parts")));
        }
        if end == turn.args.len() {
            return Ok(Asked::Question(Question::All(parts), Form::Integers { source: true }));
        }
        at = end + 1;
    }
}

/// Returns the key and the policy of a command that has one of each.
fn one(turn: &Turn<'_>, options: &Options<'_>) -> Result<Part, Fault> {
    part(&turn.args, turn.shared, &turn.shared.engine.generation(), 1, options)
}

/// Returns the key at `at` and the policy behind it.
fn part(
    args: &Args<'_>,
    shared: &Shared,
    generation: &Generation,
    at: usize,
    options: &Options<'_>,
) -> Result<Part, Fault> {
    let known = shared.engine.policy_of(generation, args.at(at + 1), options.name)?;
    let key = args.at(at).to_vec();
    tollgate_kernel::StoreError::check_key(&key)?;
    Ok(Part { known, key, cost: options.cost.unwrap_or(Cost::ONE) })
}
