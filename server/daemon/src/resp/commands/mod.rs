//! The commands, and how one of them is run.
//!
//! | file | what it is |
//! |---|---|
//! | `table.rs` | every command: its name, arguments, scope and handler |
//! | `tg.rs`, `options.rs` | Tollgate's own commands, and their options |
//! | `explained.rs` | a decision in words |
//! | `keys.rs`, `expire.rs` | plain keys: GET, SET, INCR, EXPIRE, SCAN, … |
//! | `dialects.rs` | the conventions of other limiters: FCALL, CL.THROTTLE |
//! | `native.rs`, `compact.rs` | Tollgate's own functions and scripts, and the policies their clients send |
//! | `scripts.rs`, `functions.rs`, `known.rs` | EVAL, SCRIPT, FUNCTION, and the scripts and libraries known |
//! | `hello.rs`, `client.rs` | the state of a connection: HELLO, AUTH, SELECT, RESET; CLIENT, PING, MULTI, … |
//! | `server.rs`, `info.rs`, `config.rs` | the state of the server: TIME, ROLE, CLUSTER; INFO; CONFIG GET |
//! | `command.rs`, `docs.rs` | the commands themselves: COMMAND, and their documentation |

mod client;
mod command;
mod compact;
mod config;
mod dialects;
mod docs;
mod expire;
mod explained;
mod functions;
mod hello;
mod info;
mod keys;
mod known;
mod native;
mod options;
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
use crate::resp::decode::Place;
use crate::resp::session::Session;
use crate::resp::writer::Writer;
use crate::shared::Shared;
use crate::spans;
pub(crate) use known::{Flushed, Scripts};
pub(crate) use table::{Command, Run, find};
pub(crate) use tg::read_check;
use tollgate_engine::{Answer, Question, Tells};
use tollgate_keyspace::{Code, Fault};
use tollgate_keyspace::{DialectCall, Keys};
use tollgate_telemetry::audit::{By, Event, Outcome, What};

/// The arguments of a command, its name first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) places: &'a [Place],
}

impl<'a> Args<'a> {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the argument at a place; empty if there is none.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.get(index).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.places.get(index)?.clone())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Self { bytes, places } = *self;
        places.iter().map(move |place| bytes.get(place.clone()).unwrap_or_default())
    }

    /// Returns whether the argument at a place is this word, in either case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// The context that a command is run with.
pub(crate) struct Turn<'a> {
    pub(crate) args: Args<'a>,
    pub(crate) session: &'a mut Session,
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) out: &'a mut Writer,
}

/// A request of a command to the home.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A question, and the form of its reply.
    Question(Question, Form),
    /// A reset of a key, and its caller.
    Reset(Box<(Question, By)>),
    /// A call of a dialect.
    Dialect(Box<DialectCall>),
}

impl Asked {
    /// Returns the number of limits it asks about; `None` for a call of a dialect, which touches keys.
    pub(crate) fn limits(&self) -> Option<usize> {
        match self {
            Self::Question(question, _) => Some(question.limits()),
            Self::Reset(reset) => Some(reset.0.limits()),
            Self::Dialect(_) => None,
        }
    }
}

/// The form of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Integers; `source` adds the name of the home or stand-in that decided.
    Integers {
        /// Whether the source is included.
        source: bool,
    },
    /// A text for people.
    Explained,
}

/// The error of arguments that are not valid, in the words of Redis.
const SYNTAX: &str = "syntax error";

/// Finds a command, or the subcommand that its second word names, and checks that it may be run: the number of its
/// arguments is right, and the connection has its scope.
pub(crate) fn admit(args: &Args<'_>, session: &Session) -> Result<&'static Command, Fault> {
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
        Some(scope) if !session.scopes.has(scope) => Err(lacking(scope.name(), session)),
        _ => Ok(command),
    }
}

