//! CLIENT and other commands on the connection itself.

use super::table::{CommandHandler::Plain, NONE, RespCommand, line};
use super::{CommandContext, SYNTAX, command};
use crate::access::Scope;
use crate::resp::session::MultiQueue;
use tollgate_keyspace::number;
use tollgate_keyspace::{Fault, shown};

pub(super) fn ping(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    match ctx.args.len() {
        1 => ctx.out.simple("PONG"),
        2 => ctx.out.bulk(ctx.args.at(1)),
        _ => return Err(Fault::wrong("wrong number of arguments for 'ping' command; expected PING [text]")),
    }
    Ok(())
}

pub(super) fn echo(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.out.bulk(ctx.args.at(1));
    Ok(())
}

pub(super) fn quit(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.session.ends = true;
    ctx.out.simple("OK");
    Ok(())
}

pub(super) fn multi(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    if ctx.session.queue.is_some() {
        return Err(Fault::wrong("MULTI calls can not be nested"));
    }
    ctx.session.queue = Some(MultiQueue::default());
    ctx.out.simple("OK");
    Ok(())
}

pub(super) fn discard(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.session.queue.take().ok_or_else(|| Fault::wrong("DISCARD without MULTI"))?;
    ctx.out.simple("OK");
    Ok(())
}

/// The longest name that a connection keeps, in bytes: there may be many connections.
const MAX_NAME: usize = 256;

/// The subcommands of CLIENT.
pub(super) static PARTS: &[RespCommand] = &[
    line("CLIENT|ID", 2, "CLIENT ID", None, NONE, Plain(id)),
    line("CLIENT|INFO", 2, "CLIENT INFO", None, NONE, Plain(own_line)),
    line("CLIENT|LIST", -2, "CLIENT LIST [ID id [id …]]", Some(Scope::Read), NONE, Plain(list)),
    line("CLIENT|SETNAME", 3, "CLIENT SETNAME name", None, NONE, Plain(set_name)),
    line("CLIENT|GETNAME", 2, "CLIENT GETNAME", None, NONE, Plain(get_name)),
    line("CLIENT|SETINFO", 4, "CLIENT SETINFO LIB-NAME|LIB-VER text", None, NONE, Plain(set_info)),
    line("CLIENT|NO-EVICT", 3, "CLIENT NO-EVICT ON|OFF", None, NONE, Plain(on_or_off)),
    line("CLIENT|NO-TOUCH", 3, "CLIENT NO-TOUCH ON|OFF", None, NONE, Plain(on_or_off)),
    line("CLIENT|REPLY", 3, "CLIENT REPLY ON", None, NONE, Plain(reply)),
    line("CLIENT|TRACKING", -3, "CLIENT TRACKING OFF", None, NONE, Plain(tracking)),
    line("CLIENT|GETREDIR", 2, "CLIENT GETREDIR", None, NONE, Plain(redirection)),
    line("CLIENT|KILL", -3, "CLIENT KILL [word …]", Some(Scope::Admin), NONE, Plain(kill)),
    line("CLIENT|MAINT_NOTIFICATIONS", -3, "CLIENT MAINT_NOTIFICATIONS OFF", None, NONE, Plain(maintenance)),
    line("CLIENT|HELP", 2, "CLIENT HELP", None, NONE, Plain(command::help)),
];

fn id(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.out.int(i64::try_from(ctx.session.id).unwrap_or(i64::MAX));
    Ok(())
}

fn own_line(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let own = ctx.session.id;
    write_lines(ctx, |id| id == own);
    Ok(())
}

/// Lists the caller's own connection; all connections with the scope `admin`.
fn list(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let mut wanted = Vec::new();
    if ctx.args.len() > 2 {
        let ids: Option<Vec<u64>> = ctx.args.iter().skip(3).map(|id| number(id)?.try_into().ok()).collect();
        match ids {
            Some(ids) if ctx.args.is(2, "ID") && !ids.is_empty() => wanted = ids,
            _ => return Err(Fault::wrong(format!("{SYNTAX}: expected CLIENT LIST [ID id [id …]]"))),
        }
    }
    let (own, admin) = (ctx.session.id, ctx.session.scopes.has(Scope::Admin));
    write_lines(ctx, |id| (admin || id == own) && (wanted.is_empty() || wanted.contains(&id)));
    Ok(())
}

fn write_lines(ctx: &mut CommandContext<'_>, wanted: impl Fn(u64) -> bool) {
    let text = ctx.shared.clients.text(ctx.shared.engine.now(), wanted);
    ctx.out.verbatim(&text);
}

fn set_name(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.session.name = check_name(ctx.args.at(2))?.to_vec();
    described(ctx)
}

fn get_name(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    match ctx.session.name.as_slice() {
        [] => ctx.out.nil(),
        name => ctx.out.bulk(name),
    }
    Ok(())
}

fn set_info(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let place = ["LIB-NAME", "LIB-VER"].into_iter().position(|word| ctx.args.is(2, word));
    let place = place.ok_or_else(|| Fault::wrong(format!("Unrecognized option '{}'", shown(ctx.args.at(2)))))?;
    let text = visible("lib-name and lib-ver", ctx.args.at(3))?;
    ctx.session.library[place] = text.to_vec();
    described(ctx)
}

/// Updates the list of clients after a connection described itself.
fn described(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.shared.clients.update(ctx.session, ctx.out.protocol);
    ctx.out.simple("OK");
    Ok(())
}

/// Checks a name that a connection gives itself.
pub(super) fn check_name(text: &[u8]) -> Result<&[u8], Fault> {
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
fn on_or_off(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    if !ctx.args.is(2, "ON") && !ctx.args.is(2, "OFF") {
        return Err(Fault::wrong(format!("{SYNTAX}: expected ON or OFF")));
    }
    ctx.out.simple("OK");
    Ok(())
}

fn reply(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    if !ctx.args.is(2, "ON") {
        return Err(Fault::wrong(format!("{SYNTAX}: expected ON: every command is answered here")));
    }
    ctx.out.simple("OK");
    Ok(())
}

fn tracking(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    if !ctx.args.is(2, "OFF") {
        return Err(Fault::wrong(format!("{SYNTAX}: expected OFF: keys are not tracked for caches here")));
    }
    ctx.out.simple("OK");
    Ok(())
}

/// Replies that nothing is redirected, since nothing is tracked.
fn redirection(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.out.int(-1);
    Ok(())
}

fn kill(_: &mut CommandContext<'_>) -> Result<(), Fault> {
    Err(Fault::wrong("CLIENT KILL is not offered: connections end by themselves or with the server"))
}

fn maintenance(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    if ctx.args.is(2, "OFF") {
        ctx.out.simple("OK");
        return Ok(());
    }
    Err(Fault::wrong("CLIENT MAINT_NOTIFICATIONS: expected OFF: this server does not move"))
}
