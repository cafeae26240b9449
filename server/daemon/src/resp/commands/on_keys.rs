//! Commands on keys are run where the keys are, and audited where they take something from a limiter.

use std::sync::Arc;

use super::table::KeyHandler;
use super::{Args, CommandContext, audit, missing_scope};
use crate::access::Scope;
use crate::resp::session::Session;
use crate::resp::writer::RespWriter;
use crate::shared::ServerState;
use tollgate_engine::LockedKeys;
use tollgate_keyspace::{Fault, KeyCommand, KeyFailure, KeyOutcome, shown};
use tollgate_telemetry::audit::{AuditAction, AuditOutcome};

/// Runs a command on the keys of this process. `keys` are those that the caller already holds.
pub(super) fn run(
    ctx: &mut CommandContext<'_>,
    handler: &KeyHandler,
    keys: Option<&mut LockedKeys<'_>>,
) -> Result<(), Fault> {
    let command = (handler.parse)(&ctx.args)?;
    let (db, may_reset, now) = (ctx.session.db, ctx.session.scopes.has(Scope::Reset), ctx.shared.engine.times());
    let outcome = match keys {
        Some(keys) => keys.run(|keys| keys.run_command(db, &command, may_reset, now)),
        None => ctx.shared.engine.on_keys(|keys| keys.run_command(db, &command, may_reset, now)),
    };
    tell(ctx, handler, &command, outcome);
    Ok(())
}

/// Runs a command where the keys are.
pub(crate) async fn ask(ctx: &mut CommandContext<'_>, handler: &KeyHandler) {
    let command = match (handler.parse)(&ctx.args) {
        Ok(command) => command,
        Err(fault) => return ctx.out.fault(&fault),
    };
    let (db, may_reset) = (ctx.session.db, ctx.session.scopes.has(Scope::Reset));
    let outcomes = ctx.shared.engine.run_commands(db, may_reset, std::slice::from_ref(&command)).await;
    outcomes.into_iter().for_each(|outcome| tell(ctx, handler, &command, outcome));
}

/// A command of several, or why it is not run.
pub(crate) type AdmittedCommand<'a> = (&'static KeyHandler, Result<Args<'a>, Fault>);

/// Runs several commands where the keys are, as one step if that is possible, and writes their replies in order. A
/// command that is not valid is answered with its fault, and the others are run.
pub(crate) async fn ask_all(
    shared: &Arc<ServerState>,
    session: &mut Session,
    out: &mut RespWriter,
    commands: &[AdmittedCommand<'_>],
) {
    let parsed: Vec<Result<KeyCommand<'_>, Fault>> = commands.iter().map(parse).collect();
    let valid: Vec<KeyCommand<'_>> = parsed.iter().flatten().cloned().collect();
    let (db, may_reset) = (session.db, session.scopes.has(Scope::Reset));
    let mut outcomes = shared.engine.run_commands(db, may_reset, &valid).await.into_iter();
    for ((handler, args), command) in commands.iter().zip(&parsed) {
        match (args, command) {
            (Ok(args), Ok(command)) => {
                let outcome = outcomes.next().unwrap_or_else(|| Fault::wrong("not run").into());
                tell(&mut CommandContext { args: *args, session, shared, out }, handler, command, outcome);
            }
            (_, Err(fault)) | (Err(fault), _) => out.fault(fault),
        }
    }
}

fn parse<'a>((handler, args): &AdmittedCommand<'a>) -> Result<KeyCommand<'a>, Fault> {
    args.as_ref().map_err(Clone::clone).and_then(handler.parse)
}

/// Writes the reply, and audits what was taken from limiters, or was not.
fn tell(ctx: &mut CommandContext<'_>, handler: &KeyHandler, command: &KeyCommand<'_>, outcome: KeyOutcome) {
    let KeyOutcome { result, limiters } = outcome;
    let result = result.map_err(|failure| match failure {
        KeyFailure::NeedsReset => (missing_scope(Scope::Reset.name(), ctx.session), true),
        KeyFailure::Fault(fault) => (fault, false),
    });
    let outcome = match &result {
        Ok(_) => AuditOutcome::Done,
        Err((fault, true)) => AuditOutcome::Refused(&fault.text),
        Err((fault, false)) => AuditOutcome::Failed(&fault.text),
    };
    let db = ctx.session.db;
    if matches!(command, KeyCommand::Flush) {
        audit(ctx.shared, ctx.session, AuditAction::Flush, ("", None), outcome, &format!("database {db}"));
    } else if !limiters.is_empty() {
        let detail = format!("{} in database {db}", shown(&ctx.args.at(0).to_ascii_uppercase()));
        let record =
            |key: &Vec<u8>| audit(ctx.shared, ctx.session, AuditAction::Reset, ("", Some(key)), outcome, &detail);
        limiters.iter().for_each(record);
    }
    match result {
        Ok(reply) => (handler.tell)(reply, ctx.out),
        Err((fault, _)) => ctx.out.fault(&fault),
    }
}
