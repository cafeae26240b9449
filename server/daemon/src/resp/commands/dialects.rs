//! The calling conventions of other limiters: `FCALL name numkeys key… arg…` and CL.THROTTLE.

use std::collections::HashMap;
use std::sync::LazyLock;

use tollgate_dialects::{DIALECTS, Dialect, Wording};
use tollgate_kernel::StoreError;
use tollgate_redis::{Custom, Output, Redis};

use super::{Asked, Turn, functions, native};
use crate::resp::writer::Writer;
use crate::shared::Shared;
use tollgate_keyspace::{Code, Fault};
use tollgate_keyspace::{DialectCall, Keys};

/// The keys and arguments of a call.
pub(super) struct Given<'a> {
    pub(super) keys: Vec<&'a [u8]>,
    pub(super) args: Vec<&'a [u8]>,
}

impl<'a> Given<'a> {
    /// Parses `… numkeys key… arg…`, with the number in the second place.
    pub(super) fn read(turn: &Turn<'a>, wrong: &str) -> Result<Self, Fault> {
        let number = tollgate_keyspace::number(turn.args.at(2)).ok_or_else(|| Fault::wrong(wrong))?;
        let number = usize::try_from(number).map_err(|_| Fault::wrong("Number of keys can't be negative"))?;
        if number > turn.args.len().saturating_sub(3) {
            return Err(Fault::wrong("Number of keys can't be greater than number of args"));
        }
        let keys = turn.args.iter().skip(3).take(number).collect();
        Ok(Self { keys, args: turn.args.iter().skip(3 + number).collect() })
    }
}

/// `FCALL function numkeys key… arg…`.
pub(super) fn fcall(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    call(turn, false)
}

/// The same for functions that only read.
pub(super) fn fcall_ro(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    call(turn, true)
}

fn call(turn: &mut Turn<'_>, looks: bool) -> Result<Asked, Fault> {
    let function = functions::find(turn)?;
    let given = Given::read(turn, "Bad number of keys provided")?;
    function.ask(turn, &given, looks)
}

/// The behaviour of a function or a script.
#[derive(Clone, Copy, Debug)]
pub(super) enum Does {
    /// It speaks a dialect, in this wording.
    Dialect(&'static Dialect, Wording),
    /// It is one of Tollgate's own calls.
    Native(&'static tollgate_redis::lua::Call),
}

impl Does {
    /// Returns the request of a call; `looks` if the caller allows no writes.
    pub(super) fn ask(self, turn: &mut Turn<'_>, given: &Given<'_>, looks: bool) -> Result<Asked, Fault> {
        if looks && !matches!(self, Self::Native(call) if call.reads_only) {
            return Err(Fault::wrong("Can not execute a script with write flag using *_ro command."));
        }
        match self {
            Self::Native(call) => native::ask(turn, call, given),
            Self::Dialect(dialect, wording) => speak(turn, dialect, wording, given),
        }
    }
}

fn speak(turn: &Turn<'_>, dialect: &'static Dialect, wording: Wording, given: &Given<'_>) -> Result<Asked, Fault> {
    let call = (dialect.parse)(&given.keys, &given.args)?.speaking(wording);
    let own = |all: &[&[u8]]| all.iter().map(|one| one.to_vec()).collect();
    let (keys, args) = (own(&given.keys), own(&given.args));
    Ok(Asked::Dialect(Box::new(DialectCall { dialect, call, db: turn.session.db, keys, args, wording })))
}

/// `CL.THROTTLE key max_burst count period [quantity]`, redis-cell's command.
pub(super) fn throttle(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    let dialect = tollgate_dialects::find("cl.throttle").ok_or_else(|| Fault::wrong("CL.THROTTLE is not known"))?;
    let given = Given { keys: vec![turn.args.at(1)], args: turn.args.iter().skip(2).collect() };
    speak(turn, dialect, Wording::Document, &given)
}

/// Decides a call on the keys that are held.
pub(super) fn decide(shared: &Shared, spoken: &DialectCall, keys: &mut Keys, out: &mut Writer) {
    let now = shared.engine.times();
    let decided = keys.decide(spoken, now);
    shared.engine.keep_call(keys, spoken, now.now);
    match decided {
        Ok(reply) => out.reply(&reply),
        Err(fault) => out.fault(&fault),
    }
}

/// Decides a call where the keys are.
pub(super) async fn ask(shared: &Shared, spoken: &DialectCall, out: &mut Writer) {
    let answer = match shared.engine.redis() {
        None => return decide(shared, spoken, &mut shared.engine.keys(), out),
        Some(redis) => run_there(redis, spoken).await,
    };
    match answer {
        Ok(output) => word(&output, out),
        Err(fault) => out.fault(&fault),
    }
}

/// Runs the script of a dialect in the store that holds the keys.
async fn run_there(redis: &Redis, spoken: &DialectCall) -> Result<Output, Fault> {
    static SCRIPTS: LazyLock<HashMap<&'static str, Custom>> = LazyLock::new(|| {
        let script = |dialect: &Dialect| {
            Some((dialect.name, Custom::new(tollgate_redis::lua::dialect_script(dialect.name)?.text)))
        };
        DIALECTS.iter().filter_map(script).collect()
    });
    if spoken.db != 0 {
        return Err(Fault::wrong("expected SELECT 0: the keys are in the store's database, which its URL names"));
    }
    let script = SCRIPTS.get(spoken.dialect.name).ok_or_else(|| {
        Fault::wrong("CL.THROTTLE is decided in this server alone, and its store is elsewhere; TG.CHECK key \"30/min gcra burst=16\" does the same")
    })?;
    match redis.run_script(script, &spoken.keys, &spoken.args).await {
        Ok(output) => Ok(in_words(output, spoken.wording)),
        Err(StoreError::Refused(line)) => Err(refusal(line)),
        Err(error) => Err(error.into()),
    }
}

/// Converts the error of a script, which has its code in front.
fn refusal(line: String) -> Fault {
    match line.split_once(' ') {
        Some(("ERR", text)) => Fault::wrong(text),
        Some(("WRONGTYPE", text)) => Fault::new(Code::WrongType, text),
        _ => Fault::wrong(line),
    }
}

/// Rewords the reply: Tollgate's script uses the words of the dialect's document, and clients of a published script
/// expect those of that script.
fn in_words(output: Output, wording: Wording) -> Output {
    match output {
        Output::List(mut parts) if wording == Wording::Script => {
            if let Some(Output::Text(word)) = parts.first_mut()
                && word == b"block"
            {
                *word = b"deny".to_vec();
            }
            Output::List(parts)
        }
        other => other,
    }
}

fn word(output: &Output, out: &mut Writer) {
    match output {
        Output::Nothing => out.nil(),
        Output::Integer(number) => out.int(*number),
        Output::Text(text) => out.bulk(text),
        Output::List(parts) => {
            out.array(parts.len());
            parts.iter().for_each(|part| word(part, out));
        }
    }
}
