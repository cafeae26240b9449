//! `rolling KEY... mode n now_us minDifference_us... max... bucketInterval_us... buckets...`: the rolling limiter
//! with modes -> actionsRemaining, acknowledged, wait in microseconds.
//!
//! There is one key and one of each number for every limit. The mode is 0 for uniform, 1 for binary and 2 for nary; the
//! interval is bucketInterval times buckets. The wait is until n are acknowledged in full, or until nothing is left if
//! n is more than fits. Where the original differs from its document, the document is followed: minDifference is
//! enforced, and the wait includes the half bucket by which entries outlive the interval. The original also counts a
//! growing bucket twice and loses buckets that are close together.

use tollgate_kernel::algorithms::rolling::MAX_BUCKETS;
use tollgate_kernel::{
    Decision, Detail, EXACT, Limit, Micros, Mode, Options, Policy, Request, Source, Timestamp, Wait,
};

use crate::api_counter::ApiCounterUsage;
use crate::arguments::{cost, decimal, integer};
use crate::call::{Action, CallClock, Convention, ParsedCall};
use crate::error::DialectError;
use crate::output::Output;
use crate::reply::{DialectReply, ReplyValue};
use crate::{Dialect, LuaTwin};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "rolling",
    usage: "KEY... mode n now_us min_difference_us... max... bucket_interval_us... buckets...",
    parse,
    allows,
    lua: Some(LuaTwin { run: "rolling_window", algorithms: &["rolling"], files: &[include_str!("rolling.lua")] }),
};

/// The reply is remaining, acknowledged, wait. In uniform mode every attempt is acknowledged, and after a refusal remaining
/// is below zero; attempts that only came too soon after others look as those that did not.
fn allows([remaining, acknowledged]: [ReplyValue<'_>; 2]) -> bool {
    matches!((remaining, acknowledged), (ReplyValue::Integer(0..), ReplyValue::Integer(1..)))
}

/// The modes in the order of their numbers.
pub(crate) const MODES: [Mode; 3] = [Mode::Uniform, Mode::Binary, Mode::Nary];

fn parse(keys: &[&[u8]], args: &[&[u8]]) -> Result<ParsedCall, DialectError> {
    if keys.is_empty() {
        return Err(DialectError::number("keys", "1 or more", 0));
    }
    let each = keys.len();
    let (&[mode, n, now], rest) = match args.split_first_chunk::<3>() {
        Some(split) if split.1.len() == 4 * each => split,
        _ => {
            let expected = format!("{} (mode, n, now, and 4 for each key)", 3 + 4 * each);
            return Err(DialectError::number("arguments", expected, args.len()));
        }
    };
    let mode = read_mode(mode)?;
    let cost = cost("n", n, 1)?;
    let now = Timestamp::saturating(integer("now", now, 0, EXACT - 1)?);
    let mut limits = Vec::with_capacity(each);
    let mut life = Micros::ZERO;
    for index in 0..each {
        let numbers = [0, 1, 2, 3].map(|kind| rest.get(kind * each + index).copied().unwrap_or_default());
        let (limit, own) = read_limit(index, each, numbers)?;
        life = life.max(own);
        limits.push(limit);
    }
    let policy = Policy::new(limits).map_err(|error| DialectError::policy("keys", error))?;
    let request = Request::cost(cost).mode(mode).wait_for(cost.get());
    let convention = RollingConvention { n: cost.get(), life };
    let call =
        ParsedCall::new(state_key(keys), policy, Action::Check(request), convention).by_clock(CallClock::Caller(now));
    Ok(if mode == Mode::Uniform { call.counting_refused() } else { call })
}

fn read_mode(text: &[u8]) -> Result<Mode, DialectError> {
    let mode = match text {
        b"0" => MODES.first(),
        b"1" => MODES.get(1),
        b"2" => MODES.get(2),
        _ => None,
    };
    mode.copied().ok_or_else(|| DialectError::new("mode", "0 (uniform), 1 (binary) or 2 (nary)", text))
}

/// Reads the limit of the key at `index` of `each`. Also returns how long an entry of it lives.
fn read_limit(
    index: usize,
    each: usize,
    [spacing, max, step, buckets]: [&[u8]; 4],
) -> Result<(Limit, Micros), DialectError> {
    let name = |what: &str| format!("{what} {}", index + 1);
    let spacing = integer(&name("min_difference"), spacing, 0, EXACT - 1)?;
    let count = integer(&name("max"), max, 1, EXACT)?;
    let parts = integer(&name("buckets"), buckets, 1, MAX_BUCKETS)?;
    let expected = "a number that times buckets is a whole number of microseconds from 1 to 9007199254740991";
    let interval = decimal(&name("bucket_interval"), step, expected)?.times_back_to_whole(parts);
    let interval = interval.filter(|interval| (1..EXACT).contains(interval));
    let interval = interval.ok_or_else(|| DialectError::new(name("bucket_interval"), expected, step))?;
    let options = Options { buckets: Some(parts), ..Options::default() };
    // Named by position and grid, since a log has a meaning only on its own grid. A changed max keeps the state.
    let id = format!("rolling-{}-{each}-{interval}-{parts}", index + 1);
    let built = Limit::build("rolling", count, Micros::new(interval), &options)
        .and_then(|limit| limit.spaced(Micros::new(spacing)))
        .and_then(|limit| limit.named(&id))
        .map_err(|problem| DialectError::limit(name("bucket_interval"), problem, step))?;
    Ok((built, Micros::new(interval + interval / (2 * parts))))
}

/// Returns one state key for all keys of a call: the key itself, or all of them with their lengths. The names of the
/// limits keep the two forms apart.
fn state_key(keys: &[&[u8]]) -> Vec<u8> {
    if let &[key] = keys {
        return key.to_vec();
    }
    let mut name = Vec::new();
    for key in keys {
        name.extend(format!("{}:", key.len()).bytes());
        name.extend(*key);
    }
    name
}

#[derive(Debug)]
struct RollingConvention {
    n: u64,
    /// How long an entry counts, the longest over the limits.
    life: Micros,
}

/// The answer of a rolling limiter with modes, by the names of its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollingResult {
    /// The number of attempts that are recorded: in uniform mode all, in binary mode all or none.
    pub acknowledged: u64,
    /// The number of actions that remain; negative only in uniform mode.
    pub actions_remaining: i64,
    /// The time until a batch of this size is acknowledged in full.
    pub wait: Micros,
    /// Who decided: the home, or what stood in for it.
    pub source: Source,
}

