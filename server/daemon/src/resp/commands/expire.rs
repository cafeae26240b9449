//! The expiry of keys: EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT, TTL, PTTL, EXPIRETIME, PEXPIRETIME.

use super::Args;
use super::keys::{integer, invalid_time, tell_number};
use super::table::KeyHandler;
use crate::resp::writer::RespWriter;
use tollgate_keyspace::{ExpireCommand, ExpireConditions, KeyCommand, KeyReply, Lifetime};
use tollgate_keyspace::{Fault, quoted};

pub(super) const EXPIRE: KeyHandler =
    KeyHandler { parse: |args| parse(args, "expire", true, false), tell: tell_number };
pub(super) const PEXPIRE: KeyHandler =
    KeyHandler { parse: |args| parse(args, "pexpire", false, false), tell: tell_number };
pub(super) const EXPIRE_AT: KeyHandler =
    KeyHandler { parse: |args| parse(args, "expireat", true, true), tell: tell_number };
pub(super) const PEXPIRE_AT: KeyHandler =
    KeyHandler { parse: |args| parse(args, "pexpireat", false, true), tell: tell_number };
/// Milliseconds, rounded up: a live key has time left.
pub(super) const PTTL: KeyHandler = KeyHandler { parse: |args| Ok(KeyCommand::Left(args.at(1))), tell: tell_number };
pub(super) const TTL: KeyHandler = KeyHandler { parse: |args| Ok(KeyCommand::Left(args.at(1))), tell: tell_seconds };
pub(super) const PEXPIRE_TIME: KeyHandler =
    KeyHandler { parse: |args| Ok(KeyCommand::Ends(args.at(1))), tell: tell_number };
pub(super) const EXPIRE_TIME: KeyHandler =
    KeyHandler { parse: |args| Ok(KeyCommand::Ends(args.at(1))), tell: tell_seconds };

fn parse<'a>(args: &Args<'a>, name: &'static str, seconds: bool, absolute: bool) -> Result<KeyCommand<'a>, Fault> {
    let conditions = conditions(args)?;
    let life = Lifetime::new(integer(args.at(2))?, seconds, absolute).ok_or_else(|| invalid_time(name))?;
    Ok(KeyCommand::Expire(ExpireCommand { key: args.at(1), life, conditions, name }))
}

fn conditions(args: &Args<'_>) -> Result<ExpireConditions, Fault> {
    let mut condition = ExpireConditions::default();
    for at in 3..args.len() {
        let ExpireConditions { nx, xx, gt, lt } = &mut condition;
        let word = [("NX", nx), ("XX", xx), ("GT", gt), ("LT", lt)].into_iter().find(|(word, _)| args.is(at, word));
        let Some((_, flag)) = word else {
            return Err(Fault::wrong(format!("Unsupported option {}; expected NX, XX, GT or LT", quoted(args.at(at)))));
        };
        *flag = true;
    }
    let ExpireConditions { nx, xx, gt, lt } = condition;
    if nx && (xx || gt || lt) {
        return Err(Fault::wrong("NX and XX, GT or LT options at the same time are not compatible"));
    }
    if gt && lt {
        return Err(Fault::wrong("GT and LT options at the same time are not compatible"));
    }
    Ok(condition)
}

/// Writes milliseconds as seconds, rounded to the nearest.
fn tell_seconds(reply: KeyReply, out: &mut RespWriter) {
    let ms = if let KeyReply::Number(ms) = reply { ms } else { -2 };
    out.int(if ms < 0 { ms } else { ms.saturating_add(500) / 1_000 });
}
