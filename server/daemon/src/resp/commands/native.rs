//! Calls of Tollgate's own functions and scripts, as its Redis clients make them: the same questions as TG.CHECK and
//! the other commands.
//!
//! Their key is where Redis would keep the state, `tg:{KEY}NAME`, which is the key KEY under the policy name NAME; any
//! other key is a key by itself, without a name.

use tollgate_kernel::{Cost, EXACT, Mode, StoreError, Timestamp, is_word};

use super::compact;
use super::dialects::CallArgs;
use super::options::{cost, whole};
use super::{CommandContext, HomeRequest, ReplyForm, audit, may_refund, may_reset};
use tollgate_engine::{DetailLevel, EngineCheck, EngineQuestion, PolicyGeneration, QuestionPart};
use tollgate_keyspace::{Fault, quoted, shown};
use tollgate_telemetry::audit::{AuditAction, AuditOutcome};

const FORM: ReplyForm = ReplyForm::Integers { source: false };
/// The largest number of parts of one call.
const MAX_PARTS: usize = 32;

/// Returns the question of a call.
pub(super) fn ask(
    ctx: &mut CommandContext<'_>,
    call: &tollgate_redis::lua::LuaCall,
    call_args: &CallArgs<'_>,
) -> Result<HomeRequest, Fault> {
    let question = match call.name {
        "tollgate" | "tollgate_peek" => decide(ctx, call_args, call.reads_only)?,
        "tollgate_reset" => return Ok(HomeRequest::Reset(Box::new((reset(ctx, call_args)?, ctx.session.by())))),
        "tollgate_refund" => refund(ctx, call_args)?,
        _ => all(ctx, call_args)?,
    };
    Ok(HomeRequest::Question(question, FORM))
}

/// `tollgate KEY policy [COST n] [MODE m] [FULL|REST]`.
fn decide(ctx: &CommandContext<'_>, call_args: &CallArgs<'_>, peek: bool) -> Result<EngineQuestion, Fault> {
    let key = one_key(call_args)?;
    let Some((policy, words)) = call_args.args.split_first() else {
        return Err(Fault::wrong(
            "arguments: expected a policy such as \"100/min\", then COST n, MODE m, FULL, found none",
        ));
    };
    let (mut units, mut mode, mut tells, mut at) = (Cost::ONE, Mode::Binary, DetailLevel::Flat, 0);
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
            (b"FULL", _) => tells = DetailLevel::Full,
            (b"REST", _) => tells = DetailLevel::Rest,
            _ => {
                let name = format!("argument {}", at + 2);
                return Err(Fault::expected(&name, "COST n, MODE m, FULL or REST", word));
            }
        }
        at += 1;
    }
    let part = key_part(ctx, key, policy, units)?;
    Ok(EngineQuestion::Check(EngineCheck { part, mode: Some(mode), peek, detail: tells }))
}

/// `tollgate_reset KEY policy`.
fn reset(ctx: &CommandContext<'_>, call_args: &CallArgs<'_>) -> Result<EngineQuestion, Fault> {
    let key = one_key(call_args)?;
    may_reset(ctx.session).inspect_err(|fault| {
        let policy = call_args.args.first().map(|policy| shown(policy)).unwrap_or_default();
        let outcome = AuditOutcome::Refused(&fault.text);
        audit(ctx.shared, ctx.session, AuditAction::Reset, (&policy, Some(key)), outcome, "tollgate_reset");
    })?;
    let &[policy] = call_args.args.as_slice() else { return Err(number("1 (policy)", call_args)) };
    Ok(EngineQuestion::Reset(key_part(ctx, key, policy, Cost::ONE)?))
}

/// `tollgate_refund KEY policy n at_us`.
fn refund(ctx: &CommandContext<'_>, call_args: &CallArgs<'_>) -> Result<EngineQuestion, Fault> {
    let key = one_key(call_args)?;
    may_refund(ctx.session)?;
    let &[policy, units, at] = call_args.args.as_slice() else { return Err(number("3 (policy, n, at_us)", call_args)) };
    let at = Timestamp::saturating(whole("at_us", at, EXACT - 1)?);
    let units = cost("n", units)?;
    Ok(EngineQuestion::Refund { part: key_part(ctx, key, policy, Cost::ONE)?, units, at })
}

/// `tollgate_all KEY… (policy cost)…`.
fn all(ctx: &CommandContext<'_>, call_args: &CallArgs<'_>) -> Result<EngineQuestion, Fault> {
    let each = call_args.keys.len();
    if !(1..=MAX_PARTS).contains(&each) {
        return Err(Fault::wrong(format!("keys: expected 1 to {MAX_PARTS}, found {each}")));
    }
    if call_args.args.len() != 2 * each {
        return Err(number(&format!("{} (a policy and a cost for each key)", 2 * each), call_args));
    }
    let generation = ctx.shared.engine.generation();
    let parts = call_args.keys.iter().zip(call_args.args.as_chunks().0);
    let parts = parts.map(|(key, [policy, units])| part(ctx, &generation, key, policy, cost("cost", units)?));
    Ok(EngineQuestion::All(parts.collect::<Result<_, _>>()?))
}

fn one_key<'a>(call_args: &CallArgs<'a>) -> Result<&'a [u8], Fault> {
    match call_args.keys.as_slice() {
        [key] => Ok(key),
        keys => Err(Fault::wrong(format!("keys: expected 1, found {}", keys.len()))),
    }
}

fn number(expected: &str, call_args: &CallArgs<'_>) -> Fault {
    Fault::wrong(format!("arguments: expected {expected}, found {}", call_args.args.len()))
}

/// Returns the key and the policy of a call that has one of each.
fn key_part(ctx: &CommandContext<'_>, state_key: &[u8], policy: &[u8], cost: Cost) -> Result<QuestionPart, Fault> {
    part(ctx, &ctx.shared.engine.generation(), state_key, policy, cost)
}

fn part(
    ctx: &CommandContext<'_>,
    generation: &PolicyGeneration,
    state_key: &[u8],
    policy: &[u8],
    cost: Cost,
) -> Result<QuestionPart, Fault> {
    let (key, name) = parse_key(state_key)?;
    StoreError::check_key(&key)?;
    let name = Some(name.as_bytes()).filter(|name| !name.is_empty());
    let known = match policy.first() {
        Some(b'[') => ctx.shared.engine.policy_of(generation, compact::parse(policy)?.to_string().as_bytes(), name)?,
        _ => ctx.shared.engine.policy_of(generation, policy, name)?,
    };
    Ok(QuestionPart { known, key, cost })
}

/// Parses the key and the policy name of `tg:{KEY}NAME`.
fn parse_key(state_key: &[u8]) -> Result<(Vec<u8>, &str), Fault> {
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
            assert_eq!(parse_key(written.as_bytes()).unwrap(), (key.as_bytes().to_vec(), name), "{written}");
        }
        assert!(parse_key(b"tg:{100%}").unwrap_err().to_string().contains("%25"));
        assert!(parse_key(b"tg:{a{b}").unwrap_err().to_string().contains("%7B"));
    }
}
