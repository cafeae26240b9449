//! SCRIPT, EVAL, EVALSHA: known scripts do what they do in Redis.

use super::dialects::Given;
use super::{Asked, Turn};
use tollgate_keyspace::{Code, Fault, quoted};

/// The error of Redis for a number of keys that is not a number.
const NUMBER: &str = "value is not an integer or out of range";

/// `EVAL script numkeys key… arg…`.
pub(super) fn eval(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    by_text(turn, false)
}

pub(super) fn eval_ro(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    by_text(turn, true)
}

fn by_text(turn: &mut Turn<'_>, looks: bool) -> Result<Asked, Fault> {
    let given = Given::read(turn, NUMBER)?;
    let (_, does) = turn.shared.scripts.load(turn.args.at(1), &mut turn.session.flushed)?;
    does.ask(turn, &given, looks)
}

/// `EVALSHA sha1 numkeys key… arg…`.
pub(super) fn evalsha(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    by_sha(turn, false)
}

pub(super) fn evalsha_ro(turn: &mut Turn<'_>) -> Result<Asked, Fault> {
    by_sha(turn, true)
}

fn by_sha(turn: &mut Turn<'_>, looks: bool) -> Result<Asked, Fault> {
    let given = Given::read(turn, NUMBER)?;
    let does = turn.shared.scripts.find(turn.args.at(1), &turn.session.flushed);
    let does = does.ok_or_else(|| Fault::new(Code::NoScript, "No matching script. Please use EVAL."))?;
    does.ask(turn, &given, looks)
}

/// `SCRIPT LOAD text`, `SCRIPT EXISTS sha1…`, `SCRIPT FLUSH [ASYNC|SYNC]`.
pub(super) fn script(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let (args, scripts) = (turn.args, &turn.shared.scripts);
    match (args.at(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"LOAD", 3) => {
            let (sha, _) = scripts.load(args.at(2), &mut turn.session.flushed)?;
            turn.out.bulk(sha.as_bytes());
        }
        (b"EXISTS", 3..) => {
            turn.out.array(args.len() - 2);
            let there = |sha| scripts.find(sha, &turn.session.flushed).is_some();
            args.iter().skip(2).for_each(|sha| turn.out.int(i64::from(there(sha))));
        }
        (b"FLUSH", 2) => flush(turn),
        (b"FLUSH", 3) if args.is(2, "ASYNC") || args.is(2, "SYNC") => flush(turn),
        (b"FLUSH", _) => return Err(Fault::wrong("SCRIPT FLUSH only support SYNC|ASYNC option")),
        (b"KILL", 2) => turn.out.error("NOTBUSY No scripts in execution right now."),
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

fn flush(turn: &mut Turn<'_>) {
    turn.session.flushed.flush();
    turn.out.simple("OK");
}