/// Reports to the audit log that a command was refused whose scope is to reset.
pub(crate) fn told_refused(args: &Args<'_>, session: &Session, shared: &Shared, fault: &Fault) {
    if !matches!(fault.code, Code::NoAuth | Code::NoPerm) {
        return;
    }
    let Some(command) = find(args.at(0)).filter(|command| command.scope == Some(Scope::Reset)) else { return };
    let is_key = command.keys.0 == 1;
    let (what, key) = if is_key { (What::Reset, args.get(1)) } else { (What::Flush, None) };
    let policy = args.get(2).filter(|_| is_key).map(tollgate_keyspace::shown).unwrap_or_default();
    told(shared, session, what, (&policy, key), Outcome::Refused(&fault.text), command.name);
}

/// Reports to the audit log what a connection did or attempted.
fn told(
    shared: &Shared,
    session: &Session,
    what: What,
    (policy, key): (&str, Option<&[u8]>),
    outcome: Outcome<'_>,
    detail: &str,
) {
    let by = &session.by();
    shared.engine.audit().tell(&Event { what, by, policy, key, outcome, detail });
}

fn lacking(scope: &str, session: &Session) -> Fault {
    if session.scopes.is_none() {
        return Fault::new(Code::NoAuth, "Authentication required: AUTH token, with a token that the server was given");
    }
    let has = session.scopes;
    // Tokens made before `refund` was a scope of its own lack it.
    let hint = if scope == Scope::Refund.name() { "; add refund to the token's scopes" } else { "" };
    Fault::new(
        Code::NoPerm,
        format!("expected a token with the scope {scope}: AUTH token; this connection has {has}{hint}"),
    )
}

/// Runs a command that answers at once; returns a request that has to wait for its answer. `keys` are those that the
/// caller already holds.
pub(crate) fn run_now(command: &Command, turn: &mut Turn<'_>, keys: Option<&mut Keys>) -> Option<Asked> {
    let done = match (&command.run, keys) {
        (Run::Plain(run), _) => run(turn),
        (Run::Keys(_), _) if !turn.shared.engine.answers_at_once() => Err(elsewhere(command)),
        (Run::Keys(run) | Run::Look(run), Some(keys)) => run_on_keys(*run, turn, keys),
        (Run::Keys(run) | Run::Look(run), None) => {
            let shared = Arc::clone(turn.shared);
            run_on_keys(*run, turn, &mut shared.engine.keys())
        }
        // The connection runs it, since it runs the queued commands.
        (Run::Exec, _) => Ok(()),
        (Run::Ask(ask), _) => match ask(turn) {
            Ok(asked) => return Some(asked),
            Err(fault) => Err(fault),
        },
    };
    if let Err(fault) = done {
        turn.out.fault(&fault);
    }
    None
}

