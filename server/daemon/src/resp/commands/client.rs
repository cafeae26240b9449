//! CLIENT and other commands on the connection itself.

use super::table::{Command, NONE, Run, line};
use super::{SYNTAX, Turn, command};
use crate::access::Scope;
use crate::resp::session::Queue;
use tollgate_keyspace::number;
use tollgate_keyspace::{Fault, shown};

pub(super) fn ping(turn: &mut Turn<'_>) -> Result<(), Fault> {
    match turn.args.len() {
        1 => turn.out.simple("PONG"),
        2 => turn.out.bulk(turn.args.at(1)),
        _ => return Err(Fault::wrong("wrong number of arguments for 'ping' command; expected PING [text]")),
    }
    Ok(())
}

pub(super) fn echo(turn: &mut Turn<'_>) -> Result<(), Fault> {
    turn.out.bulk(turn.args.at(1));
    Ok(())
}

pub(super) fn quit(turn: &mut Turn<'_>) -> Result<(), Fault> {
    turn.session.ends = true;
    turn.out.simple("OK");
    Ok(())
}

pub(super) fn multi(turn: &mut Turn<'_>) -> Result<(), Fault> {
    if turn.session.queue.is_some() {
        return Err(Fault::wrong("MULTI calls can not be nested"));
    }
    turn.session.queue = Some(Queue::default());
    turn.out.simple("OK");
    Ok(())
}

pub(super) fn discard(turn: &mut Turn<'_>) -> Result<(), Fault> {
    turn.session.queue.take().ok_or_else(|| Fault::wrong("DISCARD without MULTI"))?;
    turn.out.simple("OK");
    Ok(())
}

/// The longest name that a connection keeps, in bytes: there may be many connections.
const MAX_NAME: usize = 256;

/// The subcommands of CLIENT.
pub(super) static PARTS: &[Command] = &[
    line("CLIENT|ID", 2, "CLIENT ID", None, NONE, Run::Plain(id)),
    line("CLIENT|INFO", 2, "CLIENT INFO", None, NONE, Run::Plain(own_line)),
    line("CLIENT|LIST", -2, "CLIENT LIST [ID id [id …]]", Some(Scope::Read), NONE, Run::Plain(list)),
    line("CLIENT|SETNAME", 3, "CLIENT SETNAME name", None, NONE, Run::Plain(set_name)),
    line("CLIENT|GETNAME", 2, "CLIENT GETNAME", None, NONE, Run::Plain(get_name)),
    line("CLIENT|SETINFO", 4, "CLIENT SETINFO LIB-NAME|LIB-VER text", None, NONE, Run::Plain(set_info)),
    line("CLIENT|NO-EVICT", 3, "CLIENT NO-EVICT ON|OFF", None, NONE, Run::Plain(on_or_off)),
    line("CLIENT|NO-TOUCH", 3, "CLIENT NO-TOUCH ON|OFF", None, NONE, Run::Plain(on_or_off)),
    line("CLIENT|REPLY", 3, "CLIENT REPLY ON", None, NONE, Run::Plain(reply)),
    line("CLIENT|TRACKING", -3, "CLIENT TRACKING OFF", None, NONE, Run::Plain(tracking)),
    line("CLIENT|GETREDIR", 2, "CLIENT GETREDIR", None, NONE, Run::Plain(redirection)),
    line("CLIENT|KILL", -3, "CLIENT KILL [word …]", Some(Scope::Admin), NONE, Run::Plain(kill)),
    line("CLIENT|MAINT_NOTIFICATIONS", -3, "CLIENT MAINT_NOTIFICATIONS OFF", None, NONE, Run::Plain(maintenance)),
    line("CLIENT|HELP", 2, "CLIENT HELP", None, NONE, Run::Plain(command::help)),
];

fn id(turn: &mut Turn<'_>) -> Result<(), Fault> {
    turn.out.int(i64::try_from(turn.session.id).unwrap_or(i64::MAX));
    Ok(())
}

fn own_line(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let own = turn.session.id;
    tell(turn, |id| id == own);
    Ok(())
}

