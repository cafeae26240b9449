//! Calls of the Tollgate server, which has commands of its own: no Lua is used and nothing is loaded.
//!
//! ```text
//! TG.CHECK|TG.PEEK key policy [COST n] [MODE m] REST|FULL SOURCE [NAME word]
//! TG.RESET key policy [NAME word]            TG.REFUND key policy n at_us [NAME word]
//! TG.CHECKALL key policy [COST n] [NAME word] [AND key policy …]
//! ```
//!
//! The key is sent as the caller gave it: the server determines where its state is kept, and which policies share
//! the state, by NAME. The policy is sent as its canonical text, which the server parses into the same limits.

use std::sync::Arc;

use tollgate_kernel::{Cost, Policy, StoreError};

use crate::call::{CallArg, RedisCall};
use crate::code::CallKind;

/// A key under a policy.
pub(crate) struct CommandKey<'a> {
    pub(crate) key: &'a [u8],
    /// The policy's text.
    pub(crate) text: Arc<str>,
    /// The policy's name; empty for an unnamed policy.
    pub(crate) name: &'a str,
}

/// Returns the text of a policy, or an error if the text does not parse to the same limits. Dialects can make
/// limits that have no text.
pub(crate) fn text(policy: &Policy) -> Result<Arc<str>, StoreError> {
    let text = policy.to_string();
    match text.parse::<Policy>() {
        Ok(read) if read.limits() == policy.limits() => Ok(text.into()),
        Ok(_) => Err(unwritable(&text, "it is read as another")),
        Err(error) => Err(unwritable(&text, &error.to_string())),
    }
}

fn unwritable(text: &str, why: &str) -> StoreError {
    StoreError::Refused(format!(
        "expected a policy that can be sent as text, found {text:?}, which only dialects make: {why}"
    ))
}

/// Returns a call about one key, with `args` after the policy.
pub(crate) fn call(kind: CallKind, key: &CommandKey<'_>, args: Vec<CallArg>) -> RedisCall {
    let mut all = Vec::with_capacity(args.len() + 5);
    key.write(&mut all);
    all.extend(args);
    if matches!(kind, CallKind::Check | CallKind::Peek) {
        all.push(CallArg::Word("SOURCE"));
    }
    key.write_name(&mut all);
    RedisCall::of_command(name(kind), all)
}

/// Returns a call that decides several keys together.
pub(crate) fn all<'a>(parts: impl Iterator<Item = (CommandKey<'a>, Cost)>) -> RedisCall {
    let mut args = Vec::new();
    for (key, cost) in parts {
        if !args.is_empty() {
            args.push(CallArg::Word("AND"));
        }
        key.write(&mut args);
        if cost != Cost::ONE {
            args.extend([CallArg::Word("COST"), CallArg::Number(cost.get())]);
        }
        key.write_name(&mut args);
    }
    RedisCall::of_command(name(CallKind::All), args)
}

const fn name(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Check => "TG.CHECK",
        CallKind::Peek => "TG.PEEK",
        CallKind::Reset => "TG.RESET",
        CallKind::Refund => "TG.REFUND",
        CallKind::All => "TG.CHECKALL",
    }
}