/// Runs a command on the keys, and keeps its changes, whatever it replies.
fn run_on_keys(
    run: fn(&mut Turn<'_>, &mut Keys) -> Result<(), Fault>,
    turn: &mut Turn<'_>,
    keys: &mut Keys,
) -> Result<(), Fault> {
    let done = run(turn, keys);
    turn.shared.engine.keep_changes(keys);
    done
}

/// Checks that a connection may delete or shorten what a key holds: deleting the state of a limiter resets it. Plain
/// keys belong to their callers, whose applications count and expire them.
fn may_forget(turn: &Turn<'_>, keys: &Keys, key: &[u8]) -> Result<(), Fault> {
    if !keys.is_limiter(turn.session.db, key, turn.shared.engine.times()) {
        return Ok(());
    }
    let may = may_reset(turn.session);
    let outcome = may.as_ref().map_or_else(|fault| Outcome::Refused(&fault.text), |()| Outcome::Done);
    let name = turn.args.at(0).to_ascii_uppercase();
    let detail = format!("{} in database {}", tollgate_keyspace::shown(&name), turn.session.db);
    told(turn.shared, turn.session, What::Reset, ("", Some(key)), outcome, &detail);
    may
}

/// Checks that a connection may reset.
fn may_reset(session: &Session) -> Result<(), Fault> {
    if session.scopes.has(Scope::Reset) { Ok(()) } else { Err(lacking(Scope::Reset.name(), session)) }
}

/// Checks that a connection may refund.
fn may_refund(session: &Session) -> Result<(), Fault> {
    if session.scopes.has(Scope::Refund) { Ok(()) } else { Err(lacking(Scope::Refund.name(), session)) }
}

/// Returns the error of a command on plain keys, which are in the store.
fn elsewhere(command: &Command) -> Fault {
    let name = command.name;
    Fault::wrong(format!("{name}: the keys are in the store that this server was started with (--store); ask it there"))
}

/// Asks a home that answers at once, with the keys held if the request touches them; returns whether it was asked.
pub(crate) fn ask_now(shared: &Shared, asked: &Asked, keys: Option<&mut Keys>, out: &mut Writer) -> bool {
    if !shared.engine.answers_at_once() {
        return false;
    }
    match asked {
        Asked::Dialect(spoken) => {
            // The keys are not locked again, since the caller holds them.
            let Some(keys) = keys else { return false };
            dialects::decide(shared, spoken, keys, out);
        }
        Asked::Question(..) | Asked::Reset(_) => {
            let mut context = Context::from_waker(Waker::noop());
            return pin!(ask(shared, asked, out)).poll(&mut context).is_ready();
        }
    }
    true
}

/// Asks the home and writes the reply.
pub(crate) async fn ask(shared: &Shared, asked: &Asked, out: &mut Writer) {
    match asked {
        Asked::Dialect(spoken) => {
            let span = shared.engine.trace(|| None);
            dialects::ask(shared, spoken, out).await;
            if let Some(mut span) = span {
                span.name(spoken.dialect.name);
                let key = spoken.keys.first().map(|key| shared.engine.key_hash(key)).unwrap_or_default();
                span.set("tollgate.key_hash", key.as_str());
                shared.engine.end_trace(span);
            }
        }
        Asked::Question(question, form) => answer(shared, question, None, *form, out).await,
        Asked::Reset(reset) => {
            let (question, by) = &**reset;
            answer(shared, question, Some(by), Form::Integers { source: false }, out).await;
        }
    }
}

async fn answer(shared: &Shared, question: &Question, by: Option<&By>, form: Form, out: &mut Writer) {
    let span = shared.engine.trace(|| None);
    let answer = match by {
        None => shared.engine.answer(question).await,
        Some(by) => shared.engine.answer_by(question, by).await,
    };
    if let Some(mut span) = span {
        span.name(if form == Form::Explained { "TG.EXPLAIN" } else { spans::command(question) });
        spans::answer(&mut span, &shared.engine, question, &answer);
        shared.engine.end_trace(span);
    }
    match answer {
        Ok(answer) => word(shared, question, &answer, form, out),
        Err(fault) => out.fault(&fault),
    }
}

fn word(shared: &Shared, question: &Question, answer: &Answer, form: Form, out: &mut Writer) {
    match (answer, question, form) {
        (Answer::Decided(verdict), Question::Check(asked), Form::Explained) => {
            out.bulk(explained::text(&shared.engine, asked, verdict).as_bytes());
        }
        (Answer::Decided(verdict), Question::Check(asked), Form::Integers { source }) => {
            out.decision(&verdict.decision, asked.tells != Tells::Flat, &verdict.details, source);
        }
        (Answer::Decided(verdict), _, _) => out.decision(&verdict.decision, true, &verdict.details, true),
        (Answer::Together(together, _), _, form) => {
            let source = form != Form::Integers { source: false };
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
        (Answer::Units(units), _, _) => out.int(i64::try_from(*units).unwrap_or(i64::MAX)),
        (Answer::Done, _, _) => out.int(1),
    }
}

/// Returns the name of the home or stand-in that decided all of them.
fn decider(decisions: &[Decision]) -> &'static str {
    decisions.first().map_or(tollgate_kernel::Source::Home, |decision| decision.source).name()
}
