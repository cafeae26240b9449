//! SCRIPT, EVAL, EVALSHA: known scripts do what they do in Redis.

use super::dialects::CallArgs;
use super::forward::{ForwardRequest, forward, is_allowed};
use super::{CommandContext, HomeRequest};
use tollgate_keyspace::{Fault, FaultCode, quoted};
use tollgate_redis::ForwardedCommand;

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
    match ctx.shared.scripts.load(ctx.args.at(1), &mut ctx.session.script_view) {
        Ok((_, handler)) => handler.ask(ctx, &call_args, reads_only),
        Err(fault) => {
            let command = if reads_only { ForwardedCommand::EvalRo } else { ForwardedCommand::Eval };
            Ok(HomeRequest::Forward(Box::new(forward(ctx, command, &call_args.keys, fault)?)))
        }
    }
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
    match handler {
        Some(handler) => handler.ask(ctx, &call_args, reads_only),
        None if is_allowed(ctx) => {
            let command = if reads_only { ForwardedCommand::EvalShaRo } else { ForwardedCommand::EvalSha };
            Ok(HomeRequest::Forward(Box::new(ForwardRequest::new(ctx, command, &call_args.keys))))
        }
        // Clients send the text then, and are told the rest.
        None => Err(Fault::new(FaultCode::NoScript, "No matching script. Please use EVAL.")),
    }
}

/// `SCRIPT LOAD text`, `SCRIPT EXISTS sha1…`, `SCRIPT FLUSH [ASYNC|SYNC]`.
pub(super) fn script(ctx: &mut CommandContext<'_>) -> Result<Option<HomeRequest>, Fault> {
    let (args, scripts) = (ctx.args, &ctx.shared.scripts);
    match (args.at(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"LOAD", 3) => match scripts.load(args.at(2), &mut ctx.session.script_view) {
            Ok((sha, _)) => ctx.out.bulk(sha.as_bytes()),
            Err(fault) => {
                return Ok(Some(HomeRequest::Forward(Box::new(forward(ctx, ForwardedCommand::Script, &[], fault)?))));
            }
        },
        (b"EXISTS", 3..) => {
            let there = |sha| scripts.find(sha, &ctx.session.script_view).is_some();
            let known: Vec<bool> = args.iter().skip(2).map(there).collect();
            if known.contains(&false) && is_allowed(ctx) {
                let request = ForwardRequest::new(ctx, ForwardedCommand::Script, &[]).knowing(known);
                return Ok(Some(HomeRequest::Forward(Box::new(request))));
            }
            ctx.out.array(known.len());
            known.iter().for_each(|known| ctx.out.int(i64::from(*known)));
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
    Ok(None)
}

fn flush(ctx: &mut CommandContext<'_>) {
    ctx.session.script_view.flush();
    ctx.out.simple("OK");
}
