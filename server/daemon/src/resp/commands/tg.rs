//! Tollgate's own commands: TG.CHECK, TG.PEEK, TG.RESET, TG.REFUND, TG.EXPLAIN, TG.USAGE, TG.CHECKALL.

use tollgate_kernel::{Cost, EXACT, Timestamp};

use super::options::{CommandOptions, OptionSet, cost, whole};
use super::{Args, CommandContext, HomeRequest, ReplyForm};
use crate::shared::ServerState;
use tollgate_engine::{DetailLevel, EngineCheck, EngineQuestion, PolicyGeneration, QuestionPart};
use tollgate_keyspace::{Fault, quoted};

/// The largest number of parts of one TG.CHECKALL.
const MAX_PARTS: usize = 32;

pub(super) fn check(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    decide(ctx, false)
}

pub(super) fn peek(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    decide(ctx, true)
}

fn decide(ctx: &mut CommandContext<'_>, peek: bool) -> Result<HomeRequest, Fault> {
    let (ask, source) = parse_check(&ctx.args, ctx.shared, peek)?;
    Ok(HomeRequest::Question(EngineQuestion::Check(ask), ReplyForm::Integers { source }))
}

/// Parses what a check asks, and whether it wants the source.
pub(crate) fn parse_check(args: &Args<'_>, shared: &ServerState, peek: bool) -> Result<(EngineCheck, bool), Fault> {
    let (options, _) = CommandOptions::parse(args, 3, OptionSet::All)?;
    let part = part(args, shared, &shared.engine.generation(), 1, &options)?;
    Ok((EngineCheck { part, mode: options.mode, peek, detail: options.tells.unwrap_or_default() }, options.source))
}

pub(super) fn explain(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    let (options, _) = CommandOptions::parse(&ctx.args, 3, OptionSet::Asking)?;
    let part = key_part(ctx, &options)?;
    let ask = EngineCheck { part, mode: options.mode, peek: true, detail: DetailLevel::Full };
    Ok(HomeRequest::Question(EngineQuestion::Check(ask), ReplyForm::Explanation))
}

pub(super) fn reset(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    let (options, _) = CommandOptions::parse(&ctx.args, 3, OptionSet::Name)?;
    let question = EngineQuestion::Reset(key_part(ctx, &options)?);
    Ok(HomeRequest::Reset(Box::new((question, ctx.session.by()))))
}

pub(super) fn refund(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    let (options, _) = CommandOptions::parse(&ctx.args, 5, OptionSet::Name)?;
    let part = key_part(ctx, &options)?;
    let units = cost("n", ctx.args.at(3))?;
    let at = Timestamp::saturating(whole("at_us", ctx.args.at(4), EXACT - 1)?);
    Ok(HomeRequest::Question(EngineQuestion::Refund { part, units, at }, ReplyForm::Integers { source: false }))
}

/// `TG.USAGE key policy`: requests, refused, units, first_us, last_us.
pub(super) fn usage(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let engine = &ctx.shared.engine;
    let QuestionPart { known, key, .. } = key_part(ctx, &CommandOptions::default())?;
    let used = engine.usage_of(&known, &key).ok_or_else(|| {
        let found = quoted(ctx.args.at(2));
        Fault::wrong(format!("policy: expected one with usage: true in the policy file, found {found}"))
    })?;
    ctx.out.array(5);
    for number in [used.requests, used.refused, used.units, used.first.get(), used.last.get()] {
        ctx.out.int(i64::try_from(number).unwrap_or(i64::MAX));
    }
    Ok(())
}

pub(super) fn check_all(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    let (mut parts, mut at) = (Vec::new(), 1);
    let generation = ctx.shared.engine.generation();
    loop {
        if ctx.args.len() < at + 2 {
            return Err(Fault::wrong("syntax error: expected a key and a policy, and more of them behind AND"));
        }
        let (options, end) = CommandOptions::parse(&ctx.args, at + 2, OptionSet::Part)?;
        parts.push(part(&ctx.args, ctx.shared, &generation, at, &options)?);
        if parts.len() > MAX_PARTS {
            return Err(Fault::wrong(format!("expected 1 to {MAX_PARTS} parts")));
        }
        if end == ctx.args.len() {
            return Ok(HomeRequest::Question(EngineQuestion::All(parts), ReplyForm::Integers { source: true }));
        }
        at = end + 1;
    }
}

/// Returns the key and the policy of a command that has one of each.
fn key_part(ctx: &CommandContext<'_>, options: &CommandOptions<'_>) -> Result<QuestionPart, Fault> {
    part(&ctx.args, ctx.shared, &ctx.shared.engine.generation(), 1, options)
}

/// Returns the key at `at` and the policy behind it.
fn part(
    args: &Args<'_>,
    shared: &ServerState,
    generation: &PolicyGeneration,
    at: usize,
    options: &CommandOptions<'_>,
) -> Result<QuestionPart, Fault> {
    let known = shared.engine.policy_of(generation, args.at(at + 1), options.name)?;
    let key = args.at(at).to_vec();
    tollgate_kernel::StoreError::check_key(&key)?;
    Ok(QuestionPart { known, key, cost: options.cost.unwrap_or(Cost::ONE) })
}