impl RollingResult {
    /// Creates the answer to `n` attempts from their decision.
    pub fn new(n: u64, decision: &Decision, details: &[Detail]) -> Self {
        let waits = details.iter().map(|detail| match detail.retry_after {
            Wait::After(wait) if n <= detail.count => wait,
            // No wait is long enough: report the time until the list is empty.
            _ => detail.reset_after,
        });
        let wait = waits.max().unwrap_or_default();
        Self { acknowledged: decision.charged, actions_remaining: decision.remaining, wait, source: decision.source }
    }

    /// Reads the reply of the script: remaining, acknowledged and the wait in microseconds. `None` if it is another reply.
    pub fn read(reply: &Output) -> Option<Self> {
        let [Output::Integer(remaining), Output::Integer(acknowledged), Output::Integer(wait)] = reply.list() else {
            return None;
        };
        let (acknowledged, wait) = (u64::try_from(*acknowledged).ok()?, Micros::new(u64::try_from(*wait).ok()?));
        Some(Self { acknowledged, actions_remaining: *remaining, wait, source: Source::Home })
    }
}

impl Convention for RollingConvention {
    fn reply(&self, decision: &Decision, details: &[Detail], _usage: &ApiCounterUsage) -> DialectReply {
        let result = RollingResult::new(self.n, decision, details);
        DialectReply::ints([result.actions_remaining, result.acknowledged as i64, result.wait.get() as i64])
    }

