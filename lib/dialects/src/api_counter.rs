//! `api_counter {api:TOKEN} threshold`: the counter per token and minute of redis-limiter.
//!
//! The reply has allowed (0 or 1), the count of this minute, the minute (0 to 59), the Unix second of the last use (nil
//! before the first) and the total number of uses. Only an allowed request is counted, and only it changes `last` and
//! `ops`. The original lets one request too many pass, counts in two steps, and lets a counter expire within its own
//! minute.
//!
//! In Redis the count is stored at `{api:TOKEN}:MM` and the usage at `{api:TOKEN}:data`; the names are made here.

use tollgate_kernel::{Alignment, Decision, Detail, EXACT, Limit, Micros, Options, Policy, Request, Timestamp};

use crate::arguments::{integer, one_key};
use crate::call::{Action, Convention, ParsedCall};
use crate::error::DialectError;
use crate::reply::{DialectReply, ReplyValue};
use crate::{Dialect, LuaTwin};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "api_counter",
    usage: "{api:TOKEN} threshold",
    parse,
    allows: |[first, _]| first == ReplyValue::Integer(1),
    lua: Some(LuaTwin { run: "api_counter", algorithms: &["fixed"], files: &[include_str!("api_counter.lua")] }),
};

/// How long the usage of a token is kept after its last use.
pub const DATA_LIFE: Micros = Micros::from_secs(366 * 86_400);

const MINUTE: Micros = Micros::from_secs(60);

/// The usage of a token: this minute's count, and from its data the last use and the number of all uses.
///
/// ```
/// use tollgate_kernel::{KeyState, Timestamp};
/// use tollgate_dialects::{ApiCounterUsage, find};
/// let call = (find("api_counter").unwrap().parse)(&[b"{api:0ubo9qku7y}"], &[b"100"]).unwrap();
/// let (mut state, mut usage) = (KeyState::default(), ApiCounterUsage::default());
/// let now = Timestamp::new(1_700_000_000_000_000).unwrap();
/// let outcome = call.run_with(&mut state, &mut usage, now).unwrap();
/// assert_eq!(outcome.reply.to_string(), "[1, 1, 13, 1700000000, 1]");
/// assert_eq!(usage, ApiCounterUsage { count: 1, last: Some(1_700_000_000), ops: 1 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiCounterUsage {
    /// The requests counted in this minute.
    pub count: u64,
    /// The Unix second of the last use.
    pub last: Option<u64>,
    /// The number of all uses, never reset.
    pub ops: u64,
}

impl ApiCounterUsage {
    /// Returns the usage after a decision that left a count of `count` in the minute.
    #[must_use]
    pub fn after(self, decision: &Decision, count: u64) -> Self {
        let now = decision.at.get() / 1_000_000;
        // The minute that was counted may still be in the future, if the clock was set back.
        let ends = decision.at.plus(decision.reset_after).get();
        let counted = Some(ends.saturating_sub(MINUTE.get()) / 1_000_000);
        // A `last` whose minute begins more than a minute ahead is dropped: the clock was set back.
        let started = |last: &u64| Micros::from_secs(last - last % 60).get();
        let last = self.last.filter(|last| started(last) <= decision.at.plus(MINUTE).get());
        if decision.charged == 0 {
            let gone = self.last.is_some() && last.is_none() && count > 0;
            return Self { count, last: if gone { counted } else { self.last }, ..self };
        }
        Self { count, last: last.max(Some(now)).max(counted), ops: self.ops.saturating_add(1) }
    }
}

/// Returns the minute of the hour at `at`, as in the name of its counter.
pub fn minute(at: Timestamp) -> u64 {
    at.get() / MINUTE.get() % 60
}

/// Returns the name of the counter of a minute, such as `{api:TOKEN}:54`.
pub fn counter_name(key: &[u8], minute: u64) -> Vec<u8> {
    [key, b":", minute.to_string().as_bytes()].concat()
}

/// Returns the name of the data of a token: `{api:TOKEN}:data`.
pub fn data_name(key: &[u8]) -> Vec<u8> {
    [key, b":data"].concat()
}

fn parse(keys: &[&[u8]], args: &[&[u8]]) -> Result<ParsedCall, DialectError> {
    let key = one_key(keys)?;
    if !key.starts_with(b"{api:") || !key.ends_with(b"}") {
        // The braces keep a token's names on one shard of a cluster.
        return Err(DialectError::new("key", "{api:TOKEN}", key));
    }
    let &[threshold] = args else {
        return Err(DialectError::number("arguments", "1 (threshold)", args.len()));
    };
    let count = integer("threshold", threshold, 0, EXACT)?;
    let options = Options { align: Some(Alignment::Clock), ..Options::default() };
    let built = Limit::build("fixed", count, MINUTE, &options);
    let built = built.map_err(|problem| DialectError::limit("threshold", problem, threshold))?;
    let policy = Policy::new(vec![built]).map_err(|error| DialectError::policy("threshold", error))?;
    Ok(ParsedCall::new(key.to_vec(), policy, Action::Check(Request::ONE), ApiCounterConvention)
        .with_usage(data_name(key)))
}

