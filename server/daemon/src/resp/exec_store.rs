//! EXEC where the keys are in a store: commands on keys that follow each other are one step of the store, in which no
//! other client is served. Every other command is a step of its own.

use std::sync::Arc;

use super::commands::{self, Args, CommandContext, CommandHandler, KeyHandler, on_keys};
use super::connection::EXEC_BYTES;
use super::decode::{ArgSpan, CommandBounds, decode};
use super::session::{MultiQueue, Session};
use super::writer::RespWriter;
use crate::shared::ServerState;
use tollgate_keyspace::Fault;

/// Runs the queued commands, and writes their replies.
pub(super) async fn run(queue: &MultiQueue, shared: &Arc<ServerState>, session: &mut Session, out: &mut RespWriter) {
    let mut rest = queue.commands.as_slice();
    while let Some((first, others)) = rest.split_first() {
        if out.bytes.len() > EXEC_BYTES {
            let text = format!("not run: expected at most {EXEC_BYTES} bytes of replies to one EXEC");
            out.fault(&Fault::wrong(text));
            rest = others;
            continue;
        }
        let spans: Vec<Vec<ArgSpan>> = rest.iter().map_while(|bytes| spans_on_keys(bytes)).collect();
        if spans.is_empty() {
            run_one(first, shared, session, out).await;
            rest = others;
            continue;
        }
        let (group, behind) = rest.split_at(spans.len());
        let args: Vec<Args<'_>> =
            group.iter().zip(&spans).map(|(bytes, spans)| Args { bytes: &bytes[..], spans }).collect();
        let admitted: Vec<_> =
            args.iter().filter_map(|args| Some((handler(args)?, admit(args, shared, session)))).collect();
        on_keys::ask_all(shared, session, out, &admitted).await;
        rest = behind;
    }
}

/// Returns the arguments of a command that is on keys.
fn spans_on_keys(bytes: &[u8]) -> Option<Vec<ArgSpan>> {
    let mut spans = Vec::new();
    // It was decoded before, so it is valid.
    let _ = decode(bytes, &CommandBounds::KNOWN, &mut spans);
    handler(&Args { bytes, spans: &spans })?;
    Some(spans)
}

fn handler(args: &Args<'_>) -> Option<&'static KeyHandler> {
    match &commands::find(args.at(0))?.handler {
        CommandHandler::OnKeys(handler) => Some(handler),
        _ => None,
    }
}

fn admit<'a>(args: &Args<'a>, shared: &ServerState, session: &Session) -> Result<Args<'a>, Fault> {
    let admitted = commands::admit(args, session);
    admitted.map(|_| *args).inspect_err(|fault| commands::audit_refusal(args, session, shared, fault))
}

/// Runs a command that is not on keys.
async fn run_one(bytes: &[u8], shared: &Arc<ServerState>, session: &mut Session, out: &mut RespWriter) {
    let mut spans = Vec::new();
    let _ = decode(bytes, &CommandBounds::KNOWN, &mut spans);
    let args = Args { bytes, spans: &spans };
    let command = match commands::admit(&args, session) {
        Ok(command) => command,
        Err(fault) => {
            commands::audit_refusal(&args, session, shared, &fault);
            return out.fault(&fault);
        }
    };
    let request = commands::run_now(command, &mut CommandContext { args, session, shared, out }, None);
    if let Some(request) = request {
        commands::ask(shared, &request, out).await;
    }
}