impl CommandKey<'_> {
    fn write(&self, args: &mut Vec<CallArg>) {
        args.extend([CallArg::Bytes(self.key.to_vec()), CallArg::Text(self.text.clone())]);
    }

    fn write_name(&self, args: &mut Vec<CallArg>) {
        if !self.name.is_empty() {
            args.extend([CallArg::Word("NAME"), CallArg::Text(self.name.into())]);
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_kernel::{Limit, Micros, Mode, Options, Request, Timestamp};

    use super::*;
    use crate::call::LuaForm;
    use crate::prepared::{CallPart, RedisPolicy, ReplyDetail};
    use crate::settings::Packaging;

    fn prepared(text: &str, name: &str) -> RedisPolicy {
        let policy: Policy = text.parse().unwrap();
        let policy = if name.is_empty() { policy } else { policy.with_name(name).unwrap() };
        RedisPolicy::new(&policy, Packaging::Commands).unwrap()
    }

    /// Returns the words of a call as it is sent over the wire.
    fn words(call: &RedisCall) -> Vec<Vec<u8>> {
        let bytes = call.command(LuaForm::Sha).get_packed_command();
        let redis::Value::Array(words) = redis::parse_redis_value(&bytes).unwrap() else { unreachable!() };
        let word = |word: redis::Value| match word {
            redis::Value::BulkString(bytes) => bytes,
            other => panic!("{other:?}"),
        };
        words.into_iter().map(word).collect()
    }

    fn line(call: &RedisCall) -> String {
        String::from_utf8(words(call).join(&b"|"[..])).unwrap()
    }

    fn units(units: u64) -> Cost {
        Cost::new(units).unwrap()
    }

    #[test]
    fn a_call_is_the_bytes_of_its_command() {
        let bytes = prepared("2/min", "").reset(b"k").command(LuaForm::Sha).get_packed_command();
        assert_eq!(bytes, b"*3\r\n$8\r\nTG.RESET\r\n$1\r\nk\r\n$5\r\n2/min\r\n");
    }

    #[test]
    fn calls_are_written_as_the_contract_says() {
        let (bare, named) = (prepared("100/min", ""), prepared("10/s gcra burst=20, 5/h", "login"));
        let at = Timestamp::new(1_790_000_000_123_456).unwrap();
        let rows = [
            (bare.check(b"user:42", &Request::ONE, ReplyDetail::Rest), "TG.CHECK|user:42|100/min|REST|SOURCE"),
            (
                bare.check(b"k", &Request::cost(units(5)).mode(Mode::Nary), ReplyDetail::Full),
                "TG.CHECK|k|100/min|COST|5|MODE|nary|FULL|SOURCE",
            ),
            (
                named.check(b"k", &Request::cost(units(0)).mode(Mode::Uniform).peek(), ReplyDetail::Rest),
                "TG.PEEK|k|10/s gcra burst=20, 5/h|COST|0|MODE|uniform|REST|SOURCE|NAME|login",
            ),
            (bare.reset(b"k"), "TG.RESET|k|100/min"),
            (named.reset(b"k"), "TG.RESET|k|10/s gcra burst=20, 5/h|NAME|login"),
            (bare.refund(b"k", units(3), at), "TG.REFUND|k|100/min|3|1790000000123456"),
            (named.refund(b"k", units(3), at), "TG.REFUND|k|10/s gcra burst=20, 5/h|3|1790000000123456|NAME|login"),
        ];
        for (call, expected) in rows {
            assert_eq!(line(&call), expected);
        }
    }

    #[test]
    fn the_mode_of_a_policy_is_that_of_its_requests() {
        let policy: Policy = "5/h".parse().unwrap();
        let prepared = RedisPolicy::new(&policy.with_mode(Mode::Nary), Packaging::Commands).unwrap();
        assert_eq!(
            line(&prepared.check(b"k", &Request::ONE, ReplyDetail::Rest)),
            "TG.CHECK|k|5/h|MODE|nary|REST|SOURCE"
        );
        let binary = Request::ONE.mode(Mode::Binary);
        assert_eq!(line(&prepared.check(b"k", &binary, ReplyDetail::Rest)), "TG.CHECK|k|5/h|REST|SOURCE");
    }

    #[test]
    fn parts_that_are_decided_together_are_one_call() {
        let (user, team) = (Arc::new(prepared("2/h", "")), Arc::new(prepared("3/h", "team")));
        let parts: Vec<CallPart<'_>> =
            vec![(user.clone(), b"u", units(1)), (team.clone(), b"t", units(2)), (user.clone(), b"AND", units(0))];
        let expected = "TG.CHECKALL|u|2/h|AND|t|3/h|COST|2|NAME|team|AND|AND|2/h|COST|0";
        assert_eq!(line(&RedisPolicy::all(&parts)), expected);
        assert_eq!(line(&RedisPolicy::all(&parts[..1])), "TG.CHECKALL|u|2/h");
    }

    #[test]
    fn a_key_is_any_bytes_and_stays_as_it_is() {
        let key = b"{a}\r\n\x00\xff%";
        let call = prepared("2/min", "").check(key, &Request::ONE, ReplyDetail::Rest);
        assert_eq!(words(&call)[1], key);
    }

    #[test]
    fn every_text_means_the_same_limits_and_limits_without_text_are_refused() {
        for written in [
            "100/min",
            "1/5s, 5/h",
            "10/s gcra burst=20",
            "1000/h fixed align=clock",
            "5/h slots resolution=10min",
            "15/60s bucket burst=3",
            "100/s spacing=10ms name=api",
            "2000000/d grain=1min",
            "8/d estimate",
            "5/10s decay factor=1.5",
        ] {
            let policy: Policy = written.parse().unwrap();
            assert_eq!(text(&policy).unwrap().parse::<Policy>().unwrap(), policy, "{written}");
        }
        let policy = |limit: Limit| Policy::new(vec![limit]).unwrap();
        let hour = Micros::from_secs(3600);
        let wide = Limit::build("fixed", 1 << 52, hour, &Options::default()).unwrap();
        let none = Limit::build("fixed", 0, hour, &Options::default()).unwrap();
        let brief = Limit::build("fixed", 5, Micros::new(10), &Options::default()).unwrap();
        for limit in [wide, none, brief] {
            let error = text(&policy(limit)).unwrap_err().to_string();
            assert!(error.contains("which only dialects make"), "{error}");
        }
    }
}