    fn life(&self, decision: &Decision, _home: Timestamp) -> Micros {
        // The original's lifetime in whole seconds, or longer where a spacing outlasts the interval.
        Micros::from_secs(self.life.secs_up()).max(decision.reset_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestHome, error};

    const T: u64 = 1_700_000_000_000_000;

    /// Makes a call with one limit: `[min_difference, max, bucket_interval, buckets]`.
    fn one(home: &mut TestHome, mode: &str, n: &str, now: u64, limit: [&str; 4]) -> String {
        let now = now.to_string();
        home.ask(0, &["k"], &[&[mode, n, &now][..], &limit].concat())
    }

    #[test]
    fn binary_takes_all_or_nothing_and_nary_what_fits() {
        let limit = ["0", "10", "100", "10000"];
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(one(&mut home, "1", "8", T, limit), "[2, 8, 1000050]");
        assert_eq!(one(&mut home, "1", "5", T + 1, limit), "[2, 0, 1000049]");
        assert_eq!(one(&mut home, "2", "5", T + 1, limit), "[0, 2, 1000049]");
        assert_eq!(one(&mut home, "2", "5", T + 1, limit), "[0, 0, 1000049]");
        assert_eq!(one(&mut home, "1", "5", T + 1_000_049, limit), "[0, 0, 1]");
        assert_eq!(one(&mut home, "1", "5", T + 1_000_050, limit), "[5, 5, 0]");
    }

    #[test]
    fn uniform_counts_on_and_tells_the_true_excess() {
        let limit = ["0", "3", "100", "10000"];
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(one(&mut home, "0", "5", T, limit), "[-2, 5, 1000050]");
        assert_eq!(one(&mut home, "0", "1", T, limit), "[-3, 1, 1000050]");
        let huge = "9007199254740991";
        let message = "ERR count: expected at most 9007199254740986 more than the 6 counted, 2^53 in all, found";
        assert_eq!(one(&mut home, "0", huge, T, limit), format!("{message} \"{huge}\""));
        assert_eq!(one(&mut home, "0", "1", T, limit), "[-4, 1, 1000050]");
    }

    // Bug 30.
    #[test]
    fn min_difference_is_enforced() {
        let limit = ["100000", "10", "1000", "1000"];
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(one(&mut home, "1", "1", T, limit), "[9, 1, 100000]");
        assert_eq!(one(&mut home, "1", "1", T + 99_999, limit), "[9, 0, 1]");
        assert_eq!(one(&mut home, "2", "1", T + 99_999, limit), "[9, 0, 1]");
        assert_eq!(one(&mut home, "1", "1", T + 100_000, limit), "[8, 1, 100000]");
        assert_eq!(one(&mut home, "0", "1", T + 100_001, limit), "[7, 1, 100000]");
    }

    // Bug 31.
    #[test]
    fn after_exactly_the_wait_n_is_acknowledged() {
        let limit = ["0", "1", "1000", "1000"];
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(one(&mut home, "1", "1", 5_000_000, limit), "[0, 1, 1000500]");
        assert_eq!(one(&mut home, "1", "1", 6_000_000, limit), "[0, 0, 500]");
        assert_eq!(one(&mut home, "1", "1", 6_000_500, limit), "[0, 1, 1000500]");
    }

    // Bug 32.
    #[test]
    fn a_growing_bucket_counts_each_action_once() {
        let limit = ["0", "10", "1000000", "10"];
        let mut home = TestHome::new(&DIALECT);
        for (k, left) in [(0, 9), (1, 8), (2, 7), (3, 6)] {
            assert!(one(&mut home, "1", "1", T + k, limit).starts_with(&format!("[{left}, 1,")));
        }
    }

    // Bug 33.
    #[test]
    fn buckets_closer_than_100_us_lose_no_action() {
        let limit = ["0", "10", "10", "1000"];
        let mut home = TestHome::new(&DIALECT);
        for (k, left) in [(0, 9), (1, 8), (2, 7), (3, 6), (4, 5)] {
            assert!(one(&mut home, "1", "1", T + 20 * k, limit).starts_with(&format!("[{left}, 1,")));
        }
    }

    #[test]
    fn more_than_max_waits_until_the_list_is_empty() {
        let limit = ["0", "3", "100", "10000"];
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(one(&mut home, "1", "4", T, limit), "[3, 0, 0]");
        one(&mut home, "1", "1", T, limit);
        one(&mut home, "1", "1", T + 500_000, limit);
        assert_eq!(one(&mut home, "1", "4", T + 500_000, limit), "[1, 0, 1000050]");
    }

    #[test]
    fn several_limits_are_charged_together() {
        let mut home = TestHome::new(&DIALECT);
        // The limits are 3 per hour and 2 per minute.
        let mut at = |now: u64, n: &str| {
            let now = now.to_string();
            let args = ["1", n, &now, "0", "0", "3", "2", "360000", "6000", "10000", "10000"];
            home.ask(0, &["0:u", "1:u"], &args)
        };
        assert_eq!(at(T, "2"), "[0, 2, 3600180000]");
        assert_eq!(at(T + 1, "1"), "[0, 0, 60002999]");
        assert_eq!(at(T + 60_003_000, "1"), "[0, 1, 3540177000]");
    }

    // A third of a millisecond has no exact decimal form; the client sends the result of its division.
    #[test]
    fn an_interval_that_does_not_divide_evenly_is_still_whole() {
        let mut home = TestHome::new(&DIALECT);
        let limit = ["0", "1", "333.3333333333333", "3"];
        assert_eq!(one(&mut home, "1", "1", T, limit), "[0, 1, 1166]");
        assert_eq!(one(&mut home, "1", "1", T + 1_165, limit), "[0, 0, 1]");
        assert_eq!(one(&mut home, "1", "1", T + 1_166, limit), "[0, 1, 1166]");
    }

    #[test]
    fn one_key_and_two_keys_never_share_a_state() {
        let single = parse(&[b"1:a1:b"], &[b"1", b"1", b"1", b"0", b"1", b"1", b"1"]).unwrap();
        let args: [&[u8]; 11] = [b"1", b"1", b"1", b"0", b"0", b"1", b"1", b"1", b"1", b"1", b"1"];
        let double = parse(&[b"a", b"b"], &args).unwrap();
        assert_eq!(single.state_key(), double.state_key());
        assert_ne!(single.policy().limits()[0].id(), double.policy().limits()[0].id());
    }

    #[test]
    fn a_state_lives_as_long_as_its_entries() {
        let mut home = TestHome::new(&DIALECT);
        let now = T.to_string();
        let args = &["1", "1", &now, "0", "10", "100", "10000"];
        assert_eq!(home.ttl(0, &["k"], args), Some(2_000_000));
        let spaced = &["1", "1", &now, "9000000", "10", "100", "10000"];
        assert_eq!(home.ttl(0, &["other"], spaced), Some(9_000_000));
    }

    // Bug 36 is the third line.
    #[test]
    fn wrong_arguments_are_named() {
        let with =
            |mode: &'static str, n: &'static str, limit: [&'static str; 4]| [&[mode, n, "1"][..], &limit].concat();
        let good = ["0", "10", "100", "10000"];
        for (args, message) in [
            (with("1", "0", good), r#"n: expected an integer from 1 to 9007199254740991, found "0""#),
            (with("1", "-1", good), r#"n: expected an integer from 1 to 9007199254740991, found "-1""#),
            (with("1", "1.5", good), r#"n: expected an integer from 1 to 9007199254740991, found "1.5""#),
            (with("3", "1", good), r#"mode: expected 0 (uniform), 1 (binary) or 2 (nary), found "3""#),
            (
                with("1", "1", ["-1", "10", "100", "10000"]),
                r#"min_difference 1: expected an integer from 0 to 9007199254740991, found "-1""#,
            ),
            (
                with("1", "1", ["0", "0", "100", "10000"]),
                r#"max 1: expected an integer from 1 to 9007199254740992, found "0""#,
            ),
            (
                with("1", "1", ["0", "10", "100", "0"]),
                r#"buckets 1: expected an integer from 1 to 10000000, found "0""#,
            ),
            (
                with("1", "1", ["0", "10", "-0.1", "10000"]),
                "bucket_interval 1: expected a number that times buckets is a whole number of microseconds \
                 from 1 to 9007199254740991, found \"-0.1\"",
            ),
            (
                with("1", "1", ["0", "10", "0.25", "10"]),
                "bucket_interval 1: expected a number that times buckets is a whole number of microseconds \
                 from 1 to 9007199254740991, found \"0.25\"",
            ),
            (vec!["1", "1", "1"], "arguments: expected 7 (mode, n, now, and 4 for each key), found 3"),
        ] {
            assert_eq!(error(&DIALECT, &["k"], &args), message);
        }
        assert_eq!(error(&DIALECT, &[], &["1", "1", "1"]), "keys: expected 1 or more, found 0");
    }
}
