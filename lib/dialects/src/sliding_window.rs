//! `sliding_window KEY (SIZE_ms LIMIT)+ [EXTRA_TTL_ms]`: the exact event log of rdslim.
//!
//! The reply is 0 and the request is recorded, or it is the index of the first full window, counted from 1, and nothing
//! is recorded. All windows of a key count the same events, so a window that is added later counts those that are held:
//! those of the longest window of the calls before. An event still counts exactly SIZE later, so a window of the kernel
//! is one microsecond longer. A limit of 0 or less always refuses. The original forgets events that the second window still needs if the first is not the
//! largest, and breaks on a fractional size.

use tollgate_kernel::algorithms::Rule;
use tollgate_kernel::algorithms::sliding::Sliding;
use tollgate_kernel::{Decision, Detail, EXACT, Limit, Micros, Request, SharedWindows, Timestamp};

use crate::api_counter::ApiCounterUsage;
use crate::arguments::{decimal, one_key};
use crate::call::{Action, Convention, ParsedCall};
use crate::error::DialectError;
use crate::reply::{DialectReply, ReplyValue};
use crate::{Dialect, LuaTwin};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "sliding_window",
    usage: "KEY (size_ms limit)+ [extra_ttl_ms]",
    parse,
    allows: |[first, _]| first == ReplyValue::Integer(0),
    lua: Some(LuaTwin {
        run: "sliding_window",
        algorithms: &["sliding"],
        files: &[include_str!("sliding_window.lua")],
    }),
};

fn parse(keys: &[&[u8]], args: &[&[u8]]) -> Result<ParsedCall, DialectError> {
    let key = one_key(keys)?;
    if args.len() < 2 {
        return Err(DialectError::number("arguments", "2 or more (size, limit, ..., extra_ttl)", args.len()));
    }
    let (pairs, extra) = args.as_chunks::<2>();
    let extra = extra.first().map_or(Ok(0), |text| micros("extra_ttl", text))?;
    let mut sizes = Vec::with_capacity(pairs.len());
    let mut limits = Vec::with_capacity(pairs.len());
    for (index, &[size_text, limit_text]) in pairs.iter().enumerate() {
        let size = micros(&format!("size {}", index + 1), size_text)?;
        let count = count(&format!("limit {}", index + 1), limit_text)?;
        let repeated = sizes.iter().filter(|earlier| **earlier == size).count();
        limits.push(limit(index, size, count, repeated, size_text)?);
        sizes.push(size);
    }
    let windows = SharedWindows::new(limits).map_err(|error| DialectError::policy("windows", error))?;
    let kept = sizes.first().copied().unwrap_or_default().saturating_add(extra);
    let largest = sizes.into_iter().max().unwrap_or_default();
    let convention = SlidingWindowConvention { life: Micros::new(kept.max(largest)) };
    let call = ParsedCall::new(key.to_vec(), windows.keeper().clone(), Action::Check(Request::ONE), convention);
    Ok(call.reaching_back(Micros::new(kept)).on_one_log(windows))
}

/// Parses milliseconds, possibly with a fraction, into microseconds rounded down.
fn micros(name: &str, text: &[u8]) -> Result<u64, DialectError> {
    let expected = "a number of milliseconds from 0 to 9007199254740";
    let number = decimal(name, text, expected)?;
    let micros = number.floor_shifted(3).filter(|micros| *micros < EXACT);
    micros.ok_or_else(|| DialectError::new(name, expected, text))
}

/// Parses a limit. A window with `text` or more events is full, so a fraction is rounded up.
fn count(name: &str, text: &[u8]) -> Result<u64, DialectError> {
    let expected = format!("a number of at most {EXACT}");
    let number = decimal(name, text, &expected)?;
    if number.is_negative() {
        return Ok(0);
    }
    number.ceil().filter(|count| *count <= EXACT).ok_or_else(|| DialectError::new(name, expected, text))
}

/// Builds the limit of a window. A size that is given again is distinguished by `repeated`, the number of windows of that
/// size before it.
fn limit(index: usize, size: u64, count: u64, repeated: usize, text: &[u8]) -> Result<Limit, DialectError> {
    let wrong = |problem| DialectError::limit(format!("size {}", index + 1), problem, text);
    let rule = Sliding::of_single_units(count, Micros::new(size + 1)).map_err(wrong)?;
    let limit = Limit::new(Rule::Sliding(rule));
    if repeated == 0 {
        return Ok(limit);
    }
    limit.named(&format!("window-{size}-{repeated}")).map_err(wrong)
}

#[derive(Debug)]
struct SlidingWindowConvention {
    life: Micros,
}

impl Convention for SlidingWindowConvention {
    fn reply(&self, decision: &Decision, _details: &[Detail], _usage: &ApiCounterUsage) -> DialectReply {
        DialectReply::Int(decision.limited_by.map_or(0, |index| index as i64 + 1))
    }

