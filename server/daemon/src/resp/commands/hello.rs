//! Login, protocol version and database of a connection: HELLO, AUTH, RESET, SELECT.

use tollgate_telemetry::audit::FrontEnd;

use super::{CommandContext, SYNTAX, client};
use crate::resp::writer::Protocol;
use tollgate_keyspace::{DATABASES, number};
use tollgate_keyspace::{Fault, FaultCode, shown};

/// The version of Redis whose replies are given, for clients that choose by it what they may send. Tollgate's own
/// version is in INFO.
pub(super) const REDIS_VERSION: &str = "7.0.0";

/// `HELLO [2|3 [AUTH name token] [SETNAME name]]`: nothing is changed unless all of it is valid.
pub(super) fn hello(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let mut protocol = ctx.out.protocol;
    if let Some(version) = ctx.args.get(1) {
        protocol = match version {
            b"2" => Protocol::Resp2,
            b"3" => Protocol::Resp3,
            other if number(other).is_some() => {
                return Err(Fault::new(FaultCode::NoProto, "unsupported protocol version"));
            }
            _ => return Err(Fault::wrong("Protocol version is not an integer or out of range")),
        };
    }
    let (mut token, mut name) = (None, None);
    let mut at = 2;
    while at < ctx.args.len() {
        let behind = ctx.args.len() - at - 1;
        if ctx.args.is(at, "AUTH") && behind >= 2 {
            token = Some(ctx.args.at(at + 2));
            at += 3;
        } else if ctx.args.is(at, "SETNAME") && behind >= 1 {
            name = Some(client::check_name(ctx.args.at(at + 1))?);
            at += 2;
        } else {
            return Err(Fault::wrong(format!("Syntax error in HELLO option '{}'", shown(ctx.args.at(at)))));
        }
    }
    if let Some(token) = token {
        login(ctx, token)?;
    }
    if let Some(name) = name {
        ctx.session.name = name.to_vec();
    }
    ctx.out.protocol = protocol;
    ctx.shared.clients.update(ctx.session, protocol);
    greet(ctx);
    Ok(())
}

fn greet(ctx: &mut CommandContext<'_>) {
    let (id, mode, out) = (ctx.session.id, ctx.shared.mode(), &mut *ctx.out);
    let protocol = out.protocol;
    out.map(7);
    for (field, value) in [("server", "tollgate"), ("version", REDIS_VERSION)] {
        out.bulk(field.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"proto");
    out.int(i64::from(protocol.number()));
    out.bulk(b"id");
    out.int(i64::try_from(id).unwrap_or(i64::MAX));
    for (field, value) in [("mode", mode), ("role", "master")] {
        out.bulk(field.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
}

/// `AUTH token` or `AUTH name token`: a token identifies itself, so the name may be any.
pub(super) fn auth(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let token = match ctx.args.len() {
        2 => ctx.args.at(1),
        3 => ctx.args.at(2),
        _ => return Err(Fault::wrong(format!("{SYNTAX}: expected AUTH [name] token"))),
    };
    login(ctx, token)?;
    ctx.out.simple("OK");
    Ok(())
}

/// Logs in: a token adds to what needs none; an unknown one changes nothing.
fn login(ctx: &mut CommandContext<'_>, token: &[u8]) -> Result<(), Fault> {
    let peer = ctx.session.peer.ip();
    let login = ctx.shared.access.login(token, peer).inspect_err(|_| {
        // Without a pause, a flood of guesses would take the time of other connections.
        ctx.session.pause = ctx.shared.access.wait(peer);
    })?;
    ctx.session.scopes = ctx.shared.access.free(FrontEnd::Resp, ctx.session.local, ctx.session.peer).and(login.scopes);
    ctx.session.token = Some(login.name);
    Ok(())
}

/// Restores the state in which the connection began.
pub(super) fn reset(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let session = &mut *ctx.session;
    session.queue = None;
    session.db = 0;
    session.name.clear();
    session.scopes = ctx.shared.access.free(FrontEnd::Resp, session.local, session.peer);
    session.token = None;
    ctx.out.protocol = Protocol::default();
    ctx.shared.clients.update(session, ctx.out.protocol);
    ctx.out.simple("RESET");
    Ok(())
}

/// Selects the database of the plain keys that follow. Tollgate's own commands have none: their keys are one space.
pub(super) fn select(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let index = number(ctx.args.at(1)).ok_or_else(|| Fault::wrong("value is not an integer or out of range"))?;
    if index != 0 && ctx.shared.cluster.is_some() {
        return Err(Fault::wrong("SELECT is not allowed in cluster mode"));
    }
    let db = u8::try_from(index).ok().filter(|db| usize::from(*db) < DATABASES);
    let db = db.ok_or_else(|| Fault::wrong(format!("DB index is out of range: expected 0 to {}", DATABASES - 1)))?;
    ctx.shared.engine.check_database(db)?;
    ctx.session.db = db;
    ctx.shared.clients.update(ctx.session, ctx.out.protocol);
    ctx.out.simple("OK");
    Ok(())
}
