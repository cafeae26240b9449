//! The calling conventions of other limiters: `FCALL name numkeys key… arg…` and CL.THROTTLE.

use tollgate_dialects::{Action, Dialect, Output, Wording};
use tollgate_engine::LockedKeys;
use tollgate_kernel::Source;

use super::dialect_watch::DialectWatch;
use super::forward::forward;
use super::{CommandContext, HomeRequest, may_reset, native};
use crate::resp::writer::RespWriter;
use crate::shared::ServerState;
use tollgate_keyspace::{DialectCall, Fault};
use tollgate_redis::ForwardedCommand;
use tollgate_telemetry::audit::{AuditAction, AuditActor, AuditEvent, AuditOutcome};

/// The keys and arguments of a call.
pub(super) struct CallArgs<'a> {
    pub(super) keys: Vec<&'a [u8]>,
    pub(super) args: Vec<&'a [u8]>,
}

impl<'a> CallArgs<'a> {
    /// Parses `… numkeys key… arg…`, with the number in the second place.
    pub(super) fn parse(ctx: &CommandContext<'a>, wrong: &str) -> Result<Self, Fault> {
        let number = tollgate_keyspace::number(ctx.args.at(2)).ok_or_else(|| Fault::wrong(wrong))?;
        let number = usize::try_from(number).map_err(|_| Fault::wrong("Number of keys can't be negative"))?;
        if number > ctx.args.len().saturating_sub(3) {
            return Err(Fault::wrong("Number of keys can't be greater than number of args"));
        }
        let keys = ctx.args.iter().skip(3).take(number).collect();
        Ok(Self { keys, args: ctx.args.iter().skip(3 + number).collect() })
    }
}

/// `FCALL function numkeys key… arg…`.
pub(super) fn fcall(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    call(ctx, false)
}

/// The same for functions that only read.
pub(super) fn fcall_ro(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    call(ctx, true)
}

fn call(ctx: &mut CommandContext<'_>, reads_only: bool) -> Result<HomeRequest, Fault> {
    let args = CallArgs::parse(ctx, "Bad number of keys provided")?;
    let Some(function) = ctx.shared.scripts.function(ctx.args.at(1)) else {
        let command = if reads_only { ForwardedCommand::FcallRo } else { ForwardedCommand::Fcall };
        let fault = Fault::wrong("Function not found");
        return Ok(HomeRequest::Forward(Box::new(forward(ctx, command, &args.keys, fault)?)));
    };
    function.ask(ctx, &args, reads_only)
}

/// The behaviour of a function or a script.
#[derive(Clone, Copy, Debug)]
pub(super) enum ScriptHandler {
    /// It speaks a dialect, in this wording.
    Dialect(&'static Dialect, Wording),
    /// It is one of Tollgate's own calls.
    Native(&'static tollgate_redis::lua::LuaCall),
}

impl ScriptHandler {
    /// Returns the request of a call; `reads_only` if the caller allows no writes.
    pub(super) fn ask(
        self,
        ctx: &mut CommandContext<'_>,
        args: &CallArgs<'_>,
        reads_only: bool,
    ) -> Result<HomeRequest, Fault> {
        if reads_only && !matches!(self, Self::Native(call) if call.reads_only) {
            return Err(Fault::wrong("Can not execute a script with write flag using *_ro command."));
        }
        match self {
            Self::Native(call) => native::ask(ctx, call, args),
            Self::Dialect(dialect, wording) => dialect_request(ctx, dialect, wording, args),
        }
    }
}

fn dialect_request(
    ctx: &CommandContext<'_>,
    dialect: &'static Dialect,
    wording: Wording,
    args: &CallArgs<'_>,
) -> Result<HomeRequest, Fault> {
    let call = (dialect.parse)(&args.keys, &args.args)?.speaking(wording);
    let resets = *call.action() == Action::Reset;
    let own = |all: &[&[u8]]| all.iter().map(|one| one.to_vec()).collect();
    let (keys, args) = (own(&args.keys), own(&args.args));
    let call = DialectCall { dialect, call, db: ctx.session.db, keys, args, wording };
    let request = DialectRequest { call, resets_by: resets.then(|| ctx.session.by()) };
    if resets {
        may_reset(ctx.session).inspect_err(|fault| request.audit(ctx.shared, AuditOutcome::Refused(&fault.text)))?;
    }
    Ok(HomeRequest::Dialect(Box::new(request)))
}

/// A call of a dialect, and its caller if it resets.
#[derive(Debug)]
pub(crate) struct DialectRequest {
    pub(super) call: DialectCall,
    resets_by: Option<AuditActor>,
}

impl DialectRequest {
    /// Reports a reset to the audit log.
    pub(super) fn audit(&self, shared: &ServerState, outcome: AuditOutcome<'_>) {
        let Some(actor) = &self.resets_by else { return };
        let DialectCall { dialect, db, keys, .. } = &self.call;
        let (key, detail) = (keys.first().map(Vec::as_slice), format!("{} in database {db}", dialect.name));
        let event = AuditEvent { action: AuditAction::Reset, actor, policy: "", key, outcome, detail: &detail };
        shared.engine.audit().record(&event);
    }
}

/// `CL.THROTTLE key max_burst count period [quantity]`, redis-cell's command.
pub(super) fn throttle(ctx: &mut CommandContext<'_>) -> Result<HomeRequest, Fault> {
    let dialect = tollgate_dialects::find("cl.throttle").ok_or_else(|| Fault::wrong("CL.THROTTLE is not known"))?;
    let args = CallArgs { keys: vec![ctx.args.at(1)], args: ctx.args.iter().skip(2).collect() };
    dialect_request(ctx, dialect, Wording::Document, &args)
}

/// Decides a call in this server, on keys that are held if they are given, and writes the reply.
pub(super) fn decide_now(
    shared: &ServerState,
    request: &DialectRequest,
    keys: Option<&mut LockedKeys<'_>>,
    out: &mut RespWriter,
) {
    let (watch, call) = (DialectWatch::begin(shared, request), &request.call);
    let decided = keys.map_or_else(|| shared.engine.decide_call(call), |keys| keys.decide_call(call));
    watch.end(decided.as_ref().map(|reply| (reply.values(), Source::Home)));
    match decided {
        Ok(reply) => out.reply(&reply),
        Err(fault) => out.fault(&fault),
    }
}

/// Decides a call where the keys are.
pub(super) async fn ask(shared: &ServerState, request: &DialectRequest, out: &mut RespWriter) {
    if shared.engine.answers_at_once() {
        return decide_now(shared, request, None, out);
    }
    let watch = DialectWatch::begin(shared, request);
    let answer = shared.engine.ask_call(&request.call).await;
    watch.end(answer.as_ref().map(|answer| (answer.output.values(), answer.source)));
    match answer.map(|answer| answer.output) {
        Ok(output) => write_output(&output, out),
        Err(fault) => out.fault(&fault),
    }
}

fn write_output(output: &Output, out: &mut RespWriter) {
    match output {
        Output::Nothing => out.nil(),
        Output::Integer(number) => out.int(*number),
        Output::Text(text) => out.bulk(text),
        Output::List(parts) => {
            out.array(parts.len());
            parts.iter().for_each(|part| write_output(part, out));
        }
    }
}
