//! Calls of Tollgate's own functions and scripts, as its Redis clients make them: the same questions as TG.CHECK and
//! the other commands.
//!
//! Their key is where Redis would keep the state, `tg:{KEY}NAME`, which is the key KEY under the policy name NAME; any
//! other key is a key by itself, without a name.

use tollgate_kernel::{Cost, EXACT, Mode, StoreError, Timestamp, is_word};

use super::compact;
use super::dialects::Given;
use super::options::{cost, whole};
use super::{Asked, Form, Turn, may_refund, may_reset, told};
use tollgate_engine::{Ask, Generation, Part, Question, Tells};
use tollgate_keyspace::{Fault, quoted, shown};
use tollgate_telemetry::audit::{Outcome, What};

const FORM: Form = Form::Integers { source: false };
/// The largest number of parts of one call.
const MAX_PARTS: usize = 32;

/// Returns the question of a call.
pub(super) fn ask(turn: &mut Turn<'_>, call: &tollgate_redis::lua::Call, given: &Given<'_>) -> Result<Asked, Fault> {
    let question = match call.name {
        "tollgate" | "tollgate_peek" => decide(turn, given, call.reads_only)?,
        "tollgate_reset" => return Ok(Asked::Reset(Box::new((reset(turn, given)?, turn.session.by())))),
        "tollgate_refund" => refund(turn, given)?,
        _ => all(turn, given)?,
    };
    Ok(Asked::Question(question, FORM))
}

/// `tollgate KEY policy [COST n] [MODE m] [FULL|REST]`.
fn decide(turn: &Turn<'_>, given: &Given<'_>, peek: bool) -> Result<Question, Fault> {
    let key = one_key(given)?;
    let Some((policy, words)) = given.args.split_first() else {
        return Err(Fault::wrong(
            "arguments: expected a policy such as \"100/min\", then COST n, MODE m, FULL, found none",
        ));
    };
    let (mut units, mut mode, mut tells, mut at) = (Cost::ONE, Mode::Binary, Tells::Flat, 0);
    while let Some(word) = words.get(at) {
        let value = words.get(at + 1);
        match (word.to_ascii_uppercase().as_slice(), value) {
            (b"COST", Some(value)) => (units, at) = (cost("cost", value)?, at + 1),
            (b"MODE", Some(value)) => {
                let name = String::from_utf8_lossy(value).to_ascii_lowercase();
                mode =
                    Mode::from_name(&name).ok_or_else(|| Fault::expected("mode", "binary, nary or uniform", value))?;
                at += 1;
            }
            (b"FULL", _) => tells = Tells::Full,
            (b"REST", _) => tells = Tells::Rest,
            _ => {
                let name = format!("argument {}", at + 2);
                return Err(Fault::expected(&name, "COST n, MODE m, FULL or REST", word));
            }
        }
        at += 1;
    }
    let part = one(turn, key, policy, units)?;
    Ok(Question::Check(Ask { part, mode: Some(mode), peek, tells }))
}

/// `tollgate_reset KEY policy`.
fn reset(turn: &Turn<'_>, given: &Given<'_>) -> Result<Question, Fault> {
    let key = one_key(given)?;
    may_reset(turn.session).inspect_err(|fault| {
        let policy = given.args.first().map(|policy| shown(policy)).unwrap_or_default();
        let outcome = Outcome::Refused(&fault.text);
        told(turn.shared, turn.session, What::Reset, (&policy, Some(key)), outcome, "tollgate_reset");
    })?;
    let &[policy] = given.args.as_slice() else { return Err(number("1 (policy)", given)) };
    Ok(Question::Reset(one(turn, key, policy, Cost::ONE)?))
}

/// `tollgate_refund KEY policy n at_us`.
fn refund(turn: &Turn<'_>, given: &Given<'_>) -> Result<Question, Fault> {
    let key = one_key(given)?;
    may_refund(turn.session)?;
    let &[policy, units, at] = given.args.as_slice() else { return Err(number("3 (policy, n, at_us)", given)) };
    let at = Timestamp::saturating(whole("at_us", at, EXACT - 1)?);
    let units = cost("n", units)?;
    Ok(Question::Refund { part: one(turn, key, policy, Cost::ONE)?, units, at })
}

