//! `slot_window KEY count namespace [[max, duration, resolution], ...] now [want_wait]`: the sliding window of time
//! slots of o1.rate-limiter -> 1 if exceeded, else nil; or the wait, 0 if not exceeded.
//!
//! The wait is for one more event after those counted, over all limits; -1 means that no wait helps. The original
//! reports 0 for a burst in one slot, or the age of a slot instead of the time left. A resolution longer than the
//! duration, under which nothing ever counts, is an error.

use tollgate_kernel::algorithms::Rule;
use tollgate_kernel::algorithms::slots::{MAX_SLOTS_UNREFUNDED, Slots};
use tollgate_kernel::{EXACT, Limit};

use crate::call::ParsedCall;
use crate::error::DialectError;
use crate::slotted::{self, LimitFields, LimitNumber, Ticks};
use crate::{Dialect, LuaTwin};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "slot_window",
    usage: "KEY count namespace limits now [want_wait]",
    parse,
    allows: slotted::allows,
    lua: Some(LuaTwin {
        run: "slot_window",
        algorithms: &["slots"],
        files: &[include_str!("slotted.lua"), include_str!("slot_window.lua")],
    }),
};

const FIELDS: LimitFields = [
    // The document's own spelling, and the correct one.
    ("max", &["maxOcurrences", "maxOccurrences"]),
    ("duration", &["limitDuration"]),
    ("resolution", &["durationResolution"]),
];

fn parse(keys: &[&[u8]], args: &[&[u8]]) -> Result<ParsedCall, DialectError> {
    let arguments = slotted::read(keys, args, &FIELDS)?;
    let ticks = arguments.ticks();
    let limits: Vec<Limit> = arguments.limits.iter().map(|given| limit(given, ticks)).collect::<Result<_, _>>()?;
    let longest = limits.iter().map(Limit::period).max();
    Ok(arguments.call(limits, ticks, longest)?.counting_refused())
}

