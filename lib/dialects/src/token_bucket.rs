//! `token_bucket KEY limit window_s burst`: the bucket of PlugLimit -> `[allow|block, headers]`.
//!
//! The headers are the limit with its policy, the seconds to the end of the window rounded up, the units of the limit
//! that remain in this window, and, if the bucket is empty after the request, the seconds until it holds a token. The
//! original's retry-after ignores the fraction of a token that is already there, and is "inf" where no token arrives
//! before the window ends.

use tollgate_kernel::{Decision, Detail, EXACT, Limit, Micros, Options, Policy, Request, Wait};

use crate::api_counter::ApiCounterUsage;
use crate::arguments::{MAX_SECONDS, integer, one_key};
use crate::call::{Action, Convention, ParsedCall, Wording};
use crate::error::DialectError;
use crate::fixed_window::RefusalWord;
use crate::reply::DialectReply;
use crate::{Dialect, LuaTwin};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "token_bucket",
    usage: "KEY limit window_s burst",
    parse,
    allows: RefusalWord::allows,
    lua: Some(LuaTwin { run: "token_bucket", algorithms: &["bucket"], files: &[include_str!("token_bucket.lua")] }),
};

fn parse(keys: &[&[u8]], args: &[&[u8]]) -> Result<ParsedCall, DialectError> {
    let key = one_key(keys)?;
    let &[limit, window, burst] = args else {
        return Err(DialectError::number("arguments", "3 (limit, window, burst)", args.len()));
    };
    let count = integer("limit", limit, 1, EXACT)?;
    let seconds = integer("window", window, 1, MAX_SECONDS)?;
    let tokens = integer("burst", burst, 1, count)?;
    let options = Options { burst: Some(tokens), ..Options::default() };
    let built = Limit::build("bucket", count, Micros::from_secs(seconds), &options);
    let built = built.map_err(|problem| DialectError::limit("burst", problem, burst))?;
    let policy = Policy::new(vec![built]).map_err(|error| DialectError::policy("limit", error))?;
    let limit = format!("{count} {count};w={seconds};burst={tokens};policy=token_bucket");
    let convention = TokenBucketConvention { limit, refusal: RefusalWord::default() };
    Ok(ParsedCall::new(key.to_vec(), policy, Action::Check(Request::ONE), convention))
}

#[derive(Debug)]
struct TokenBucketConvention {
    limit: String,
    refusal: RefusalWord,
}

impl Convention for TokenBucketConvention {
    fn reply(&self, decision: &Decision, _details: &[Detail], _usage: &ApiCounterUsage) -> DialectReply {
        let mut headers =
            vec![self.limit.clone(), decision.reset_after.secs_up().to_string(), decision.remaining.to_string()];
        // A token always arrives, with the next window at the latest.
        if let Wait::After(wait) = decision.next_after
            && wait > Micros::ZERO
        {
            headers.push(wait.secs_up().to_string());
        }
        self.refusal.reply(decision.allowed, headers)
    }

    fn speak(&mut self, wording: Wording) {
        self.refusal = RefusalWord(wording);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestHome, error};

    const T: u64 = 1_700_000_000_000_000;
    const S: u64 = 1_000_000;

    fn header(limit: u64, window: u64, burst: u64) -> String {
        format!("{limit} {limit};w={window};burst={burst};policy=token_bucket")
    }

    // 15 in 60 seconds, 3 at once: a new token every 5 seconds.
    #[test]
    fn the_documents_example() {
        let mut home = TestHome::new(&DIALECT);
        let limit = header(15, 60, 3);
        let replies = home.ask_times(4, T, &["k"], &["15", "60", "3"]);
        assert_eq!(replies[0], format!("[allow, [{limit}, 60, 14]]"));
        assert_eq!(replies[1], format!("[allow, [{limit}, 60, 13]]"));
        assert_eq!(replies[2], format!("[allow, [{limit}, 60, 12, 5]]"));
        assert_eq!(replies[3], format!("[block, [{limit}, 60, 12, 5]]"));
        assert_eq!(home.ask(T + 5 * S, &["k"], &["15", "60", "3"]), format!("[allow, [{limit}, 55, 11, 5]]"));
        assert_eq!(home.ask(T + 60 * S, &["k"], &["15", "60", "3"]), format!("[allow, [{limit}, 60, 14]]"));
    }

    // Bug 27.
    #[test]
    fn retry_after_counts_the_fraction_in_the_bucket() {
        let mut home = TestHome::new(&DIALECT);
        home.ask_times(3, T, &["k"], &["15", "60", "3"]);
        let reply = home.ask(T + 2 * S, &["k"], &["15", "60", "3"]);
        assert_eq!(reply, format!("[block, [{}, 58, 12, 3]]", header(15, 60, 3)));
    }

    // Bug 28.
    #[test]
    fn retry_after_is_the_end_of_the_window_where_no_token_comes_before() {
        let mut home = TestHome::new(&DIALECT);
        let limit = header(1, 2, 1);
        assert_eq!(home.ask(T, &["k"], &["1", "2", "1"]), format!("[allow, [{limit}, 2, 0, 2]]"));
        assert_eq!(home.ask(T + S, &["k"], &["1", "2", "1"]), format!("[block, [{limit}, 1, 0, 1]]"));
    }

    // Bug 29: exactly one token counts as a token, at every step of every window.
    #[test]
    fn a_bucket_of_exactly_one_token_allows() {
        for limit in 2..40u64 {
            let mut home = TestHome::new(&DIALECT);
            let (window, texts) = (limit - 1, [limit.to_string(), (limit - 1).to_string()]);
            for k in 0..limit - 1 {
                let reply = home.ask(T + k * S, &["k"], &[&texts[0], &texts[1], "1"]);
                assert!(reply.starts_with("[allow"), "{limit} per {window} s at {k} s: {reply}");
            }
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (args, message) in [
            (&["15", "60"][..], "arguments: expected 3 (limit, window, burst), found 2"),
            (&["15", "60", "0"], r#"burst: expected an integer from 1 to 15, found "0""#),
            (&["2", "5", "3"], r#"burst: expected an integer from 1 to 2, found "3""#),
            (&["0", "5", "1"], r#"limit: expected an integer from 1 to 9007199254740992, found "0""#),
            (&["2", "0", "1"], r#"window: expected an integer from 1 to 9007199254, found "0""#),
        ] {
            assert_eq!(error(&DIALECT, &["k"], args), message);
        }
        assert_eq!(error(&DIALECT, &["a", "b"], &["1", "5", "1"]), "keys: expected 1, found 2");
    }
}
