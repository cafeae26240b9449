//! Plain keys, as in Redis: GET, SET, INCR, DEL, SCAN, HGETALL and others.

use super::expire::expiry;
use super::{CommandContext, audit, may_delete, may_forget};
use tollgate_keyspace::Fault;
use tollgate_keyspace::{ClockReadings, Expiry, Keyspace, ScanOptions, SetOptions, number};
use tollgate_telemetry::audit::{AuditAction, AuditOutcome};

/// The longest pattern of SCAN, in bytes.
const MAX_PATTERN: usize = 256;
/// The most keys of a database that KEYS looks at.
const MAX_KEYS: usize = 10_000;
/// The most bytes of keys that KEYS replies.
const MAX_KEYS_BYTES: usize = 256 << 10;

pub(super) fn now(ctx: &CommandContext<'_>) -> ClockReadings {
    ctx.shared.engine.times()
}

/// Parses an argument as an integer.
pub(super) fn integer(text: &[u8]) -> Result<i64, Fault> {
    number(text).ok_or_else(|| Fault::wrong("value is not an integer or out of range"))
}

pub(super) fn syntax() -> Fault {
    Fault::wrong("syntax error")
}

pub(super) fn get(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let text = keys.get(ctx.session.db, ctx.args.at(1), now(ctx))?;
    bulk_or_nil(ctx, text.as_deref());
    Ok(())
}

fn bulk_or_nil(ctx: &mut CommandContext<'_>, text: Option<&[u8]>) {
    match text {
        Some(text) => ctx.out.bulk(text),
        None => ctx.out.nil(),
    }
}

/// `SET key value [NX|XX] [GET] [EX s|PX ms|EXAT s|PXAT ms|KEEPTTL]`.
pub(super) fn set(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let (args, now, db) = (ctx.args, now(ctx), ctx.session.db);
    let (mut put, mut tells, mut timed, mut at) = (SetOptions::default(), false, false, 3);
    while let Some(word) = args.get(at) {
        let word = word.to_ascii_uppercase();
        match word.as_slice() {
            b"NX" | b"XX" if put.only_if.is_none() => put.only_if = Some(word == b"XX"),
            b"GET" if !tells => tells = true,
            b"KEEPTTL" if !timed => (timed, put.expiry) = (true, Expiry::Kept),
            b"EX" | b"PX" | b"EXAT" | b"PXAT" if !timed => {
                at += 1;
                let text = args.get(at).ok_or_else(syntax)?;
                let seconds = matches!(word.as_slice(), b"EX" | b"EXAT");
                let absolute = word.ends_with(b"AT");
                let ends = expiry(integer(text)?, seconds, absolute, now.wall).filter(|_| number(text) > Some(0));
                let ends = ends.ok_or_else(|| Fault::wrong("invalid expire time in 'set' command"))?;
                (timed, put.expiry) = (true, Expiry::At(ends));
            }
            _ => return Err(syntax()),
        }
        at += 1;
    }
    may_forget(ctx, keys, args.at(1))?;
    let before = if tells { keys.get(db, args.at(1), now)? } else { None };
    let mut done = keys.set(db, args.at(1), args.at(2), put, now)?;
    if let Expiry::At(ends) = put.expiry
        && done
        && ends <= now.wall
    {
        // The expiry is in the past.
        keys.forget(db, args.at(1));
        done = true;
    }
    match (tells, done) {
        (true, _) => bulk_or_nil(ctx, before.as_deref()),
        (false, true) => ctx.out.simple("OK"),
        (false, false) => ctx.out.nil(),
    }
    Ok(())
}

pub(super) fn incr(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    add(ctx, keys, 1)
}

pub(super) fn decr(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    add(ctx, keys, -1)
}

pub(super) fn incr_by(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let number = integer(ctx.args.at(2))?;
    add(ctx, keys, number)
}

pub(super) fn decr_by(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let number = integer(ctx.args.at(2))?.checked_neg();
    add(ctx, keys, number.ok_or_else(|| Fault::wrong("decrement would overflow"))?)
}

fn add(ctx: &mut CommandContext<'_>, keys: &mut Keyspace, number: i64) -> Result<(), Fault> {
    let sum = keys.add(ctx.session.db, ctx.args.at(1), number, now(ctx))?;
    ctx.out.int(sum);
    Ok(())
}

pub(super) fn del(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    ctx.args.iter().skip(1).try_for_each(|key| may_delete(ctx, keys, key))?;
    let gone = keys.delete(ctx.session.db, ctx.args.iter().skip(1), now(ctx));
    ctx.out.int(gone);
    Ok(())
}

pub(super) fn exists(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let there = keys.exist(ctx.session.db, ctx.args.iter().skip(1), now(ctx));
    ctx.out.int(there);
    Ok(())
}

pub(super) fn kind(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let kind = keys.kind(ctx.session.db, ctx.args.at(1), now(ctx));
    ctx.out.simple(kind);
    Ok(())
}

pub(super) fn db_size(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let len = keys.len(ctx.session.db, now(ctx));
    ctx.out.int(i64::try_from(len).unwrap_or(i64::MAX));
    Ok(())
}

/// The fields of the one kind of hash here, with their values in decimal digits.
fn fields(ctx: &CommandContext<'_>, keys: &mut Keyspace) -> Result<Vec<(&'static [u8], String)>, Fault> {
    let data = keys.data(ctx.session.db, ctx.args.at(1), now(ctx))?;
    Ok(data
        .map_or_else(Vec::new, |data| vec![(&b"last"[..], data.last.to_string()), (&b"ops"[..], data.ops.to_string())]))
}

