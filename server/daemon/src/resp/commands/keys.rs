//! Plain keys, as in Redis: how GET, SET, INCR, DEL, SCAN, HGETALL and others are read and answered. What they do is done
//! where the keys are, in this process or in a store.

use super::table::KeyHandler;
use super::{Args, CommandContext};

use crate::resp::writer::RespWriter;
use tollgate_keyspace::Fault;
use tollgate_keyspace::{KeyCommand, KeyReply, Lifetime, ScanOptions, SetCommand, SetLifetime, number};

/// The longest pattern of SCAN, in bytes.
const MAX_PATTERN: usize = 256;

pub(super) const GET: KeyHandler = KeyHandler { parse: |args| Ok(KeyCommand::Get(args.at(1))), tell: tell_text };
pub(super) const SET: KeyHandler = KeyHandler { parse: set, tell: tell_text };
pub(super) const INCR: KeyHandler = KeyHandler { parse: |args| Ok(KeyCommand::Add(args.at(1), 1)), tell: tell_number };
pub(super) const DECR: KeyHandler = KeyHandler { parse: |args| Ok(KeyCommand::Add(args.at(1), -1)), tell: tell_number };
pub(super) const INCR_BY: KeyHandler = KeyHandler { parse: incr_by, tell: tell_number };
pub(super) const DECR_BY: KeyHandler = KeyHandler { parse: decr_by, tell: tell_number };
pub(super) const DEL: KeyHandler =
    KeyHandler { parse: |args| Ok(KeyCommand::Delete(args.iter().skip(1).collect())), tell: tell_number };
pub(super) const EXISTS: KeyHandler =
    KeyHandler { parse: |args| Ok(KeyCommand::Exist(args.iter().skip(1).collect())), tell: tell_number };
pub(super) const TYPE: KeyHandler = KeyHandler { parse: |args| Ok(KeyCommand::Kind(args.at(1))), tell: tell_text };
pub(super) const DB_SIZE: KeyHandler = KeyHandler { parse: |_| Ok(KeyCommand::Count), tell: tell_number };
pub(super) const HGET_ALL: KeyHandler = KeyHandler { parse: all_fields, tell: tell_pairs };
pub(super) const HGET: KeyHandler = KeyHandler { parse: some_fields, tell: tell_value };
pub(super) const HMGET: KeyHandler = KeyHandler { parse: some_fields, tell: tell_values };
pub(super) const HEXISTS: KeyHandler = KeyHandler { parse: some_fields, tell: tell_there };
pub(super) const HKEYS: KeyHandler = KeyHandler { parse: all_fields, tell: tell_field_names };
pub(super) const HVALS: KeyHandler = KeyHandler { parse: all_fields, tell: tell_field_values };
pub(super) const HLEN: KeyHandler =
    KeyHandler { parse: |args| Ok(KeyCommand::FieldCount(args.at(1))), tell: tell_number };
pub(super) const SCAN: KeyHandler = KeyHandler { parse: scan, tell: tell_keys };
pub(super) const KEYS: KeyHandler =
    KeyHandler { parse: |args| Ok(KeyCommand::List(pattern(args.at(1))?)), tell: tell_keys };
pub(super) const FLUSH: KeyHandler = KeyHandler { parse: flush, tell: tell_text };

/// Parses an argument as an integer.
pub(super) fn integer(text: &[u8]) -> Result<i64, Fault> {
    number(text).ok_or_else(|| Fault::wrong("value is not an integer or out of range"))
}

pub(super) fn syntax() -> Fault {
    Fault::wrong("syntax error")
}

/// Returns the error of a time that is not valid.
pub(super) fn invalid_time(name: &str) -> Fault {
    Fault::wrong(format!("invalid expire time in '{name}' command"))
}

/// `SET key value [NX|XX] [GET] [EX s|PX ms|EXAT s|PXAT ms|KEEPTTL]`.
fn set<'a>(args: &Args<'a>) -> Result<KeyCommand<'a>, Fault> {
    let (key, text) = (args.at(1), args.at(2));
    let mut set = SetCommand { key, text, life: SetLifetime::Forever, only_if: None, tells: false };
    let mut at = 3;
    while let Some(word) = args.get(at) {
        let word = word.to_ascii_uppercase();
        match word.as_slice() {
            b"NX" | b"XX" if set.only_if.is_none() => set.only_if = Some(word == b"XX"),
            b"GET" if !set.tells => set.tells = true,
            b"KEEPTTL" if set.life == SetLifetime::Forever => set.life = SetLifetime::Kept,
            b"EX" | b"PX" | b"EXAT" | b"PXAT" if set.life == SetLifetime::Forever => {
                at += 1;
                let time = integer(args.get(at).ok_or_else(syntax)?)?;
                let seconds = matches!(word.as_slice(), b"EX" | b"EXAT");
                let life = Lifetime::new(time, seconds, word.ends_with(b"AT")).filter(|life| life.ms > 0);
                set.life = SetLifetime::Until(life.ok_or_else(|| invalid_time("set"))?);
            }
            _ => return Err(syntax()),
        }
        at += 1;
    }
    Ok(KeyCommand::Set(set))
}