fn limit([max, duration, resolution]: &[LimitNumber; 3], ticks: Ticks) -> Result<Limit, DialectError> {
    // Events are whole, so a total above a fraction is a total above its floor.
    let count = max.decimal.floor_shifted(0).filter(|count| *count <= EXACT);
    let count = count.ok_or_else(|| max.wrong(format!("a number from 0 to {EXACT}")))?;
    let (period, slot) = (ticks.span(duration)?, ticks.span(resolution)?);
    if slot > period {
        return Err(resolution.wrong(format!("at most the duration, {}", duration.text)));
    }
    if period.get() / slot.get() > MAX_SLOTS_UNREFUNDED {
        return Err(
            resolution.wrong(format!("at most {MAX_SLOTS_UNREFUNDED} slots in the duration, {}", duration.text))
        );
    }
    let built = Slots::unrefunded(count, period, slot).map(|slots| Limit::new(Rule::Slots(slots)));
    // Named by all its numbers in the caller's unit, as the original names its keys. Limits that differ only in their
    // `max` are therefore counted separately. Doubles are named by their bits.
    let name = format!("slots-{count}-{:x}-{:x}", resolution.double.to_bits(), duration.double.to_bits());
    built.and_then(|limit| limit.named(&name)).map_err(|problem| resolution.wrong(problem.expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{HOME, TestHome, ask_slotted as ask, error};

    // Once in 5 seconds and 5 times an hour, in the document's own spelling.
    #[test]
    fn the_documents_example() {
        let limits = r#"[
            {"maxOcurrences": 1, "limitDuration": 5, "durationResolution": 1},
            {"maxOccurrences": 5, "limitDuration": 3600, "durationResolution": 600}
        ]"#;
        let mut home = TestHome::new(&DIALECT);
        let mut replies = Vec::new();
        for now in ["1200", "1201", "1205", "1210", "1215", "1220"] {
            replies.push(ask(&mut home, "1", limits, now, "0"));
        }
        // The second attempt counts too, so the five places of the hour are taken before the last attempt.
        assert_eq!(replies, ["nil", "1", "1", "nil", "nil", "1"]);
    }

    // Three times an hour in slots of 20 minutes: a slot leaves an hour after it began.
    #[test]
    fn slots_leave_a_duration_after_they_began() {
        let mut home = TestHome::new(&DIALECT);
        let limits = "[[3, 3600, 1200]]";
        for now in ["1199", "1200", "2400"] {
            assert_eq!(ask(&mut home, "1", limits, now, "1"), "0");
        }
        assert_eq!(ask(&mut home, "1", limits, "3599", "1"), "1201");
        assert_eq!(ask(&mut home, "0", limits, "3600", "1"), "0");
        // Slots with 1, 2 and 1 events: the one with 2 must leave too.
        assert_eq!(ask(&mut home, "1", limits, "3600", "1"), "2400");
    }

    // Bug 1.
    #[test]
    fn waits_for_a_burst_in_one_slot_are_told() {
        let mut home = TestHome::new(&DIALECT);
        let replies: Vec<_> = (0..3).map(|_| ask(&mut home, "1", "[[1,5,1]]", "1000", "1")).collect();
        assert_eq!(replies, ["0", "5", "5"]);
    }

    // Bug 2.
    #[test]
    fn a_wait_is_the_time_left_over_all_limits() {
        let mut home = TestHome::new(&DIALECT);
        let limits = "[[1,5,1],[5,3600,600]]";
        for now in ["1000", "1005", "1010", "1015", "1020"] {
            assert_eq!(ask(&mut home, "1", limits, now, "1"), "0");
        }
        // The slot of second 600 leaves at 4200.
        assert_eq!(ask(&mut home, "1", limits, "1021", "1"), "3179");
    }

    // Bug 3.
    #[test]
    fn want_wait_left_out_0_or_empty_is_no() {
        for args in [&["1", "ns", "[[1,5,1]]", "1000"][..], &["1", "ns", "[[1,5,1]]", "1000", ""]] {
            let mut home = TestHome::new(&DIALECT);
            assert_eq!(home.ask_times(3, HOME, &["k"], args), ["nil", "1", "1"]);
        }
        let mut home = TestHome::new(&DIALECT);
        let args = &["1", "ns", "[[1,5,1]]", "1000", "0"];
        assert_eq!(home.ask_times(3, HOME, &["k"], args), ["nil", "1", "1"]);
    }

    // Bug 4.
    #[test]
    fn waits_beyond_eleven_slots_are_told_at_once() {
        let mut home = TestHome::new(&DIALECT);
        let limits = "[[1000000,3600,1]]";
        for now in 1_000..1_020 {
            assert_eq!(ask(&mut home, "1", limits, &now.to_string(), "1"), "0");
        }
        // There is room for one event when the slot of the million leaves.
        assert_eq!(ask(&mut home, "1000000", limits, "1020", "1"), "3600");
        assert_eq!(ask(&mut home, "0", limits, "1021", "1"), "3599");
        let mut home = TestHome::new(&DIALECT);
        for now in 1_000..1_020 {
            ask(&mut home, "1", "[[15,3600,1]]", &now.to_string(), "1");
        }
        // 20 events: six of them must leave.
        assert_eq!(ask(&mut home, "0", "[[15,3600,1]]", "1020", "1"), "3585");
    }

    // Bug 5.
    #[test]
    fn a_limit_with_decimals_leaves_the_others_alone() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(ask(&mut home, "1", "[[1,5,1]]", "1000", "1"), "0");
        assert_eq!(ask(&mut home, "1", "[[1,5,1],[100,0.5,0.1]]", "1000", "1"), "5");
    }

    #[test]
    fn a_reset_finds_the_state_of_any_unit_without_a_clock() {
        for (now, limits) in [
            ("1700000000", "[[1,86400,3600]]"),
            ("1700000000000", "[[1,86400000,3600000]]"),
            ("1700000000000000", "[[1,86400000000,3600000000]]"),
        ] {
            let mut home = TestHome::new(&DIALECT);
            assert_eq!(ask(&mut home, "2", limits, now, "0"), "1");
            assert_eq!(ask(&mut home, "-1", limits, "0", "0"), "nil");
            assert_eq!(ask(&mut home, "0", limits, now, "0"), "nil", "{now}");
        }
    }

    #[test]
    fn fractional_times_are_times() {
        let mut home = TestHome::new(&DIALECT);
        let limits = "[[1,0.5,0.1]]";
        assert_eq!(ask(&mut home, "1", limits, "1000.1", "0"), "nil");
        assert_eq!(ask(&mut home, "1", limits, "1000.15", "0"), "1");
        assert_eq!(ask(&mut home, "0", limits, "1000.59", "0"), "1");
        assert_eq!(ask(&mut home, "0", limits, "1000.6", "0"), "nil");
    }

    #[test]
    fn a_fractional_wait_is_rounded_up() {
        let mut home = TestHome::new(&DIALECT);
        let limits = "[[1,2.5,0.5]]";
        ask(&mut home, "2", limits, "1000", "1");
        // The slot leaves at 1002.5.
        for (now, wait) in [("1000.25", "3"), ("1000.5", "2"), ("1001.49", "2"), ("1001.5", "1"), ("1002.49", "1")] {
            assert_eq!(ask(&mut home, "0", limits, now, "1"), wait, "{now}");
        }
        assert_eq!(ask(&mut home, "0", limits, "1002.5", "1"), "0");
    }

    // Compares whole ticks and a `now` between them with the definition in doubles.
    #[test]
    fn a_now_between_ticks_decides_like_the_definition() {
        let (max, duration, resolution) = (3.0, 1.75, 0.25);
        let mut home = TestHome::new(&DIALECT);
        let mut events: Vec<f64> = Vec::new();
        let mut now = 1_000.0;
        for step in 0..2_000u32 {
            now += f64::from(step * 7_919 % 32) / 64.0;
            events.push((now / resolution).floor());
            let total = |at: f64| events.iter().filter(|slot| **slot * resolution + duration > at).count() as f64;
            let expected = if total(now) <= max {
                0.0
            } else {
                let leaves = events.iter().map(|slot| slot * resolution + duration);
                leaves.filter(|at| total(*at) + 1.0 <= max).fold(f64::INFINITY, f64::min) - now
            };
            let reply = ask(&mut home, "1", "[[3,1.75,0.25]]", &now.to_string(), "1");
            assert_eq!(reply, expected.ceil().to_string(), "step {step} at {now}");
        }
    }

    // Bug 6.
    #[test]
    fn any_unit_of_time_has_a_life_of_the_right_length() {
        let hour = 3_600_000_000u64;
        let mut home = TestHome::new(&DIALECT);
        let life = home.ttl(472_222 * hour, &["k"], &["1", "ns", "[[1,2,1]]", "472222", "0"]);
        assert_eq!(life, Some(2 * hour));
        let life = home.ttl(HOME, &["k"], &["1", "ns", "[[1,2000,1000]]", "1700000000000", "0"]);
        assert_eq!(life, Some(2_000_000));
        let life = home.ttl(HOME, &["k"], &["1", "ns", "[[1,0.5,0.1]]", "1700000000", "0"]);
        assert_eq!(life, Some(500_000));
        let life = home.ttl(HOME, &["k"], &["1", "ns", "[[1,5,1]]", "0", "0"]);
        assert_eq!(life, Some(366 * 24 * hour));
        assert_eq!(home.ttl(HOME, &["k"], &["0", "ns", "[[1,5,1]]", "1700000000", "0"]), None);
    }

    // Bug 7.
    #[test]
    fn a_microsecond_clock_limits() {
        let mut home = TestHome::new(&DIALECT);
        let replies: Vec<_> = (0..3).map(|_| ask(&mut home, "1", "[[1,5000000,1]]", "1700000000123456", "0")).collect();
        assert_eq!(replies, ["nil", "1", "1"]);
    }

    #[test]
    fn counts_up_to_2_to_the_53_are_exact() {
        let mut home = TestHome::new(&DIALECT);
        let limits = "[[9007199254740992,5,1]]";
        assert_eq!(ask(&mut home, "9007199254740991", limits, "1000", "1"), "0");
        assert_eq!(ask(&mut home, "1", limits, "1000", "1"), "0");
        let message = "ERR count: expected at most 0 more than the 9007199254740992 counted, 2^53 in all, found \"2\"";
        assert_eq!(ask(&mut home, "2", limits, "1000", "1"), message);
        assert_eq!(ask(&mut home, "1", limits, "1000", "1"), message.replace("\"2\"", "\"1\""));
        assert_eq!(ask(&mut home, "0", limits, "1000", "1"), "0");
        assert_eq!(ask(&mut home, "0", limits, "1005", "1"), "0");
    }

    // Bug 9.
    #[test]
    fn a_limit_given_twice_counts_once() {
        let mut home = TestHome::new(&DIALECT);
        let replies: Vec<_> = (0..3).map(|_| ask(&mut home, "1", "[[2,5,1],[2,5,1]]", "1000", "0")).collect();
        assert_eq!(replies, ["nil", "nil", "1"]);
    }

    #[test]
    fn limits_that_differ_only_in_their_max_both_count() {
        let mut home = TestHome::new(&DIALECT);
        let replies: Vec<_> = (0..3).map(|_| ask(&mut home, "1", "[[2,5,1],[1,5,1]]", "1000", "0")).collect();
        assert_eq!(replies, ["nil", "1", "1"]);
        assert_eq!(ask(&mut home, "0", "[[2,5,1]]", "1000", "0"), "1");
        assert_eq!(ask(&mut home, "0", "[[3,5,1]]", "1000", "0"), "nil");
    }

    #[test]
    fn a_count_below_0_forgets_these_limits_only() {
        let mut home = TestHome::new(&DIALECT);
        ask(&mut home, "5", "[[1,5,1],[2,5,1]]", "1000", "0");
        assert_eq!(ask(&mut home, "-1", "[[1,5,1]]", "0", "0"), "nil");
        assert_eq!(ask(&mut home, "-1", "[[1,5,1]]", "", "1"), "0");
        assert_eq!(ask(&mut home, "0", "[[1,5,1]]", "1000", "0"), "nil");
        assert_eq!(ask(&mut home, "0", "[[2,5,1]]", "1000", "0"), "1");
    }

    #[test]
    fn namespaces_are_apart() {
        let mut home = TestHome::new(&DIALECT);
        for namespace in ["", "a", "a:b"] {
            let args = &["1", namespace, "[[1,5,1]]", "1000", "0"];
            assert_eq!(home.ask_times(2, HOME, &["k"], args), ["nil", "1"]);
        }
    }

    #[test]
    fn max_0_is_exceeded_by_any_event_and_no_wait_helps() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(ask(&mut home, "0", "[[0,5,1]]", "1000", "1"), "0");
        assert_eq!(ask(&mut home, "1", "[[0,5,1]]", "1000", "1"), "-1");
    }

    // Bug 8 is the resolution longer than the duration.
    #[test]
    fn wrong_arguments_are_named() {
        let limits = "limits: expected a JSON array of limits such as [[max, duration, resolution]]";
        for (limits, message) in [
            ("[[1,60,100]]", r#"limits[0] resolution: expected at most the duration, 60, found "100""#.to_owned()),
            (
                "[[1,60,0]]",
                r#"limits[0] resolution: expected above 0 and below 2^53 ticks of 1e-6, found "0""#.to_owned(),
            ),
            (
                "[[1,5,1],[1,-5,0.1]]",
                r#"limits[1] duration: expected above 0 and below 2^53 ticks of 1e-6, found "-5""#.to_owned(),
            ),
            ("[[-1,5,1]]", r#"limits[0] max: expected a number from 0 to 9007199254740992, found "-1""#.to_owned()),
            (
                "[[1e16,5,1]]",
                r#"limits[0] max: expected a number from 0 to 9007199254740992, found "1e+16""#.to_owned(),
            ),
            (
                "[[1,10000001,1]]",
                r#"limits[0] resolution: expected at most 10000000 slots in the duration, 10000001, found "1""#
                    .to_owned(),
            ),
            ("[]", "limits: expected 1 to 32 of them, found 0".to_owned()),
            ("", format!(r#"{limits}, found """#)),
            ("5", format!(r#"{limits}, found "5""#)),
            ("[[1,5]]", format!(r#"{limits}, found "[[1,5]]""#)),
            (r#"[["1",5,1]]"#, format!(r#"{limits}, found "[[\"1\",5,1]]""#)),
            (r#"[{"max":1}]"#, format!(r#"{limits}, found "[{{\"max\":1}}]""#)),
        ] {
            assert_eq!(error(&DIALECT, &["k"], &["1", "ns", limits, "1000"]), message);
        }
        let ok = "[[1,5,1]]";
        for (args, message) in [
            (&["1", "ns", ok][..], "arguments: expected 4 or 5 (count, namespace, limits, now, want_wait), found 3"),
            (&["1.5", "ns", ok, "1"], r#"count: expected an integer of at most 9007199254740991, found "1.5""#),
            (&["x", "ns", ok, "1"], r#"count: expected an integer of at most 9007199254740991, found "x""#),
            (
                &["9007199254740992", "ns", ok, "1"],
                r#"count: expected an integer of at most 9007199254740991, found "9007199254740992""#,
            ),
            (&["1", "ns", ok, "-1"], r#"now: expected a time from 0 and below 2^53 ticks of 1, found "-1""#),
            (&["1", "ns", ok, "soon"], r#"now: expected a time from 0 and below 2^53 ticks of 1e-6, found "soon""#),
            (
                &["1", "ns", ok, "9007199254740992"],
                r#"now: expected a time from 0 and below 2^53 ticks of 1, found "9007199254740992""#,
            ),
            (
                &["1", "ns", "[[1,0.5,0.0000001]]", "1000"],
                r#"limits[0] resolution: expected a multiple of 1e-6, found "1e-7""#,
            ),
        ] {
            assert_eq!(error(&DIALECT, &["k"], args), message);
        }
        assert_eq!(error(&DIALECT, &[], &["1", "ns", ok, "1"]), "keys: expected 1, found 0");
    }
}