/// `tollgate_all KEY… (policy cost)…`.
fn all(turn: &Turn<'_>, given: &Given<'_>) -> Result<Question, Fault> {
    let each = given.keys.len();
    if !(1..=MAX_PARTS).contains(&each) {
        return Err(Fault::wrong(format!("keys: expected 1 to {MAX_PARTS}, found {each}")));
    }
    if given.args.len() != 2 * each {
        return Err(number(&format!("{} (a policy and a cost for each key)", 2 * each), given));
    }
    let generation = turn.shared.engine.generation();
    let parts = given.keys.iter().zip(given.args.as_chunks().0);
    let parts = parts.map(|(key, [policy, units])| part(turn, &generation, key, policy, cost("cost", units)?));
    Ok(Question::All(parts.collect::<Result<_, _>>()?))
}

fn one_key<'a>(given: &Given<'a>) -> Result<&'a [u8], Fault> {
    match given.keys.as_slice() {
        [key] => Ok(key),
        keys => Err(Fault::wrong(format!("keys: expected 1, found {}", keys.len()))),
    }
}

fn number(expected: &str, given: &Given<'_>) -> Fault {
    Fault::wrong(format!("arguments: expected {expected}, found {}", given.args.len()))
}

/// Returns the key and the policy of a call that has one of each.
fn one(turn: &Turn<'_>, state_key: &[u8], policy: &[u8], cost: Cost) -> Result<Part, Fault> {
    part(turn, &turn.shared.engine.generation(), state_key, policy, cost)
}

fn part(turn: &Turn<'_>, generation: &Generation, state_key: &[u8], policy: &[u8], cost: Cost) -> Result<Part, Fault> {
    let (key, name) = read_key(state_key)?;
    StoreError::check_key(&key)?;
    let name = Some(name.as_bytes()).filter(|name| !name.is_empty());
    let known = match policy.first() {
        Some(b'[') => turn.shared.engine.policy_of(generation, compact::read(policy)?.to_string().as_bytes(), name)?,
        _ => turn.shared.engine.policy_of(generation, policy, name)?,
    };
    Ok(Part { known, key, cost })
}

/// Parses the key and the policy name of `tg:{KEY}NAME`.
fn read_key(state_key: &[u8]) -> Result<(Vec<u8>, &str), Fault> {
    let literal = || (state_key.to_vec(), "");
    let Some(rest) = state_key.strip_prefix(b"tg:{") else { return Ok(literal()) };
    let Some(close) = rest.iter().position(|byte| *byte == b'}') else { return Ok(literal()) };
    let (written, name) = (&rest[..close], &rest[close + 1..]);
    let name = std::str::from_utf8(name).ok().filter(|name| name.is_empty() || is_word(name));
    let Some(name) = name.filter(|_| !written.is_empty()) else { return Ok(literal()) };
    let mut key = Vec::with_capacity(written.len());
    let mut at = 0;
    while let Some(byte) = written.get(at) {
        let (read, took) = match (byte, written.get(at..at + 3)) {
            (b'%', Some(b"%7B")) => (b'{', 3),
            (b'%', Some(b"%7D")) => (b'}', 3),
            (b'%', Some(b"%25")) => (b'%', 3),
            (b'%' | b'{', _) => {
                let expected = "{ } and % of the key written as %7B %7D %25, as in tg:{100%25}";
                return Err(Fault::wrong(format!("key: expected {expected}, found {}", quoted(state_key))));
            }
            _ => (*byte, 1),
        };
        key.push(read);
        at += took;
    }
    Ok((key, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        for (written, key, name) in [
            ("tg:{user:42}", "user:42", ""),
            ("tg:{user:42}login", "user:42", "login"),
            ("tg:{a%7Bb%7D%25}n", "a{b}%", "n"),
            ("user:42", "user:42", ""),
            ("tg:{acme}user:42", "tg:{acme}user:42", ""),
            ("tg:{}", "tg:{}", ""),
            ("tg:{open", "tg:{open", ""),
        ] {
            assert_eq!(read_key(written.as_bytes()).unwrap(), (key.as_bytes().to_vec(), name), "{written}");
        }
        assert!(read_key(b"tg:{100%}").unwrap_err().to_string().contains("%25"));
        assert!(read_key(b"tg:{a{b}").unwrap_err().to_string().contains("%7B"));
    }
}