fn incr_by<'a>(args: &Args<'a>) -> Result<KeyCommand<'a>, Fault> {
    Ok(KeyCommand::Add(args.at(1), integer(args.at(2))?))
}

fn decr_by<'a>(args: &Args<'a>) -> Result<KeyCommand<'a>, Fault> {
    let number = integer(args.at(2))?.checked_neg();
    Ok(KeyCommand::Add(args.at(1), number.ok_or_else(|| Fault::wrong("decrement would overflow"))?))
}

fn all_fields<'a>(args: &Args<'a>) -> Result<KeyCommand<'a>, Fault> {
    Ok(KeyCommand::AllFields(args.at(1)))
}

/// The fields that HGET, HMGET and HEXISTS name.
fn some_fields<'a>(args: &Args<'a>) -> Result<KeyCommand<'a>, Fault> {
    Ok(KeyCommand::Fields(args.at(1), args.iter().skip(2).collect()))
}

/// `SCAN cursor [MATCH pattern] [COUNT n] [TYPE word]`.
fn scan<'a>(args: &Args<'a>) -> Result<KeyCommand<'a>, Fault> {
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
    Ok(KeyCommand::Scan(scan))
}

/// `FLUSHDB [ASYNC|SYNC]`, and FLUSHALL as the same: a caller who may reset in one database empties no other.
fn flush<'a>(args: &Args<'a>) -> Result<KeyCommand<'a>, Fault> {
    let known = args.len() == 1 || (args.len() == 2 && (args.is(1, "ASYNC") || args.is(1, "SYNC")));
    if known { Ok(KeyCommand::Flush) } else { Err(syntax()) }
}

/// Returns the pattern that keys must match; `None` if all do.
fn pattern(pattern: &[u8]) -> Result<Option<&[u8]>, Fault> {
    if pattern.len() > MAX_PATTERN {
        let found = pattern.len();
        return Err(Fault::wrong(format!("MATCH: expected at most {MAX_PATTERN} bytes, found {found}")));
    }
    Ok(Some(pattern).filter(|pattern| *pattern != b"*"))
}

/// Writes a text or a word.
fn tell_text(reply: KeyReply, out: &mut RespWriter) {
    match reply {
        KeyReply::Text(text) => bulk_or_nil(text.as_deref(), out),
        KeyReply::Stored(false) => out.nil(),
        KeyReply::Word(word) => out.simple(&word),
        _ => out.simple("OK"),
    }
}

pub(super) fn tell_number(reply: KeyReply, out: &mut RespWriter) {
    out.int(if let KeyReply::Number(number) = reply { number } else { 0 });
}

fn bulk_or_nil(text: Option<&[u8]>, out: &mut RespWriter) {
    match text {
        Some(text) => out.bulk(text),
        None => out.nil(),
    }
}

fn values(reply: KeyReply) -> Vec<Option<Vec<u8>>> {
    if let KeyReply::Values(values) = reply { values } else { Vec::new() }
}

fn tell_value(reply: KeyReply, out: &mut RespWriter) {
    bulk_or_nil(values(reply).first().and_then(Option::as_deref), out);
}

fn tell_values(reply: KeyReply, out: &mut RespWriter) {
    let values = values(reply);
    out.array(values.len());
    values.iter().for_each(|value| bulk_or_nil(value.as_deref(), out));
}

fn tell_there(reply: KeyReply, out: &mut RespWriter) {
    out.int(i64::from(values(reply).iter().any(Option::is_some)));
}

fn fields(reply: KeyReply) -> Vec<(Vec<u8>, Vec<u8>)> {
    if let KeyReply::Fields(fields) = reply { fields } else { Vec::new() }
}

fn tell_pairs(reply: KeyReply, out: &mut RespWriter) {
    let fields = fields(reply);
    out.map(fields.len());
    for (field, value) in &fields {
        out.bulk(field);
        out.bulk(value);
    }
}

fn tell_field_names(reply: KeyReply, out: &mut RespWriter) {
    let fields = fields(reply);
    out.array(fields.len());
    fields.iter().for_each(|(field, _)| out.bulk(field));
}

fn tell_field_values(reply: KeyReply, out: &mut RespWriter) {
    let fields = fields(reply);
    out.array(fields.len());
    fields.iter().for_each(|(_, value)| out.bulk(value));
}

/// Writes keys, after the cursor if there is one.
fn tell_keys(reply: KeyReply, out: &mut RespWriter) {
    let keys = match reply {
        KeyReply::Page(cursor, keys) => {
            out.array(2);
            out.bulk(cursor.to_string().as_bytes());
            keys
        }
        KeyReply::Keys(keys) => keys,
        _ => Vec::new(),
    };
    out.array(keys.len());
    keys.iter().for_each(|key| out.bulk(key));
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
