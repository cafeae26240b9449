//! The commands, and how one of them is run.
//!
//! | file | what it is |
//! |---|---|
//! | `table.rs` | every command: its name, arguments, scope, and who runs it |
//! | `tg.rs`, `options.rs` | the commands of our own, and the words behind them |
//! | `explained.rs` | a decision in words |
//! | `keys.rs`, `expire.rs` | plain keys: GET, SET, INCR, EXPIRE, SCAN, … |
//! | `dialects.rs` | the conventions of other limiters: FCALL, CL.THROTTLE |
//! | `native.rs`, `compact.rs` | our own functions and scripts, and the policies their clients send |
//! | `scripts.rs`, `functions.rs`, `known.rs` | EVAL, SCRIPT, FUNCTION, and what they know |
//! | `hello.rs`, `client.rs` | what clients say of themselves: HELLO, AUTH, SELECT, RESET; CLIENT, PING, MULTI, … |
//! | `server.rs`, `info.rs`, `config.rs` | what clients ask of a server: TIME, ROLE, CLUSTER; INFO; CONFIG GET |
//! | `command.rs`, `docs.rs` | what clients ask of the commands: COMMAND, and their documentation |

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

use tollgate_core::Decision;

use crate::access::Scope;
use crate::audit::{By, Event, Outcome, What};
use crate::desk::{Answer, Question, Tells};
use crate::fault::{Code, Fault};
use crate::keys::{Keys, Spoken, Times};
use crate::resp::decode::Place;
use crate::resp::session::Session;
use crate::resp::writer::Writer;
use crate::shared::Shared;
use crate::traced;
pub(crate) use known::{Flushed, Scripts};
pub(crate) use table::{Command, Run, find};
pub(crate) use tg::read_check;

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

    /// The argument at a place; empty if there is none.
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

    /// Whether the argument at a place is this word, in either case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// What a command is given.
pub(crate) struct Turn<'a> {
    pub(crate) args: Args<'a>,
    pub(crate) session: &'a mut Session,
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) out: &'a mut Writer,
}

/// What a command asks the home.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A question, and how its answer is worded.
    Question(Question, Form),
    /// To forget a key, and who asks that.
    Reset(Box<(Question, By)>),
    /// A call of a dialect.
    Dialect(Box<Spoken>),
}

impl Asked {
    /// How many limits it is about, if it is no call of a dialect, which is about keys.
    pub(crate) fn limits(&self) -> Option<usize> {
        match self {
            Self::Question(question, _) => Some(question.limits()),
            Self::Reset(reset) => Some(reset.0.limits()),
            Self::Dialect(_) => None,
        }
    }
}

/// How an answer is worded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Integers; `source` adds who decided.
    Integers {
        /// Whether the source is told.
        source: bool,
    },
    /// A text for people.
    Explained,
}

/// What the user of a command did not give right, in the words that Redis has for most of it.
const SYNTAX: &str = "syntax error";

/// Looks a command up, or the part of one that its second word names, and sees whether it may be run: its arguments are as many as it takes, and the
/// connection has its scope.
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

/// Tells the audit log that a command was refused whose scope is to reset.
pub(crate) fn told_refused(args: &Args<'_>, session: &Session, shared: &Shared, fault: &Fault) {
    if !matches!(fault.code, Code::NoAuth | Code::NoPerm) {
        return;
    }
    let Some(command) = find(args.at(0)).filter(|command| command.scope == Some(Scope::Reset)) else { return };
    let is_key = command.keys.0 == 1;
    let (what, key) = if is_key { (What::Reset, args.get(1)) } else { (What::Flush, None) };
    let policy = args.get(2).filter(|_| is_key).map(crate::fault::shown).unwrap_or_default();
    told(shared, session, what, (&policy, key), Outcome::Refused(&fault.text), command.name);
}

/// Tells the audit log what a connection did, or tried.
fn told(
    shared: &Shared,
    session: &Session,
    what: What,
    (policy, key): (&str, Option<&[u8]>),
    outcome: Outcome<'_>,
    detail: &str,
) {
    let by = &session.by();
    shared.desk.ops.audit.tell(&Event { what, by, policy, key, outcome, detail });
}

fn lacking(scope: &str, session: &Session) -> Fault {
    if session.scopes.is_none() {
        return Fault::new(Code::NoAuth, "Authentication required: AUTH token, with a token that the server was given");
    }
    let has = session.scopes;
    // Tokens that were made when `check` allowed refunds too lack it.
    let hint = if scope == Scope::Refund.name() { "; add refund to the token's scopes" } else { "" };
    Fault::new(
        Code::NoPerm,
        format!("expected a token with the scope {scope}: AUTH token; this connection has {has}{hint}"),
    )
}