/// Returns the value of the field of that name.
fn value_of<'f>(fields: &'f [(&'static [u8], String)], name: &[u8]) -> Option<&'f [u8]> {
    fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_bytes())
}

pub(super) fn hget_all(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let fields = fields(ctx, keys)?;
    ctx.out.map(fields.len());
    for (field, value) in &fields {
        ctx.out.bulk(field);
        ctx.out.bulk(value.as_bytes());
    }
    Ok(())
}

pub(super) fn hget(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let fields = fields(ctx, keys)?;
    bulk_or_nil(ctx, value_of(&fields, ctx.args.at(2)));
    Ok(())
}

pub(super) fn hmget(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let (fields, args) = (fields(ctx, keys)?, ctx.args);
    ctx.out.array(args.len() - 2);
    args.iter().skip(2).for_each(|name| bulk_or_nil(ctx, value_of(&fields, name)));
    Ok(())
}

pub(super) fn hkeys(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let fields = fields(ctx, keys)?;
    ctx.out.array(fields.len());
    fields.iter().for_each(|(field, _)| ctx.out.bulk(field));
    Ok(())
}

pub(super) fn hvals(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let fields = fields(ctx, keys)?;
    ctx.out.array(fields.len());
    fields.iter().for_each(|(_, value)| ctx.out.bulk(value.as_bytes()));
    Ok(())
}

pub(super) fn hlen(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let len = fields(ctx, keys)?.len();
    ctx.out.int(i64::try_from(len).unwrap_or(i64::MAX));
    Ok(())
}

pub(super) fn hexists(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let fields = fields(ctx, keys)?;
    ctx.out.int(i64::from(value_of(&fields, ctx.args.at(2)).is_some()));
    Ok(())
}

/// `SCAN cursor [MATCH pattern] [COUNT n] [TYPE word]`.
pub(super) fn scan(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let args = ctx.args;
    let cursor = std::str::from_utf8(args.at(1)).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or_else(|| Fault::wrong("invalid cursor"))?;
    let mut scan = ScanOptions { cursor, count: 10, pattern: None, kind: None };
    for at in (2..args.len()).step_by(2) {
        let value = args.get(at + 1).ok_or_else(syntax)?;
        if args.is(at, "COUNT") {
            scan.count = usize::try_from(integer(value)?).ok().filter(|count| *count > 0).ok_or_else(syntax)?;
        } else if args.is(at, "MATCH") {
            scan.pattern = pattern(value)?;
        } else if args.is(at, "TYPE") {
            scan.kind = Some(value);
        } else {
            return Err(syntax());
        }
    }
    let (cursor, found) = keys.scan(ctx.session.db, &scan, now(ctx));
    ctx.out.array(2);
    ctx.out.bulk(cursor.to_string().as_bytes());
    ctx.out.array(found.len());
    found.iter().for_each(|key| ctx.out.bulk(key));
    Ok(())
}

/// `FLUSHDB [ASYNC|SYNC]`, and FLUSHALL as the same: a caller who may reset in one database empties no other.
pub(super) fn flush(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let known = ctx.args.len() == 1 || (ctx.args.len() == 2 && (ctx.args.is(1, "ASYNC") || ctx.args.is(1, "SYNC")));
    if !known {
        return Err(syntax());
    }
    let db = ctx.session.db;
    keys.flush(Some(db));
    audit(ctx.shared, ctx.session, AuditAction::Flush, ("", None), AuditOutcome::Done, &format!("database {db}"));
    ctx.out.simple("OK");
    Ok(())
}

/// `KEYS pattern`: all keys of the database that match, if there are not too many to look at in one call.
pub(super) fn all(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let (db, pattern, now) = (ctx.session.db, pattern(ctx.args.at(1))?, now(ctx));
    let len = keys.len(db, now);
    if len > MAX_KEYS {
        return Err(Fault::wrong(format!(
            "KEYS: expected a database of at most {MAX_KEYS} keys, found {len}; use SCAN 0 MATCH pattern"
        )));
    }
    let (mut cursor, mut found, mut bytes) = (0, Vec::new(), 0);
    loop {
        let (next, some) = keys.scan(db, &ScanOptions { cursor, count: MAX_KEYS, pattern, kind: None }, now);
        bytes += some.iter().map(Vec::len).sum::<usize>();
        if bytes > MAX_KEYS_BYTES {
            return Err(Fault::wrong(format!(
                "KEYS: expected at most {MAX_KEYS_BYTES} bytes of keys that match; use SCAN 0 MATCH pattern"
            )));
        }
        found.extend(some);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    ctx.out.array(found.len());
    found.iter().for_each(|key| ctx.out.bulk(key));
    Ok(())
}

/// Returns the pattern that keys must match; `None` if all do.
fn pattern(pattern: &[u8]) -> Result<Option<&[u8]>, Fault> {
    if pattern.len() > MAX_PATTERN {
        let found = pattern.len();
        return Err(Fault::wrong(format!("MATCH: expected at most {MAX_PATTERN} bytes, found {found}")));
    }
    Ok(Some(pattern).filter(|pattern| *pattern != b"*"))
}

/// `WATCH key…` is refused: nothing here needs it.
pub(super) fn watch(_turn: &mut CommandContext<'_>) -> Result<(), Fault> {
    Err(Fault::wrong(
        "WATCH is not known here; ask for the whole decision in one command, such as FCALL api_counter or TG.CHECK, \
         or put commands between MULTI and EXEC",
    ))
}

pub(super) fn unwatch(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.out.simple("OK");
    Ok(())
}
