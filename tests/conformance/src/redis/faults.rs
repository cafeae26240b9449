//! Tests of the traces: the Lua broken on purpose, one fault at a time. Each must be found by a trace, and
//! each must still be in the source, so that the list stays true.

use super::calls::play_dialects;
use super::trace::{Trace, play};
use super::wire::Target;
use crate::home::Refusal;

/// A fault in a twin.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What is wrong then.
    pub what: &'static str,
    find: &'static str,
    replace: &'static str,
    /// Whether a call of a dialect shows it, or else a policy.
    dialect: bool,
}

const fn policy(what: &'static str, find: &'static str, replace: &'static str) -> Fault {
    Fault { what, find, replace, dialect: false }
}

const fn dialect(what: &'static str, find: &'static str, replace: &'static str) -> Fault {
    Fault { what, find, replace, dialect: true }
}

/// Operations within which a fault must show.
const PATIENCE: u64 = 60_000;

/// All faults.
#[rustfmt::skip]
pub static FAULTS: &[Fault] = &[
    policy("gcra: time is not held at the latest charge", "state[2] - max(t, state[1])", "state[2] - t"),
    policy("gcra: a limit made smaller keeps one burst", "local whole = state[1] + state[2] - max(t, state[1])\n", "local whole = state[1] + (state[4] == rule.count and state[2] or min(state[2], rule.tolerance)) - max(t, state[1])\n"),
    policy("gcra: a fraction is forgotten", "return whole + more_whole + 1, fraction - count", "return whole + more_whole + 1, 0"),
    policy("gcra: the edge is refused", "whole == most_whole and fraction <= most_fraction", "whole == most_whole and fraction < most_fraction"),
    policy("gcra: waits are rounded down", "whole - may_owe + (fraction > may_owe_fraction and 1 or 0)", "whole - may_owe"),
    policy("gcra: a changed rate refills", "whole, fraction = gcra_more(rule, owed + recorded)", "whole, fraction = gcra_more(rule, recorded)"),
    policy("gcra: debt has no bound", "min(units, max(2 * rule.burst - owed, 0))", "units"),
    policy("gcra: a refund ignores the time since", "  given = given - since\n", "\n"),
    policy("fixed: a window lasts a microsecond longer", "t < ends and ends or nil", "t <= ends and ends or nil"),
    policy("fixed: weeks begin on Thursday", "rule.period - MONDAY % rule.period", "0"),
    policy("fixed: a refund of an old window", "at < fixed_window_at(rule, state[1])", "false"),
    policy("bucket: tokens beyond the burst from the start", "return nil, 0, rule.burst", "return nil, 0, rule.count"),
    policy("bucket: waits rounded down", "local enough = state[1] + whole + (rest > 0 and 1 or 0)", "local enough = state[1] + whole"),
    policy("estimate: the window before weighs in full", "muldiv(previous, overlap, rule.period)", "previous, 0"),
    policy("estimate: two windows later it still counts", "  return start, 0, 0, period - into\n", "  return start, state[3], 0, period - into\n"),
    policy("decay: a guess that is not checked", "guess = guess + 1\n", "return guess\n"),
    policy("decay: the level is cut", "min(level + units, HIGHEST)", "floor(min(level + units, HIGHEST))"),
    policy("decay: powers of one squaring less", "square = square * square", "square = square * base"),
    policy("log: an event counts when it leaves", "if leaves(rule, log, at) > now then\n    return 0", "if leaves(rule, log, at) >= now then\n    return 0"),
    policy("log: a wait one entry too early", "(ring_get(log, first - 1))", "(ring_get(log, max(first - 2, live)))"),
    policy("log: a skewed clock is forgotten", "local now = t + log.skew\n", "local now = t\n"),
    policy("log: the newest units are refunded", "ring_set(log, 0, at, (log.total - kept) % log.kind[4])", "log.total = (log.total - units) % log.kind[4]"),
    policy("ring: a spilled chunk is lost", "log.chunks = log.chunks + 1\n    end\n    tail", "end\n    tail"),
    policy("ring: a chunk is entered at its beginning", "log.front = sub(ring_chunk(log, log.first), bytes + 1)", "log.front = ring_chunk(log, log.first)"),
    policy("ring: a chunk is read from its neighbour", "return log.first + number, ring_chunk(log, log.first + number)", "return log.first + number, ring_chunk(log, log.first)"),
    policy("sliding: refused attempts count without bound", "max(2 * rule.count - used, 0)", "units"),
    policy("sliding: a grain leaves early", "now - now % rule.grain + rule.grain - 1", "now - now % rule.grain"),
    policy("slots: a refund of another slot", "  slot = slot - slot % rule.resolution\n", "\n"),
    policy("spacing: the second charge comes at once", "return last and max(last + spacing - t, 0) or 0", "return 0"),
    policy("combine: nary grants the room of the last limit", "min(room, cell_room(rule, cell, t)) or 0", "cell_room(rule, cell, t) or 0"),
    policy("combine: the last refusing limit is named", "limited_by = limited_by == 0 and index or limited_by", "limited_by = index"),
    policy("combine: uniform shows no excess", "left = mode == 'uniform' and left or max(left, 0)", "left = max(left, 0)"),
    policy("combine: the greatest wait instead of the fixpoint", "wait = wait_from(rules, cells, t, needs, wait)", "wait = wait"),
    policy("envelope: a correction is not written", "if charge > 0 or changed(entry) then", "if charge > 0 then"),
    policy("envelope: what other policies left is dropped", "entry.kept = kept[1] and kept", "entry.kept = nil"),
    policy("envelope: a name under another algorithm clears a limit", "    records[rule.tag] = nil\n", "    records[rule.tag] = nil\n    for tag in pairs(records) do if #tag == 5 and sub(tag, 1, 4) == sub(rule.tag, 1, 4) then records[tag] = nil end end\n"),
    policy("envelope: other limits push one out", "  if #kept > MAX_OTHER_LIMITS and not is_known and not resets then", "  for place = MAX_OTHER_LIMITS + 1, #kept do kept[place] = nil end\n  if #kept > 64 then"),
    policy("envelope: one that is known is shut out by many others", "#kept > MAX_OTHER_LIMITS and not is_known", "#kept > (is_known and 40 or MAX_OTHER_LIMITS)"),
    policy("envelope: a refusal of a lone limit is written", "    if dirty then\n      write_one", "    if true then\n      write_one"),
    policy("envelope: a refusal is written", "if charge > 0 or changed(entry) then", "if true then"),
    policy("combine: a refund of nothing is written", "cell.dirty = cell.dirty or is_other or own > 0", "cell.dirty = true"),
    policy("refund: a refund of nothing writes the key", "  if changed(entry) then\n    write(entry, t, life, margin)\n  else", "  if true then\n    write(entry, t, life, margin)\n  else"),
    policy("envelope: the last charge is not written", "items[count + 1] = cell.last", "items[count + 1] = 0"),
    policy("all: a part is charged though another refuses", "local charge = all and granted or 0", "local charge = granted"),
    policy("calls: never is a long wait", "return wait == NEVER and -1 or wait", "return wait == NEVER and 0 or wait"),
    policy("parse: a minute is an hour", "min = 60000000", "min = 3600000000"),
    dialect("arguments: a decimal is rounded up", "return 0, false, minus == '-'", "return 1, false, minus == '-'"),
    dialect("fixed_window: a refusal is not counted", "ask(key, rules, t, least, t, 1, 'uniform', 1)", "ask(key, rules, t, least, t, 1, 'binary', 1)"),
    dialect("sliding_window: events are kept for the windows of the call", "keeper.period = is_longer and longest or policy.own", "keeper.period = policy.own"),
    dialect("sliding_window: the longest window is not written", "log.anchor = log.newest - keeper.period", "log.anchor = log.newest - policy.own"),
    dialect("sliding_window: the last full window is named", "if limited_by == 0 and used", "if used"),
    dialect("sliding_window: an event leaves at its size", "period = size + 1", "period = max(size, 1)"),
    dialect("slotted: a wait is rounded down", "ceil(wait / 10 ^ places)", "floor(wait / 10 ^ places)"),
    dialect("rolling: half a bucket is missing", "rule.life = rule.period + floor(rule.period / (buckets * 2))", "rule.life = rule.period"),
    dialect("rolling: the grid begins anew", "if newest and now <= log.anchor", "if false and now <= log.anchor"),
    dialect("rolling: the wait of the first limit", "wait = max(wait, own)", "wait = index == 1 and own or wait"),
    dialect("token_bucket: never a retry", "if wait > 0 and wait < NEVER then", "if false then"),
    dialect("api_counter: one too many", "local allowed = fixed.fits(rule, state, 1, ends)", "local allowed = fixed.fits(rule, state, 0, ends)"),
    dialect("api_counter: the minute of now", "local counted = ends and ends - 1 or t", "local counted = t"),
];

/// A change that is no fault: found, it is the trace that differs, and what was found of faults says nothing.
pub static NO_FAULT: [Fault; 2] = [
    policy("nothing (policies)", "min = 60000000", "min = 60000000"),
    dialect("nothing (dialects)", "min = 60000000", "min = 60000000"),
];

/// Plays a trace against the fault; answers whether it was found.
pub fn is_found(fault: &Fault, target: &Target) -> Result<bool, Refusal> {
    let text = tollgate_redis::lua::library(tollgate_redis::lua::LuaNaming::Testing);
    if text.matches(fault.find).count() == 0 {
        return Err(Refusal::new(format!("{}: its text is no longer in the source: {:?}", fault.what, fault.find)));
    }
    let fault_text = Some((fault.find, fault.replace));
    let trace = Trace { target: target.clone(), seed: 77, operations: PATIENCE, stored: 0, fault: fault_text };
    Ok(if fault.dialect { play_dialects(&trace, |_| {}).is_err() } else { play(&trace, |_| {}).is_err() })
}
