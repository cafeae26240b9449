//! What a key holds, read back into the kernel's cells, so that states can be compared.

use std::collections::HashMap;

use redis::Value;
use tollgate_kernel::{Cell, Limit, Micros, Policy, Reader, Timestamp, Writer, expires_after};

use super::wire::Wire;
use crate::home::Refusal;

const EXACT: u64 = 1 << 53;
/// Written for a last charge that was not: see `Cell::write`.
const NEVER: u64 = u64::MAX;

type Msgpack = rmpv::Value;
type Chunks = HashMap<Vec<u8>, Vec<u8>>;

fn bad(what: &str) -> Refusal {
    Refusal::new(format!("a value of another form: {what}"))
}

/// The cells of the policy that the key's own records hold, in policy order; fresh ones if there is no key.
pub fn cells(wire: &mut Wire, key: &[u8], policy: &Policy, by: RecordLookup) -> Result<Vec<Cell>, Refusal> {
    let kind = wire.ask(redis::cmd("TYPE").arg(key))?;
    let (value, chunks) = match &kind {
        Value::SimpleString(kind) if kind == "none" => {
            return Ok(policy.limits().iter().map(|limit| limit.fresh()).collect());
        }
        Value::SimpleString(kind) if kind == "hash" => hash(wire.ask(redis::cmd("HGETALL").arg(key))?)?,
        _ => (bytes(wire.ask(redis::cmd("GET").arg(key))?)?, Chunks::new()),
    };
    let mut items = items(&value)?.into_iter();
    if items.next() != Some(Msgpack::from(1)) {
        return Err(bad("the version"));
    }
    let records = records(items)?;
    let mut cells = Vec::new();
    for (place, limit) in policy.limits().iter().enumerate() {
        // A dialect files under tags of its own, in the order of its limits.
        let found = match by {
            RecordLookup::Tag => records.iter().find(|record| record.tag == tag_bytes(limit)),
            RecordLookup::Place => records.get(place),
        };
        cells.push(found.map_or_else(|| Ok(limit.fresh()), |record| record.cell(limit, &chunks))?);
    }
    Ok(cells)
}

/// How the record of a limit is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordLookup {
    /// By the tag of the limit's id.
    Tag,
    /// By the place of the limit.
    Place,
}

/// What one limit left.
struct Record {
    tag: Vec<u8>,
    last: Option<u64>,
    words: Vec<Msgpack>,
}

impl Record {
    fn cell(&self, limit: &Limit, chunks: &Chunks) -> Result<Cell, Refusal> {
        let mut to = Writer::default();
        to.put(self.last.unwrap_or(NEVER));
        write(limit, &self.tag, &self.words, chunks, &mut to)?;
        let bytes = to.into_bytes();
        let mut reader = Reader::new(&bytes);
        let cell = limit.read(&mut reader).filter(|_| reader.is_done());
        cell.ok_or_else(|| bad(&format!("{limit}: {:?}", self.words)))
    }
}

fn tag_bytes(limit: &Limit) -> Vec<u8> {
    let tag = tollgate_redis::lua::tag(limit);
    let (hash, letter) = tag.split_at(8);
    [&u32::from_str_radix(hash, 16).unwrap_or_default().to_be_bytes(), letter.as_bytes()].concat()
}

/// The records of a value: those of the latest policy, then those that others left.
fn records(mut items: impl Iterator<Item = Msgpack>) -> Result<Vec<Record>, Refusal> {
    let mut records = Vec::new();
    while let Some(item) = items.next() {
        let tag = match item {
            Msgpack::String(tag) => tag.into_bytes(),
            Msgpack::Array(kept) => {
                for record in kept {
                    let Msgpack::Array(record) = record else { return Err(bad("a kept record")) };
                    let (Some(Msgpack::String(tag)), Some(Msgpack::Array(words))) = (record.first(), record.get(2))
                    else {
                        return Err(bad("a kept record"));
                    };
                    let last = record.get(3).and_then(Msgpack::as_u64);
                    records.push(Record { tag: tag.as_bytes().to_vec(), last, words: words.clone() });
                }
                continue;
            }
            _ => return Err(bad("a tag")),
        };
        let (last, words) = match items.next() {
            Some(Msgpack::Array(words)) => (None, words),
            Some(last) => match items.next() {
                Some(Msgpack::Array(words)) => (last.as_u64(), words),
                _ => return Err(bad("a state")),
            },
            None => return Err(bad("a state")),
        };
        records.push(Record { tag, last, words });
    }
    Ok(records)
}

/// Whether two cells of a limit are the same at `t`: what has expired is as good as nothing.
pub fn same_state(limit: &Limit, one: &Cell, other: &Cell, t: Timestamp) -> bool {
    let alone = Policy::new(vec![limit.clone()]);
    let gone = |cell: &Cell| {
        let lives = alone.as_ref().map(|policy| expires_after(policy, std::slice::from_ref(cell), t));
        lives.unwrap_or_default() == Micros::ZERO
    };
    gone(one) && gone(other) || canonical(limit, one) == canonical(limit, other)
}