/// Lists the caller's own connection; all connections with the scope `admin`.
fn list(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let mut asked = Vec::new();
    if turn.args.len() > 2 {
        let ids: Option<Vec<u64>> = turn.args.iter().skip(3).map(|id| number(id)?.try_into().ok()).collect();
        match ids {
            Some(ids) if turn.args.is(2, "ID") && !ids.is_empty() => asked = ids,
            _ => return Err(Fault::wrong(format!("{SYNTAX}: expected CLIENT LIST [ID id [id …]]"))),
        }
    }
    let (own, admin) = (turn.session.id, turn.session.scopes.has(Scope::Admin));
    tell(turn, |id| (admin || id == own) && (asked.is_empty() || asked.contains(&id)));
    Ok(())
}

fn tell(turn: &mut Turn<'_>, asked: impl Fn(u64) -> bool) {
    let text = turn.shared.clients.text(turn.shared.engine.now(), asked);
    turn.out.verbatim(&text);
}

fn set_name(turn: &mut Turn<'_>) -> Result<(), Fault> {
    turn.session.name = a_name(turn.args.at(2))?.to_vec();
    said(turn)
}

fn get_name(turn: &mut Turn<'_>) -> Result<(), Fault> {
    match turn.session.name.as_slice() {
        [] => turn.out.nil(),
        name => turn.out.bulk(name),
    }
    Ok(())
}

fn set_info(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let place = ["LIB-NAME", "LIB-VER"].into_iter().position(|word| turn.args.is(2, word));
    let place = place.ok_or_else(|| Fault::wrong(format!("Unrecognized option '{}'", shown(turn.args.at(2)))))?;
    let text = visible("lib-name and lib-ver", turn.args.at(3))?;
    turn.session.library[place] = text.to_vec();
    said(turn)
}

/// Updates the list of clients after a connection described itself.
fn said(turn: &mut Turn<'_>) -> Result<(), Fault> {
    turn.shared.clients.tell(turn.session, turn.out.protocol);
    turn.out.simple("OK");
    Ok(())
}

/// Checks a name that a connection gives itself.
pub(super) fn a_name(text: &[u8]) -> Result<&[u8], Fault> {
    visible("Client names", text)
}

fn visible<'a>(what: &str, text: &'a [u8]) -> Result<&'a [u8], Fault> {
    if !text.iter().all(u8::is_ascii_graphic) {
        return Err(Fault::wrong(format!("{what} cannot contain spaces, newlines or special characters.")));
    }
    if text.len() > MAX_NAME {
        return Err(Fault::wrong(format!("{what}: expected at most {MAX_NAME} bytes, found {}", text.len())));
    }
    Ok(text)
}

/// Accepts NO-EVICT and NO-TOUCH, which have no effect: no connection is closed for another, and reading does not age
/// keys.
fn on_or_off(turn: &mut Turn<'_>) -> Result<(), Fault> {
    if !turn.args.is(2, "ON") && !turn.args.is(2, "OFF") {
        return Err(Fault::wrong(format!("{SYNTAX}: expected ON or OFF")));
    }
    turn.out.simple("OK");
    Ok(())
}

fn reply(turn: &mut Turn<'_>) -> Result<(), Fault> {
    if !turn.args.is(2, "ON") {
        return Err(Fault::wrong(format!("{SYNTAX}: expected ON: every command is answered here")));
    }
    turn.out.simple("OK");
    Ok(())
}

fn tracking(turn: &mut Turn<'_>) -> Result<(), Fault> {
    if !turn.args.is(2, "OFF") {
        return Err(Fault::wrong(format!("{SYNTAX}: expected OFF: keys are not tracked for caches here")));
    }
    turn.out.simple("OK");
    Ok(())
}

/// Replies that nothing is redirected, since nothing is tracked.
fn redirection(turn: &mut Turn<'_>) -> Result<(), Fault> {
    turn.out.int(-1);
    Ok(())
}

fn kill(_: &mut Turn<'_>) -> Result<(), Fault> {
    Err(Fault::wrong("CLIENT KILL is not offered: connections end by themselves or with the server"))
}

fn maintenance(turn: &mut Turn<'_>) -> Result<(), Fault> {
    if turn.args.is(2, "OFF") {
        turn.out.simple("OK");
        return Ok(());
    }
    Err(Fault::wrong("CLIENT MAINT_NOTIFICATIONS: expected OFF: this server does not move"))
}
