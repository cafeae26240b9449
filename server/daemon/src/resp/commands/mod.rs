//! The commands, and how one of them is run.
//!
//! | file | what it is |
//! |---|---|
//! | `table.rs` | every command: its name, arguments, scope and handler |
//! | `tg.rs`, `options.rs` | Tollgate's own commands, and their options |
//! | `explanation.rs` | a decision in words |
//! | `keys.rs`, `expire.rs` | plain keys: GET, SET, INCR, EXPIRE, SCAN, … |
//! | `on_keys.rs` | how these are run where the keys are, and audited |
//! | `dialects.rs`, `dialect_watch.rs` | the conventions of other limiters: FCALL, CL.THROTTLE; what operators see of them |
//! | `native.rs`, `compact.rs` | Tollgate's own functions and scripts, and the policies their clients send |
//! | `scripts.rs`, `functions.rs`, `script_registry.rs` | EVAL, SCRIPT, FUNCTION, and the scripts and libraries known |
//! | `forward.rs` | scripts and functions that are not known, for a store to run |
//! | `hello.rs`, `client.rs` | the state of a connection: HELLO, AUTH, SELECT, RESET; CLIENT, PING, MULTI, … |
//! | `server.rs`, `info.rs`, `config.rs` | the state of the server: TIME, ROLE; INFO; CONFIG GET |
//! | `cluster.rs` | the server as a cluster of one node: CLUSTER, READONLY |
//! | `command.rs`, `docs.rs` | the commands themselves: COMMAND, and their documentation |

mod client;
mod cluster;
mod command;
mod compact;
mod config;
mod dialect_watch;
mod dialects;
mod docs;
mod expire;
mod explanation;
mod forward;
mod functions;
mod hello;
mod info;
mod keys;
mod native;
pub(crate) mod on_keys;
mod options;
mod script_registry;
mod scripts;
mod server;
pub(crate) mod table;
mod tg;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use tollgate_kernel::Decision;

use crate::access::Scope;
use crate::resp::decode::ArgSpan;
use crate::resp::session::Session;
use crate::resp::writer::RespWriter;
use crate::shared::ServerState;
use crate::spans;
pub(crate) use dialects::DialectRequest;
use forward::ForwardRequest;
pub use script_registry::ScriptAlias;
pub(crate) use script_registry::{ScriptRegistry, ScriptView};
pub(crate) use table::{CommandHandler, KeyHandler, RespCommand, find};
pub(crate) use tg::parse_check;
use tollgate_engine::{DetailLevel, EngineAnswer, EngineQuestion, LockedKeys};
use tollgate_keyspace::{Fault, FaultCode};
use tollgate_telemetry::audit::{AuditAction, AuditActor, AuditEvent, AuditOutcome};

/// The arguments of a command, its name first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) spans: &'a [ArgSpan],
}

impl<'a> Args<'a> {
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns the argument at an index; empty if there is none.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.get(index).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.spans.get(index)?.clone())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Self { bytes, spans } = *self;
        spans.iter().map(move |span| bytes.get(span.clone()).unwrap_or_default())
    }

    /// Returns whether the argument at an index is this word, in either case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// The context that a command is run with.
pub(crate) struct CommandContext<'a> {
    pub(crate) args: Args<'a>,
    pub(crate) session: &'a mut Session,
    pub(crate) shared: &'a Arc<ServerState>,
    pub(crate) out: &'a mut RespWriter,
}

/// A request of a command to the home.
#[derive(Debug)]
pub(crate) enum HomeRequest {
    /// A question, and the form of its reply.
    Question(EngineQuestion, ReplyForm),
    /// A reset of a key, and its caller.
    Reset(Box<(EngineQuestion, AuditActor)>),
    /// A call of a dialect.
    Dialect(Box<DialectRequest>),
    /// A script or function that the store is to run.
    Forward(Box<ForwardRequest>),
}

impl HomeRequest {
    /// Returns the number of limits it asks about; `None` for a call of a dialect, which touches keys.
    pub(crate) fn limits(&self) -> Option<usize> {
        match self {
            Self::Question(question, _) => Some(question.limits()),
            Self::Reset(reset) => Some(reset.0.limits()),
            Self::Dialect(_) => None,
            Self::Forward(_) => Some(0),
        }
    }
}