/// The words of a cell; those of a log with units counted from its oldest entry.
fn canonical(limit: &Limit, cell: &Cell) -> Vec<u64> {
    let mut to = Writer::default();
    cell.write(&mut to);
    let bytes = to.into_bytes();
    let mut words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let head = match limit.rule().name() {
        "sliding" | "slots" => 4,
        "rolling" => 5,
        _ => return words,
    };
    let mask = if limit.rule().name() == "sliding" { (1 << 48) - 1 } else { u64::MAX };
    let total = words[1];
    let base = words.get(head + 2).copied().unwrap_or(total);
    words[1] = total.wrapping_sub(base) & mask;
    for before in words.iter_mut().skip(head + 2).step_by(2) {
        *before = before.wrapping_sub(base) & mask;
    }
    words
}

fn bytes(value: Value) -> Result<Vec<u8>, Refusal> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        other => Err(bad(&format!("{other:?}"))),
    }
}

fn hash(value: Value) -> Result<(Vec<u8>, Chunks), Refusal> {
    let fields = match value {
        Value::Array(fields) => fields,
        other => return Err(bad(&format!("{other:?}"))),
    };
    let mut fields: Vec<Vec<u8>> = fields.into_iter().map(bytes).collect::<Result<_, _>>()?;
    let mut chunks = Chunks::new();
    while let (Some(value), Some(field)) = (fields.pop(), fields.pop()) {
        chunks.insert(field, value);
    }
    let head = chunks.remove(&b"h"[..]).ok_or_else(|| bad("no head"))?;
    Ok((head, chunks))
}

fn items(mut value: &[u8]) -> Result<Vec<Msgpack>, Refusal> {
    let mut items = Vec::new();
    while !value.is_empty() {
        items.push(rmpv::decode::read_value(&mut value).map_err(|error| bad(&error.to_string()))?);
    }
    Ok(items)
}

/// Writes a record's words as `Cell::write` does.
fn write(limit: &Limit, tag: &[u8], words: &[Msgpack], chunks: &Chunks, to: &mut Writer) -> Result<(), Refusal> {
    let whole = |place: usize| -> Result<u64, Refusal> {
        words.get(place).and_then(Msgpack::as_u64).ok_or_else(|| bad(&format!("word {place} of {words:?}")))
    };
    match limit.rule().name() {
        "gcra" => {
            let period = if whole(4)? == 0 && whole(3)? > 0 { limit.period().get() } else { whole(4)? };
            [whole(0)? + whole(1)?, whole(0)?, whole(2)?, whole(3)?, period].into_iter().for_each(|word| to.put(word));
        }
        "decay" => {
            let level = words.get(1).and_then(Msgpack::as_f64).ok_or_else(|| bad("a level"))?;
            to.put(whole(0)?);
            to.put(level.to_bits());
        }
        "sliding" => write_log(words, tag, chunks, 13, false, to)?,
        "slots" => write_log(words, tag, chunks, 14, false, to)?,
        "rolling" => write_log(words, tag, chunks, 14, true, to)?,
        _ => (0..words.len()).try_for_each(|place| whole(place).map(|word| to.put(word)))?,
    }
    Ok(())
}

fn write_log(
    words: &[Msgpack],
    tag: &[u8],
    chunks: &Chunks,
    size: usize,
    anchored: bool,
    to: &mut Writer,
) -> Result<(), Refusal> {
    let signed = |place: usize| words.get(place).and_then(Msgpack::as_i64).unwrap_or_default();
    let piece = |place: usize| match words.get(place) {
        Some(Msgpack::String(text)) => text.as_bytes().to_vec(),
        _ => Vec::new(),
    };
    let rest = 4 + usize::from(anchored);
    let mut entries = piece(rest);
    for number in signed(rest + 1)..signed(rest + 1) + signed(rest + 2) {
        let field = [tag, &u32::try_from(number).unwrap_or_default().to_be_bytes()].concat();
        entries.extend(chunks.get(&field).ok_or_else(|| bad("a chunk is missing"))?);
    }
    entries.extend(piece(3));
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let entries: Vec<(u64, u64)> =
        entries.chunks(size).map(|entry| (number(&entry[..7]), number(&entry[7..]))).collect();
    // Units are counted modulo what an entry holds there; what an entry and all later ones hold is at least one.
    let total = signed(0).cast_unsigned();
    let modulus = if size == 13 { 1 << 48 } else { EXACT };
    let left = |before: u64| match total.wrapping_sub(before) % modulus {
        0 => modulus,
        left => left,
    };
    let held = entries.first().map_or(0, |(_, before)| left(*before));
    let newest = match entries.last() {
        _ if anchored => signed(1),
        Some((last, _)) => last.cast_signed() + signed(1),
        None => 0,
    };
    to.put(held);
    to.put(newest.cast_unsigned());
    to.put(signed(2).cast_unsigned());
    if anchored {
        to.put((signed(1) - signed(4)).cast_unsigned());
    }
    to.put(entries.len() as u64);
    for (at, before) in entries {
        to.put(at);
        to.put(held.wrapping_sub(left(before)));
    }
    Ok(())
}
