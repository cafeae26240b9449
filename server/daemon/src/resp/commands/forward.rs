//! Scripts and functions that this server does not know. With a store and the scope `script`, the store runs them as they
//! are; otherwise the error says how to allow that.

use super::CommandContext;
use crate::access::Scope;
use crate::resp::writer::RespWriter;
use crate::shared::ServerState;
use tollgate_keyspace::Fault;
use tollgate_redis::{ForwardedCommand, ForwardedReply};

/// A command that the store is to run.
#[derive(Debug)]
pub(crate) struct ForwardRequest {
    db: u8,
    command: ForwardedCommand,
    /// The keys that say to which server it goes.
    keys: Vec<Vec<u8>>,
    /// All words after the command's name.
    args: Vec<Vec<u8>>,
    /// For SCRIPT EXISTS: which of the scripts this server has.
    known: Vec<bool>,
}

impl ForwardRequest {
    /// Returns the request that passes a connection's command on.
    pub(super) fn new(ctx: &CommandContext<'_>, command: ForwardedCommand, keys: &[&[u8]]) -> Self {
        let own = |key: &&[u8]| key.to_vec();
        let (keys, args) = (keys.iter().map(own).collect(), ctx.args.iter().skip(1).map(<[u8]>::to_vec).collect());
        Self { db: ctx.session.db, command, keys, args, known: Vec::new() }
    }

    /// Returns the same for SCRIPT EXISTS, where this server has some of the scripts.
    pub(super) fn knowing(self, known: Vec<bool>) -> Self {
        Self { known, ..self }
    }
}

/// Returns whether a connection may have the store run scripts, and there is one.
pub(super) fn is_allowed(ctx: &CommandContext<'_>) -> bool {
    ctx.session.scopes.has(Scope::Script) && ctx.shared.engine.runs_scripts()
}

/// Passes a command on that this server does not know, or returns its fault with the way to allow it.
pub(super) fn forward(
    ctx: &CommandContext<'_>,
    command: ForwardedCommand,
    keys: &[&[u8]],
    fault: Fault,
) -> Result<ForwardRequest, Fault> {
    if is_allowed(ctx) { Ok(ForwardRequest::new(ctx, command, keys)) } else { Err(with_way_out(ctx, fault)) }
}

/// Returns a fault that also says how to have the store run it.
pub(super) fn with_way_out(ctx: &CommandContext<'_>, fault: Fault) -> Fault {
    let way = if ctx.shared.engine.runs_scripts() {
        "the store runs it for a connection with the scope script: tollgate token --scopes check,script, or serve --free \
         check,read,reset,script"
    } else {
        "with serve --store redis://HOST the store can run it, for a connection with the scope script"
    };
    Fault { text: format!("{}; {way}", fault.text), ..fault }
}

/// Has the store run a command, and writes its reply.
pub(super) async fn ask(shared: &ServerState, request: &ForwardRequest, out: &mut RespWriter) {
    fn slices(all: &[Vec<u8>]) -> Vec<&[u8]> {
        all.iter().map(Vec::as_slice).collect()
    }
    let (keys, args) = (slices(&request.keys), slices(&request.args));
    match shared.engine.forward(request.db, request.command, &keys, &args).await {
        Ok(ForwardedReply::List(found)) if !request.known.is_empty() => {
            out.array(request.known.len());
            for (place, known) in request.known.iter().enumerate() {
                out.int(i64::from(*known || found.get(place) == Some(&ForwardedReply::Integer(1))));
            }
        }
        Ok(reply) => write_reply(&reply, out),
        Err(fault) => out.fault(&fault),
    }
}

fn write_reply(reply: &ForwardedReply, out: &mut RespWriter) {
    match reply {
        ForwardedReply::Nil => out.nil(),
        ForwardedReply::Integer(number) => out.int(*number),
        ForwardedReply::Bulk(bytes) => out.bulk(bytes),
        ForwardedReply::Status(text) => out.simple(&line(text)),
        ForwardedReply::Error(text) => out.error(text),
        ForwardedReply::List(replies) => {
            out.array(replies.len());
            replies.iter().for_each(|reply| write_reply(reply, out));
        }
    }
}

/// Returns a status as one line.
fn line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
