//! Login, protocol version and database of a connection: HELLO, AUTH, RESET, SELECT.

use super::{SYNTAX, Turn, client};
use crate::resp::writer::Protocol;
use tollgate_keyspace::{Code, Fault, shown};
use tollgate_keyspace::{DATABASES, number};

/// The version of Redis whose replies are given, for clients that choose by it what they may send. Tollgate's own
/// version is in INFO.
pub(super) const REDIS_VERSION: &str = "7.0.0";

/// `HELLO [2|3 [AUTH name token] [SETNAME name]]`: nothing is changed unless all of it is valid.
pub(super) fn hello(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let mut protocol = turn.out.protocol;
    if let Some(version) = turn.args.get(1) {
        protocol = match version {
            b"2" => Protocol::Resp2,
            b"3" => Protocol::Resp3,
            other if number(other).is_some() => return Err(Fault::new(Code::NoProto, "unsupported protocol version")),
            _ => return Err(Fault::wrong("Protocol version is not an integer or out of range")),
        };
    }
    let (mut token, mut name) = (None, None);
    let mut at = 2;
    while at < turn.args.len() {
        let behind = turn.args.len() - at - 1;
        if turn.args.is(at, "AUTH") && behind >= 2 {
            token = Some(turn.args.at(at + 2));
            at += 3;
        } else if turn.args.is(at, "SETNAME") && behind >= 1 {
            name = Some(client::a_name(turn.args.at(at + 1))?);
            at += 2;
        } else {
            return Err(Fault::wrong(format!("Syntax error in HELLO option '{}'", shown(turn.args.at(at)))));
        }
    }
    if let Some(token) = token {
        login(turn, token)?;
    }
    if let Some(name) = name {
        turn.session.name = name.to_vec();
    }
    turn.out.protocol = protocol;
    turn.shared.clients.tell(turn.session, protocol);
    greet(turn);
    Ok(())
}

fn greet(turn: &mut Turn<'_>) {
    let (id, out) = (turn.session.id, &mut *turn.out);
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
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        out.bulk(field.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
}

/// `AUTH token` or `AUTH name token`: a token identifies itself, so the name may be any.
pub(super) fn auth(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let token = match turn.args.len() {
        2 => turn.args.at(1),
        3 => turn.args.at(2),
        _ => return Err(Fault::wrong(format!("{SYNTAX}: expected AUTH [name] token"))),
    };
    login(turn, token)?;
    turn.out.simple("OK");
    Ok(())
}

/// Logs in: a token adds to what needs none; an unknown one changes nothing.
fn login(turn: &mut Turn<'_>, token: &[u8]) -> Result<(), Fault> {
    let peer = turn.session.peer.ip();
    let login = turn.shared.access.login(token, peer).inspect_err(|_| {
        // Without a pause, a flood of guesses would take the time of other connections.
        turn.session.pause = turn.shared.access.wait(peer);
    })?;
    turn.session.scopes = turn.shared.access.free(turn.session.local, turn.session.peer).and(login.scopes);
    turn.session.token = Some(login.name);
    Ok(())
}

/// Restores the state in which the connection began.
pub(super) fn reset(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let session = &mut *turn.session;
    session.queue = None;
    session.db = 0;
    session.name.clear();
    session.scopes = turn.shared.access.free(session.local, session.peer);
    session.token = None;
    turn.out.protocol = Protocol::default();
    turn.shared.clients.tell(session, turn.out.protocol);
    turn.out.simple("RESET");
    Ok(())
}

/// Selects the database of the plain keys that follow. Tollgate's own commands have none: their keys are one space.
pub(super) fn select(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let index = number(turn.args.at(1)).ok_or_else(|| Fault::wrong("value is not an integer or out of range"))?;
    let db = u8::try_from(index).ok().filter(|db| usize::from(*db) < DATABASES);
    turn.session.db =
        db.ok_or_else(|| Fault::wrong(format!("DB index is out of range: expected 0 to {}", DATABASES - 1)))?;
    turn.shared.clients.tell(turn.session, turn.out.protocol);
    turn.out.simple("OK");
    Ok(())
}
