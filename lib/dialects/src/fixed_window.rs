//! `fixed_window KEY limit window_s`: the counter per window of PlugLimit -> `[allow|block, headers]`.
//!
//! The first request of a key opens the window, whether or not it is allowed, and every request counts as one. The
//! headers are the limit, the seconds to the end of the window rounded up, and the units that remain. A window of 0,
//! with which the original allows everything, is an error.

use tollgate_kernel::{Decision, Detail, Limit, Micros, Mode, Options, Policy, Request};

use crate::api_counter::ApiCounterUsage;
use crate::arguments::{MAX_SECONDS, integer, one_key};
use crate::call::{Action, Convention, ParsedCall, Wording};
use crate::error::DialectError;
use crate::reply::{DialectReply, ReplyValue};
use crate::{Dialect, LuaTwin};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "fixed_window",
    usage: "KEY limit window_s",
    parse,
    allows: RefusalWord::allows,
    lua: Some(LuaTwin { run: "fixed_window", algorithms: &["fixed"], files: &[include_str!("fixed_window.lua")] }),
};

fn parse(keys: &[&[u8]], args: &[&[u8]]) -> Result<ParsedCall, DialectError> {
    let key = one_key(keys)?;
    let &[limit, window] = args else {
        return Err(DialectError::number("arguments", "2 (limit, window)", args.len()));
    };
    let count = integer("limit", limit, 0, tollgate_kernel::EXACT)?;
    let seconds = integer("window", window, 1, MAX_SECONDS)?;
    let built = Limit::build("fixed", count, Micros::from_secs(seconds), &Options::default());
    let built = built.map_err(|problem| DialectError::limit("window", problem, window))?;
    let policy = Policy::new(vec![built]).map_err(|error| DialectError::policy("limit", error))?;
    // A refused request counts too, so that it opens the window even if the limit is 0.
    let request = Request::ONE.mode(Mode::Uniform);
    Ok(ParsedCall::new(
        key.to_vec(),
        policy,
        Action::Check(request),
        FixedWindowConvention { limit: count, refusal: RefusalWord::default() },
    ))
}

#[derive(Debug)]
struct FixedWindowConvention {
    limit: u64,
    refusal: RefusalWord,
}

impl Convention for FixedWindowConvention {
    fn reply(&self, decision: &Decision, _details: &[Detail], _usage: &ApiCounterUsage) -> DialectReply {
        let remaining = decision.remaining.max(0);
        let headers = [self.limit.to_string(), decision.reset_after.secs_up().to_string(), remaining.to_string()];
        self.refusal.reply(decision.allowed, headers)
    }

    fn speak(&mut self, wording: Wording) {
        self.refusal = RefusalWord(wording);
    }
}

/// The word of PlugLimit for a refusal: its documentation says "block", its scripts say "deny".
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RefusalWord(pub(crate) Wording);

impl RefusalWord {
    /// Returns whether a reply allows what was asked for: its first word says so.
    pub(crate) fn allows([first, _]: [ReplyValue<'_>; 2]) -> bool {
        first == ReplyValue::Text(b"allow")
    }

    pub(crate) fn reply(self, allowed: bool, headers: impl IntoIterator<Item = String>) -> DialectReply {
        let word = match (allowed, self.0) {
            (true, _) => "allow",
            (false, Wording::Document) => "block",
            (false, Wording::Script) => "deny",
        };
        DialectReply::Array(vec![DialectReply::Text(word.to_owned()), DialectReply::texts(headers)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestHome, error};

    const T: u64 = 1_700_000_000_000_000;

    #[test]
    fn the_documents_example() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask(T, &["my_protected_pipeline_name:12345"], &["10", "60"]), "[allow, [10, 60, 9]]");
    }

    #[test]
    fn a_window_lasts_from_its_first_request_to_just_before_its_end() {
        let mut home = TestHome::new(&DIALECT);
        let mut at = |t| home.ask(t, &["k"], &["1", "60"]);
        assert_eq!(at(T), "[allow, [1, 60, 0]]");
        assert_eq!(at(T + 59_000_001), "[block, [1, 1, 0]]");
        assert_eq!(at(T + 59_999_999), "[block, [1, 1, 0]]");
        assert_eq!(at(T + 60_000_000), "[allow, [1, 60, 0]]");
    }

    // Bug 25.
    #[test]
    fn limit_0_blocks_the_first_request_and_opens_its_window() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask(T, &["k"], &["0", "60"]), "[block, [0, 60, 0]]");
        assert_eq!(home.ask(T + 1_000_000, &["k"], &["0", "60"]), "[block, [0, 59, 0]]");
    }

    #[test]
    fn the_scripts_own_clients_hear_deny() {
        let call = parse(&[b"k"], &[b"0", b"60"]).unwrap().speaking(Wording::Script);
        let reply = call.run(&mut Default::default(), tollgate_kernel::Timestamp::saturating(T)).unwrap();
        assert_eq!(reply.to_string(), "[deny, [0, 60, 0]]");
    }

    #[test]
    fn the_state_lives_to_the_end_of_the_window() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ttl(T, &["k"], &["1", "60"]), Some(60_000_000));
        assert_eq!(home.ttl(T + 5, &["k"], &["1", "60"]), Some(59_999_995));
    }

    // Bug 26 is the second line.
    #[test]
    fn wrong_arguments_are_named() {
        for (args, message) in [
            (&["5"][..], "arguments: expected 2 (limit, window), found 1"),
            (&["1", "0"], r#"window: expected an integer from 1 to 9007199254, found "0""#),
            (&["1", "0.5"], r#"window: expected an integer from 1 to 9007199254, found "0.5""#),
            (&["1", "9007199255"], r#"window: expected an integer from 1 to 9007199254, found "9007199255""#),
            (&["-1", "5"], r#"limit: expected an integer from 0 to 9007199254740992, found "-1""#),
            (
                &["9007199254740993", "5"],
                r#"limit: expected an integer from 0 to 9007199254740992, found "9007199254740993""#,
            ),
            (&["ten", "5"], r#"limit: expected an integer from 0 to 9007199254740992, found "ten""#),
        ] {
            assert_eq!(error(&DIALECT, &["k"], args), message);
        }
        assert_eq!(error(&DIALECT, &[], &["1", "5"]), "keys: expected 1, found 0");
    }
}