    fn life(&self, _decision: &Decision, _home: Timestamp) -> Micros {
        self.life
    }
}

#[cfg(test)]
mod tests {
    use tollgate_kernel::{KeyState, Policy, merge_windows};

    use super::*;
    use crate::testing::{TestHome, error};

    const T: u64 = 1_700_000_000_000_000;

    // 100 requests an hour, no more than 10 a minute.
    #[test]
    fn the_documents_example_of_burst_control() {
        let mut home = TestHome::new(&DIALECT);
        let args = &["3600000", "100", "60000", "10"];
        assert_eq!(home.ask_times(11, T, &["k"], args).concat(), "00000000002");
        let minute = 60_000_001;
        for round in 1..9 {
            assert_eq!(home.ask_times(11, T + round * minute, &["k"], args).concat(), "00000000002");
        }
        assert_eq!(home.ask_times(11, T + 9 * minute, &["k"], args).concat(), "00000000001");
        assert_eq!(home.ask(T + 10 * minute, &["k"], args), "1");
    }

    #[test]
    fn an_event_counts_until_exactly_its_size_later() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask(T, &["k"], &["1000", "1"]), "0");
        assert_eq!(home.ask(T + 1_000_000, &["k"], &["1000", "1"]), "1");
        assert_eq!(home.ask(T + 1_000_001, &["k"], &["1000", "1"]), "0");
    }

    #[test]
    fn size_0_counts_one_instant() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask_times(2, T, &["k"], &["0", "1"]).concat(), "01");
        assert_eq!(home.ask(T + 1, &["k"], &["0", "1"]), "0");
    }

    #[test]
    fn limit_0_or_less_always_refuses_with_its_index() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask(T, &["k"], &["1000", "5", "100", "0"]), "2");
        assert_eq!(home.ask(T, &["k"], &["1000", "-7", "100", "0"]), "1");
        assert_eq!(home.ask(T, &["k"], &["1000", "5"]), "0");
    }

    #[test]
    fn the_same_window_twice_works() {
        let mut home = TestHome::new(&DIALECT);
        let args = &["1000", "3", "1000", "2", "1000", "3"];
        assert_eq!(home.ask_times(3, T, &["k"], args).concat(), "002");
    }

    // Bug 21.
    #[test]
    fn a_clock_set_back_admits_no_more() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask_times(4, T, &["k"], &["1000", "4"]).concat(), "0000");
        assert_eq!(home.ask_times(4, T - 1, &["k"], &["1000", "4"]).concat(), "1111");
    }

    // Bug 22.
    #[test]
    fn a_fractional_size_is_a_size() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask(T, &["k"], &["0.5", "1"]), "0");
        assert_eq!(home.ask(T + 500, &["k"], &["0.5", "1"]), "1");
        assert_eq!(home.ask(T + 501, &["k"], &["0.5", "1"]), "0");
        assert_eq!(home.ttl(T, &["other"], &["0.5", "1"]), Some(500));
    }

    // Bug 23.
    #[test]
    fn a_first_window_that_is_not_the_largest_blinds_no_other() {
        let mut home = TestHome::new(&DIALECT);
        let replies: String = (0..6).map(|k| home.ask(T + k * 120_000, &["k"], &["100", "2", "10000", "3"])).collect();
        assert_eq!(replies, "000222");
        assert_eq!(home.ttl(T, &["other"], &["100", "2", "10000", "3"]), Some(10_000_000));
    }

    // Bug 24.
    #[test]
    fn more_than_a_million_events_are_counted() {
        let mut home = TestHome::new(&DIALECT);
        let mut last = String::new();
        for k in 0..1_000_002 {
            last = home.ask(T + k, &["k"], &["60000", "1000001"]);
        }
        assert_eq!(last, "1");
    }

    #[test]
    fn extra_ttl_lengthens_the_life_and_only_a_success_sets_it() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ttl(T, &["k"], &["1000", "1", "500"]), Some(1_500_000));
        assert_eq!(home.ttl(T, &["k"], &["1000", "1", "500"]), None);
    }

    #[test]
    fn a_changed_limit_keeps_what_was_counted() {
        let mut home = TestHome::new(&DIALECT);
        home.ask_times(3, T, &["k"], &["1000", "3", "500", "9"]);
        assert_eq!(home.ask(T, &["k"], &["500", "9", "1000", "3"]), "2");
        assert_eq!(home.ask(T, &["k"], &["500", "9", "1000", "4"]), "0");
    }

    #[test]
    fn a_window_that_is_added_later_counts_what_is_held() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask_times(3, T, &["k"], &["3600000", "100"]).concat(), "000");
        let both = &["3600000", "100", "60000", "3"];
        assert_eq!(home.ask(T + 1_000_000, &["k"], both), "2");
        assert_eq!(home.ask(T + 60_000_000, &["k"], both), "2");
        assert_eq!(home.ask(T + 60_000_001, &["k"], both), "0");
        // A longer one counts what the others have kept.
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask_times(3, T, &["k"], &["60000", "9"]).concat(), "000");
        assert_eq!(home.ask_times(2, T + 60_000_000, &["k"], &["3600000", "4"]).concat(), "01");
    }

    #[test]
    fn events_are_kept_for_the_longest_window_of_all_callers() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(home.ask_times(2, T, &["k"], &["3600000", "3"]).concat(), "00");
        assert_eq!(home.ask(T + 120_000_000, &["k"], &["1000", "9"]), "0");
        assert_eq!(home.ask(T + 121_000_000, &["k"], &["3600000", "3"]), "1");
        // An hour later nothing is held, and the window is forgotten with the events.
        let later = T + 2 * 3_600_000_000;
        assert_eq!(home.ask(later + 200_000_000, &["k"], &["1000", "9"]), "0");
        assert_eq!(home.ask(later + 202_000_000, &["k"], &["1000", "9"]), "0");
        assert_eq!(home.ask_times(3, later + 203_000_000, &["k"], &["3600000", "3"]).concat(), "001");
    }

    #[test]
    fn logs_of_earlier_releases_are_merged() {
        let limit = |size: u64, count| limit(0, size, count, 0, b"").unwrap();
        let apart = |sizes: &[(u64, u64)]| {
            Policy::new(sizes.iter().map(|(size, count)| limit(*size, *count)).collect()).unwrap()
        };
        let (minute, hour) = ((60_000_000, 10), (3_600_000_000, 100));
        let at = |us| Timestamp::saturating(T + us);
        let mut state = KeyState::default();
        // Two events of both windows, and one that only the window of a minute saw.
        assert!(state.decide(&apart(&[hour, minute]), at(0), &Request::ONE).allowed);
        assert!(state.decide(&apart(&[minute]), at(1), &Request::ONE).allowed);
        assert!(state.decide(&apart(&[hour, minute]), at(2), &Request::ONE).allowed);
        let fixed: Policy = "5/h fixed".parse().unwrap();
        assert!(state.decide(&fixed, at(2), &Request::ONE).allowed);
        let mut state = merge_windows(state);
        assert_eq!(state.each().count(), 2, "one log, and the state of another dialect");
        let args: [&[u8]; 4] = [b"3600000", b"4", b"60000", b"10"];
        let call = parse(&[b"k"], &args).unwrap();
        let replies: Vec<_> = (3..5).map(|us| call.run(&mut state, at(us)).unwrap().to_string()).collect();
        assert_eq!(replies, ["0", "1"], "three events were held");
        assert_eq!(merge_windows(state.clone()), state);
    }

    #[test]
    fn wrong_arguments_are_named() {
        let size = "a number of milliseconds from 0 to 9007199254740";
        for (args, message) in [
            (&[][..], "arguments: expected 2 or more (size, limit, ..., extra_ttl), found 0".to_owned()),
            (&["5"], "arguments: expected 2 or more (size, limit, ..., extra_ttl), found 1".to_owned()),
            (&["x", "1"], format!(r#"size 1: expected {size}, found "x""#)),
            (&["5", "1", "-5", "1"], format!(r#"size 2: expected {size}, found "-5""#)),
            (&["5", "many"], r#"limit 1: expected a number of at most 9007199254740992, found "many""#.to_owned()),
            (
                &["5", "9007199254740993"],
                r#"limit 1: expected a number of at most 9007199254740992, found "9007199254740993""#.to_owned(),
            ),
            (&["5", "1", "-1"], format!(r#"extra_ttl: expected {size}, found "-1""#)),
            (&["5", "1", "y"], format!(r#"extra_ttl: expected {size}, found "y""#)),
            (
                &["140737488356", "1"],
                r#"size 1: expected a window of at most 2^47us (1628 days), found "140737488356""#.to_owned(),
            ),
        ] {
            assert_eq!(error(&DIALECT, &["k"], args), message);
        }
        assert_eq!(error(&DIALECT, &["a", "b"], &["5", "1"]), "keys: expected 1, found 2");
        assert_eq!(error(&DIALECT, &["k"], &["5", "1"].repeat(33)), "windows: expected 1 to 32 of them, found 33");
    }

    #[test]
    fn a_life_that_reaches_behind_the_epoch_is_refused() {
        let mut home = TestHome::new(&DIALECT);
        let message = r#"ERR size 1 and extra_ttl: expected together at most the time since the epoch, in microseconds, found "1800000000000000""#;
        assert_eq!(home.ask(T, &["k"], &["1000", "1", "1799999999000"]), message);
        assert_eq!(home.ask(T, &["k"], &["1000", "1", "1699999999000"]), "0");
    }
}
