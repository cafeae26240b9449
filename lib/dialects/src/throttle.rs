//! `CL.THROTTLE key max_burst count period [quantity]`: the command of redis-cell.
//!
//! The reply has limited (0 or 1), the limit (max_burst + 1), the units that remain, the seconds until a retry passes
//! (-1 if the request passed, or never can) and the seconds until the limit is back in its initial state, both rounded
//! up. Quantity 0 peeks. redis-cell refunds on a negative quantity without documenting it; here it is an error.

use tollgate_kernel::{Decision, Detail, EXACT, Limit, Micros, Options, Policy, Request, Wait};

use crate::Dialect;
use crate::api_counter::ApiCounterUsage;
use crate::arguments::{MAX_SECONDS, cost, integer, one_key};
use crate::call::{Action, Convention, ParsedCall};
use crate::error::DialectError;
use crate::reply::{DialectReply, ReplyValue};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "cl.throttle",
    usage: "KEY max_burst count period_s [quantity]",
    parse,
    allows: |[first, _]| first == ReplyValue::Integer(0),
    lua: None,
};

fn parse(keys: &[&[u8]], args: &[&[u8]]) -> Result<ParsedCall, DialectError> {
    let key = one_key(keys)?;
    let (&[max_burst, count, period], quantity) = (match args {
        [head @ .., quantity] if args.len() == 4 => (head, *quantity),
        _ => (args, b"1".as_slice()),
    }) else {
        let expected = "3 or 4 (max_burst, count, period, quantity)";
        return Err(DialectError::number("arguments", expected, args.len()));
    };
    let burst = integer("max_burst", max_burst, 0, EXACT - 1)? + 1;
    let units = integer("count", count, 1, EXACT)?;
    let seconds = integer("period", period, 1, MAX_SECONDS)?;
    let cost = cost("quantity", quantity, 0)?;
    let options = Options { burst: Some(burst), ..Options::default() };
    let built = Limit::build("gcra", units, Micros::from_secs(seconds), &options);
    let built = built.map_err(|problem| DialectError::limit("max_burst", problem, max_burst))?;
    let policy = Policy::new(vec![built]).map_err(|error| DialectError::policy("count", error))?;
    Ok(ParsedCall::new(key.to_vec(), policy, Action::Check(Request::cost(cost)), ThrottleConvention { burst }))
}

#[derive(Debug)]
struct ThrottleConvention {
    burst: u64,
}

impl Convention for ThrottleConvention {
    fn reply(&self, decision: &Decision, _details: &[Detail], _usage: &ApiCounterUsage) -> DialectReply {
        let retry = match decision.retry_after {
            Wait::After(wait) if !decision.allowed => wait.secs_up() as i64,
            _ => -1,
        };
        let reset = decision.reset_after.secs_up() as i64;
        DialectReply::ints([i64::from(!decision.allowed), self.burst as i64, decision.remaining, retry, reset])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestHome, error};

    const T: u64 = 1_700_000_000_000_000;

    // The README's CL.THROTTLE user123 15 30 60 1.
    #[test]
    fn the_documents_example() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask(T, &["user123"], &["15", "30", "60", "1"]), "[0, 16, 15, -1, 2]");
        assert_eq!(home.ask(T, &["user123"], &["15", "30", "60"]), "[0, 16, 14, -1, 4]");
    }

    #[test]
    fn a_refusal_tells_when_to_retry_and_changes_nothing() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask(T, &["k"], &["0", "1", "10"]), "[0, 1, 0, -1, 10]");
        assert_eq!(home.ask(T + 1, &["k"], &["0", "1", "10"]), "[1, 1, 0, 10, 10]");
        assert_eq!(home.ask(T + 9_000_000, &["k"], &["0", "1", "10"]), "[1, 1, 0, 1, 1]");
        assert_eq!(home.ask(T + 9_000_000, &["k"], &["0", "1", "10", "2"]), "[1, 1, 0, -1, 1]");
        assert_eq!(home.ask(T + 10_000_000, &["k"], &["0", "1", "10"]), "[0, 1, 0, -1, 10]");
    }

    #[test]
    fn quantity_0_peeks() {
        let mut home = TestHome::new(&DIALECT);
        home.ask(T, &["k"], &["4", "1", "1", "5"]);
        assert_eq!(home.ask(T, &["k"], &["4", "1", "1", "0"]), "[0, 5, 0, -1, 5]");
        assert_eq!(home.ttl(T, &["k"], &["4", "1", "1", "0"]), None);
    }

    // redis-cell truncates the interval to nanoseconds and reports this as a zero rate.
    #[test]
    fn more_than_a_billion_a_second_is_a_rate() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask(T, &["k"], &["0", "3000000000", "1"]), "[0, 1, 0, -1, 1]");
        assert_eq!(home.ask(T, &["k"], &["0", "3000000000", "1"]), "[1, 1, 0, 1, 1]");
        assert_eq!(home.ask(T + 1, &["k"], &["0", "3000000000", "1"]), "[0, 1, 0, -1, 1]");
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (args, message) in [
            (&["1", "2"][..], "arguments: expected 3 or 4 (max_burst, count, period, quantity), found 2"),
            (&["1", "2", "3", "4", "5"], "arguments: expected 3 or 4 (max_burst, count, period, quantity), found 5"),
            (&["1", "2", "3", "-1"], r#"quantity: expected an integer from 0 to 9007199254740991, found "-1""#),
            (&["-1", "2", "3"], r#"max_burst: expected an integer from 0 to 9007199254740991, found "-1""#),
            (&["1", "0", "3"], r#"count: expected an integer from 1 to 9007199254740992, found "0""#),
            (&["1", "2", "0"], r#"period: expected an integer from 1 to 9007199254, found "0""#),
            (
                &["9007199254740991", "1", "1"],
                "max_burst: expected a burst that refills within 3660 days (burst * period / count), \
                 found \"9007199254740991\"",
            ),
        ] {
            assert_eq!(error(&DIALECT, &["k"], args), message);
        }
        assert_eq!(error(&DIALECT, &[], &["1", "2", "3"]), "keys: expected 1, found 0");
    }
}