/// Runs a command that answers at once; nothing if it has to be waited for. `keys` are those of the
/// caller if they are already held.
pub(crate) fn run_now(command: &Command, turn: &mut Turn<'_>, keys: Option<&mut Keys>) -> Option<Asked> {
    let done = match (&command.run, keys) {
        (Run::Plain(run), _) => run(turn),
        (Run::Keys(_), _) if !turn.shared.desk.home.answers_at_once() => Err(elsewhere(command)),
        (Run::Keys(run) | Run::Look(run), Some(keys)) => run_on_keys(*run, turn, keys),
        (Run::Keys(run) | Run::Look(run), None) => {
            let shared = Arc::clone(turn.shared);
            run_on_keys(*run, turn, &mut shared.desk.keys())
        }
        // The connection runs it, since it runs others.
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

/// Runs a command on the keys, and keeps what it changed, whatever it answers.
fn run_on_keys(
    run: fn(&mut Turn<'_>, &mut Keys) -> Result<(), Fault>,
    turn: &mut Turn<'_>,
    keys: &mut Keys,
) -> Result<(), Fault> {
    let done = run(turn, keys);
    turn.shared.desk.home.changed(keys);
    done
}

/// Whether a connection may end or shorten what a key holds: who forgets what a limiter counted resets it.
/// Plain keys belong to their callers, whose applications count and expire them.
fn may_forget(turn: &Turn<'_>, keys: &Keys, key: &[u8]) -> Result<(), Fault> {
    if !keys.is_limiter(turn.session.db, key, Times::of(&*turn.shared.desk.clock)) {
        return Ok(());
    }
    let may = may_reset(turn.session);
    let outcome = may.as_ref().map_or_else(|fault| Outcome::Refused(&fault.text), |()| Outcome::Done);
    let name = turn.args.at(0).to_ascii_uppercase();
    let detail = format!("{} in database {}", crate::fault::shown(&name), turn.session.db);
    told(turn.shared, turn.session, What::Reset, ("", Some(key)), outcome, &detail);
    may
}

/// Whether a connection may reset.
fn may_reset(session: &Session) -> Result<(), Fault> {
    if session.scopes.has(Scope::Reset) { Ok(()) } else { Err(lacking(Scope::Reset.name(), session)) }
}

/// Whether a connection may give back.
fn may_refund(session: &Session) -> Result<(), Fault> {
    if session.scopes.has(Scope::Refund) { Ok(()) } else { Err(lacking(Scope::Refund.name(), session)) }
}

/// Plain keys are those of the store.
fn elsewhere(command: &Command) -> Fault {
    let name = command.name;
    Fault::wrong(format!("{name}: the keys are in the store that this server was started with (--store); ask it there"))
}

/// Puts a question to a home that answers at once, with the keys held if it is about them; answers whether it was
/// put.
pub(crate) fn ask_now(shared: &Shared, asked: &Asked, keys: Option<&mut Keys>, out: &mut Writer) -> bool {
    if !shared.desk.home.answers_at_once() {
        return false;
    }
    match asked {
        Asked::Dialect(spoken) => {
            // The keys are not asked for again, since they are held.
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

/// Puts a question to the home and words the answer.
pub(crate) async fn ask(shared: &Shared, asked: &Asked, out: &mut Writer) {
    match asked {
        Asked::Dialect(spoken) => {
            let span = shared.desk.ops.trace(|| None);
            dialects::ask(shared, spoken, out).await;
            if let Some(mut span) = span {
                span.name(spoken.dialect.name);
                let key = spoken.keys.first().map(|key| shared.desk.ops.hash(key)).unwrap_or_default();
                span.set("tollgate.key_hash", key.as_str());
                shared.desk.ops.traced(span);
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
    let span = shared.desk.ops.trace(|| None);
    let answer = match by {
        None => shared.desk.answer(question).await,
        Some(by) => shared.desk.answer_by(question, by).await,
    };
    if let Some(mut span) = span {
        span.name(if form == Form::Explained { "TG.EXPLAIN" } else { traced::command(question) });
        traced::answer(&mut span, &shared.desk, question, &answer);
        shared.desk.ops.traced(span);
    }
    match answer {
        Ok(answer) => word(shared, question, &answer, form, out),
        Err(fault) => out.fault(&fault),
    }
}

fn word(shared: &Shared, question: &Question, answer: &Answer, form: Form, out: &mut Writer) {
    match (answer, question, form) {
        (Answer::Decided(verdict), Question::Check(asked), Form::Explained) => {
            out.bulk(explained::text(&shared.desk, asked, verdict).as_bytes());
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

/// Who decided them all: they were decided by one.
fn decider(decisions: &[Decision]) -> &'static str {
    decisions.first().map_or(tollgate_core::Source::Home, |decision| decision.source).name()
}