#[derive(Debug)]
struct ApiCounterConvention;

impl Convention for ApiCounterConvention {
    fn reply(&self, decision: &Decision, _details: &[Detail], usage: &ApiCounterUsage) -> DialectReply {
        // The minute that was counted, which ends when the limit is reset; the current minute if nothing was counted.
        let counted = match decision.reset_after {
            Micros::ZERO => decision.at,
            left => Timestamp::saturating(decision.at.plus(left).get().saturating_sub(1)),
        };
        DialectReply::Array(vec![
            DialectReply::Int(i64::from(decision.allowed)),
            DialectReply::Int(usage.count as i64),
            DialectReply::Int(minute(counted) as i64),
            usage.last.map_or(DialectReply::Nil, |last| DialectReply::Int(last as i64)),
            DialectReply::Int(i64::try_from(usage.ops).unwrap_or(i64::MAX)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestHome, error};

    const S: u64 = 1_000_000;
    /// Second 0 of minute 14.
    const T: u64 = 1_700_000_040 * S;
    const TOKEN: &[&str] = &["{api:0ubo9qku7y}"];

    // Bug 17.
    #[test]
    fn the_threshold_is_the_most_a_minute_allows() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask(T, TOKEN, &["2"]), "[1, 1, 14, 1700000040, 1]");
        assert_eq!(home.ask(T + S, TOKEN, &["2"]), "[1, 2, 14, 1700000041, 2]");
        assert_eq!(home.ask(T + 2 * S, TOKEN, &["2"]), "[0, 2, 14, 1700000041, 2]");
        assert_eq!(home.ask(T + 60 * S, TOKEN, &["2"]), "[1, 1, 15, 1700000100, 3]");
    }

    // Bug 19.
    #[test]
    fn a_count_stays_to_the_end_of_its_minute() {
        let mut home = TestHome::new(&DIALECT);
        home.ask(T, TOKEN, &["1"]);
        assert_eq!(home.ask(T + 59_999_999, TOKEN, &["1"]), "[0, 1, 14, 1700000040, 1]");
        assert_eq!(home.ttl(T + 60 * S, TOKEN, &["1"]), Some(60 * S));
        assert_eq!(home.ttl(T + 119 * S, TOKEN, &["2"]), Some(S));
    }

    #[test]
    fn threshold_0_denies_all_and_counts_nothing() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask(T, TOKEN, &["0"]), "[0, 0, 14, nil, 0]");
        assert_eq!(home.ttl(T, TOKEN, &["0"]), None);
    }

    #[test]
    fn a_lowered_threshold_still_tells_the_true_count() {
        let mut home = TestHome::new(&DIALECT);
        home.ask_times(7, T, TOKEN, &["10"]);
        assert_eq!(home.ask(T, TOKEN, &["2"]), "[0, 7, 14, 1700000040, 7]");
    }

    #[test]
    fn the_minute_after_59_is_0_and_ops_never_start_again() {
        let mut home = TestHome::new(&DIALECT);
        let hour = 1_700_002_800 * S;
        assert_eq!(home.ask(hour - 1, TOKEN, &["2"]), "[1, 1, 59, 1700002799, 1]");
        assert_eq!(home.ask(hour, TOKEN, &["2"]), "[1, 1, 0, 1700002800, 2]");
        assert_eq!(home.ask(hour + 3_600 * S, TOKEN, &["2"]), "[1, 1, 0, 1700006400, 3]");
    }

    #[test]
    fn a_clock_set_back_neither_admits_more_nor_moves_last_back() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask(T, TOKEN, &["2"]), "[1, 1, 14, 1700000040, 1]");
        assert_eq!(home.ask(T - S, TOKEN, &["2"]), "[1, 2, 14, 1700000040, 2]");
        assert_eq!(home.ask(T - S, TOKEN, &["2"]), "[0, 2, 14, 1700000040, 2]");
    }

    #[test]
    fn names_are_as_the_document_has_them() {
        assert_eq!(counter_name(b"{api:0ubo9qku7y}", 54), b"{api:0ubo9qku7y}:54");
        assert_eq!(data_name(b"{api:5I68T5910K}"), b"{api:5I68T5910K}:data");
        let call = parse(&[b"{api:x}"], &[b"1"]).unwrap();
        assert_eq!(call.usage_key(), Some(b"{api:x}:data".as_slice()));
    }

    #[test]
    fn wrong_arguments_are_named() {
        assert_eq!(error(&DIALECT, TOKEN, &[]), "arguments: expected 1 (threshold), found 0");
        assert_eq!(
            error(&DIALECT, TOKEN, &["-1"]),
            r#"threshold: expected an integer from 0 to 9007199254740992, found "-1""#
        );
        assert_eq!(error(&DIALECT, &["user:1"], &["5"]), r#"key: expected {api:TOKEN}, found "user:1""#);
        assert_eq!(error(&DIALECT, &[], &["5"]), "keys: expected 1, found 0");
    }
}