/// The form of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyForm {
    /// Integers; `source` adds the name of the home or stand-in that decided.
    Integers {
        /// Whether the source is included.
        source: bool,
    },
    /// A text for people.
    Explanation,
}

/// The error of arguments that are not valid, in the words of Redis.
const SYNTAX: &str = "syntax error";

/// Finds a command, or the subcommand that its second word names, and checks that it may be run: the number of its
/// arguments is right, and the connection has its scope.
pub(crate) fn admit(args: &Args<'_>, session: &Session) -> Result<&'static RespCommand, Fault> {
    let mut command = find(args.at(0)).ok_or_else(|| table::unknown(args))?;
    if !command.parts.is_empty() && args.len() > 1 {
        command = command.part(args.at(1)).ok_or_else(|| table::unknown_part(command, args.at(1)))?;
    }
    if !command.takes(args.len()) {
        let name = command.name.to_ascii_lowercase();
        let usage = command.usage;
        return Err(Fault::wrong(format!("wrong number of arguments for '{name}' command; expected {usage}")));
    }
    match command.scope {
        Some(scope) if !session.scopes.has(scope) => Err(missing_scope(scope.name(), session)),
        _ => Ok(command),
    }
}

/// Reports to the audit log that a command was refused whose scope is to reset.
pub(crate) fn audit_refusal(args: &Args<'_>, session: &Session, shared: &ServerState, fault: &Fault) {
    if !matches!(fault.code, FaultCode::NoAuth | FaultCode::NoPerm) {
        return;
    }
    let Some(command) = find(args.at(0)).filter(|command| command.scope == Some(Scope::Reset)) else { return };
    let is_key = command.keys.0 == 1;
    let (what, key) = if is_key { (AuditAction::Reset, args.get(1)) } else { (AuditAction::Flush, None) };
    let policy = args.get(2).filter(|_| is_key).map(tollgate_keyspace::shown).unwrap_or_default();
    audit(shared, session, what, (&policy, key), AuditOutcome::Refused(&fault.text), command.name);
}

/// Reports to the audit log what a connection did or attempted.
fn audit(
    shared: &ServerState,
    session: &Session,
    what: AuditAction,
    (policy, key): (&str, Option<&[u8]>),
    outcome: AuditOutcome<'_>,
    detail: &str,
) {
    let by = &session.by();
    shared.engine.audit().record(&AuditEvent { action: what, actor: by, policy, key, outcome, detail });
}

fn missing_scope(scope: &str, session: &Session) -> Fault {
    if session.scopes.is_none() {
        return Fault::new(
            FaultCode::NoAuth,
            "Authentication required: AUTH token, with a token that the server was given",
        );
    }
    let has = session.scopes;
    // Tokens made before `refund` was a scope of its own lack it.
    let hint = if scope == Scope::Refund.name() { "; add refund to the token's scopes" } else { "" };
    Fault::new(
        FaultCode::NoPerm,
        format!("expected a token with the scope {scope}: AUTH token; this connection has {has}{hint}"),
    )
}

/// Runs a command that answers at once; returns a request that has to wait for its answer. `keys` are those that the
/// caller already holds.
pub(crate) fn run_now(
    command: &RespCommand,
    ctx: &mut CommandContext<'_>,
    keys: Option<&mut LockedKeys<'_>>,
) -> Option<HomeRequest> {
    let done = match (&command.handler, keys) {
        (CommandHandler::Plain(run), _) => run(ctx),
        (CommandHandler::OnKeys(handler), keys) => on_keys::run(ctx, handler, keys),
        (CommandHandler::Inspect(run), Some(keys)) => keys.run(|keys| run(ctx, keys)),
        (CommandHandler::Inspect(run), None) => {
            let shared = ctx.shared;
            shared.engine.on_keys(|keys| run(ctx, keys))
        }
        // The connection runs it, since it runs the queued commands.
        (CommandHandler::Exec, _) => Ok(()),
        (CommandHandler::AskHome(ask), _) => match ask(ctx) {
            Ok(request) => return Some(request),
            Err(fault) => Err(fault),
        },
        (CommandHandler::MayAsk(ask), _) => match ask(ctx) {
            Ok(None) => Ok(()),
            Ok(request) => return request,
            Err(fault) => Err(fault),
        },
    };
    if let Err(fault) = done {
        ctx.out.fault(&fault);
    }
    None
}

/// Checks that a connection may reset.
fn may_reset(session: &Session) -> Result<(), Fault> {
    if session.scopes.has(Scope::Reset) { Ok(()) } else { Err(missing_scope(Scope::Reset.name(), session)) }
}

/// Checks that a connection may refund.
fn may_refund(session: &Session) -> Result<(), Fault> {
    if session.scopes.has(Scope::Refund) { Ok(()) } else { Err(missing_scope(Scope::Refund.name(), session)) }
}

/// Asks a home that answers at once, with the keys held if the request touches them; returns whether it was asked.
pub(crate) fn ask_now(
    shared: &ServerState,
    request: &HomeRequest,
    keys: Option<&mut LockedKeys<'_>>,
    out: &mut RespWriter,
) -> bool {
    if !shared.engine.answers_at_once() {
        return false;
    }
    match request {
        HomeRequest::Dialect(call) => {
            // The keys are not locked again, since the caller holds them.
            let Some(keys) = keys else { return false };
            dialects::decide_now(shared, call, Some(keys), out);
        }
        // Only a store runs them.
        HomeRequest::Forward(_) => return false,
        HomeRequest::Question(..) | HomeRequest::Reset(_) => {
            let mut context = Context::from_waker(Waker::noop());
            return pin!(ask(shared, request, out)).poll(&mut context).is_ready();
        }
    }
    true
}

/// Asks the home and writes the reply.
pub(crate) async fn ask(shared: &ServerState, request: &HomeRequest, out: &mut RespWriter) {
    match request {
        HomeRequest::Dialect(call) => dialects::ask(shared, call, out).await,
        HomeRequest::Forward(request) => Box::pin(forward::ask(shared, request, out)).await,
        HomeRequest::Question(question, form) => answer(shared, question, None, *form, out).await,
        HomeRequest::Reset(reset) => {
            let (question, by) = &**reset;
            answer(shared, question, Some(by), ReplyForm::Integers { source: false }, out).await;
        }
    }
}

async fn answer(
    shared: &ServerState,
    question: &EngineQuestion,
    by: Option<&AuditActor>,
    form: ReplyForm,
    out: &mut RespWriter,
) {
    let span = shared.engine.trace(|| None);
    let answer = match by {
        None => shared.engine.answer(question).await,
        Some(by) => shared.engine.answer_by(question, by).await,
    };
    if let Some(mut span) = span {
        span.name(if form == ReplyForm::Explanation { "TG.EXPLAIN" } else { spans::command(question) });
        spans::answer(&mut span, &shared.engine, question, &answer);
        shared.engine.end_trace(span);
    }
    match answer {
        Ok(answer) => write_answer(shared, question, &answer, form, out),
        Err(fault) => out.fault(&fault),
    }
}

fn write_answer(
    shared: &ServerState,
    question: &EngineQuestion,
    answer: &EngineAnswer,
    form: ReplyForm,
    out: &mut RespWriter,
) {
    match (answer, question, form) {
        (EngineAnswer::Decided(verdict), EngineQuestion::Check(ask), ReplyForm::Explanation) => {
            out.bulk(explanation::text(&shared.engine, ask, verdict).as_bytes());
        }
        (EngineAnswer::Decided(verdict), EngineQuestion::Check(ask), ReplyForm::Integers { source }) => {
            out.decision(&verdict.decision, ask.detail != DetailLevel::Flat, &verdict.details, source);
        }
        (EngineAnswer::Decided(verdict), _, _) => out.decision(&verdict.decision, true, &verdict.details, true),
        (EngineAnswer::Together(together, _), _, form) => {
            let source = form != ReplyForm::Integers { source: false };
            out.array(2 + 9 * together.decisions.len() + usize::from(source));
            out.int(i64::from(together.allowed));
            out.int(together.retry_after.as_flat());
            for decision in &together.decisions {
                decision.flat().into_iter().chain(decision.flat_rest()).for_each(|number| out.int(number));
            }
            if source {
                out.bulk(decider(&together.decisions).as_bytes());
            }
        }
        (EngineAnswer::Units(units), _, _) => out.int(i64::try_from(*units).unwrap_or(i64::MAX)),
        (EngineAnswer::Done, _, _) => out.int(1),
    }
}

/// Returns the name of the home or stand-in that decided all of them.
fn decider(decisions: &[Decision]) -> &'static str {
    decisions.first().map_or(tollgate_kernel::Source::Home, |decision| decision.source).name()
}
