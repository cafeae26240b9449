//! SCRIPT, EVAL, EVALSHA: known scripts do what they do in Redis.

use super::dialects::CallArgs;
use super::{CommandContext, HomeRequest};
use tollgate_keyspace::{Fault, FaultCode, quoted};

/// The error of Redis for a number of keys that is not a number.
const NUMBER: &str = "value is not an integer or out of range";

/// `EVAL script numkeys key… arg…`.
pub(super) fn eval(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    by_text(ctx, false)
}

pub(super) fn eval_ro(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    by_text(ctx, true)
}

fn by_text(ctx: &mut CommandContext<'_>, reads_only: bool) -> Result<HomeRequest, Fault> {
    let call_args = CallArgs::parse(ctx, NUMBER)?;
    let (_, handler) = ctx.shared.scripts.load(ctx.args.at(1), &mut ctx.session.script_view)?;
    handler.ask(ctx, &call_args, reads_only)
}

/// `EVALSHA sha1 numkeys key… arg…`.
pub(super) fn evalsha(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    by_sha(ctx, false)
}

pub(super) fn evalsha_ro(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    by_sha(ctx, true)
}

fn by_sha(ctx: &mut CommandContext<'_>, reads_only: bool) -> Result<HomeRequest, Fault> {
    let call_args = CallArgs::parse(ctx, NUMBER)?;
    let handler = ctx.shared.scripts.find(ctx.args.at(1), &ctx.session.script_view);
    let handler = handler.ok_or_else(|| Fault::new(FaultCode::NoScript, "No matching script. Please use EVAL."))?;
    handler.ask(ctx, &call_args, reads_only)
}

/// `SCRIPT LOAD text`, `SCRIPT EXISTS sha1…`, `SCRIPT FLUSH [ASYNC|SYNC]`.
pub(super) fn script(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let (args, scripts) = (ctx.args, &ctx.shared.scripts);
    match (args.at(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"LOAD", 3) => {
            let (sha, _) = scripts.load(args.at(2), &mut ctx.session.script_view)?;
            ctx.out.bulk(sha.as_bytes());
        }
        (b"EXISTS", 3..) => {
            ctx.out.array(args.len() - 2);
            let there = |sha| scripts.find(sha, &ctx.session.script_view).is_some();
            args.iter().skip(2).for_each(|sha| ctx.out.int(i64::from(there(sha))));
        }
        (b"FLUSH", 2) => flush(ctx),
        (b"FLUSH", 3) if args.is(2, "ASYNC") || args.is(2, "SYNC") => flush(ctx),
        (b"FLUSH", _) => return Err(Fault::wrong("SCRIPT FLUSH only support SYNC|ASYNC option")),
        (b"KILL", 2) => ctx.out.error("NOTBUSY No scripts in execution right now."),
        (b"LOAD" | b"EXISTS" | b"KILL", _) => {
            let name = String::from_utf8_lossy(args.at(1)).to_ascii_lowercase();
            return Err(Fault::wrong(format!("wrong number of arguments for 'script|{name}' command")));
        }
        _ => {
            let known = "LOAD, EXISTS, FLUSH or KILL";
            return Err(Fault::wrong(format!("unknown subcommand {}. Expected SCRIPT {known}", quoted(args.at(1)))));
        }
    }
    Ok(())
}

fn flush(ctx: &mut CommandContext<'_>) {
    ctx.session.script_view.flush();
    ctx.out.simple("OK");
}
