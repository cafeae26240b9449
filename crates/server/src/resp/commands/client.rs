//! What clients say of themselves.

use super::Turn;
use crate::fault::Fault;
use crate::resp::session::Queue;

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
