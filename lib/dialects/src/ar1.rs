//! `ar1 KEY count namespace [[max, decay, resolution], ...] now [want_wait]`: the AR(1) moving average of
//! o1.rate-limiter. Its replies are those of `slot_window`.
//!
//! At the edge of each slot the level is divided by the decay, which must be above 1; max may be a fraction. The
//! original truncates the level's fraction, fails on a key that has faded, reports waits that leave no room for the
//! event, and treats a clock that steps back as an error.

use tollgate_kernel::{EXACT, Limit, MAX_TIME, Options};

use crate::call::ParsedCall;
use crate::error::DialectError;
use crate::slotted::{self, LimitFields, LimitNumber, Ticks};
use crate::{Dialect, LuaTwin};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "ar1",
    usage: "KEY count namespace limits now [want_wait]",
    parse,
    allows: slotted::allows,
    lua: Some(LuaTwin {
        run: "ar1",
        algorithms: &["decay"],
        files: &[include_str!("slotted.lua"), include_str!("ar1.lua")],
    }),
};

const FIELDS: LimitFields = [
    ("max", &["maxOcurrences", "maxOccurrences"]),
    ("decay", &["decayFactor", "decay"]),
    ("resolution", &["durationResolution", "limitResolution"]),
];

fn parse(keys: &[&[u8]], args: &[&[u8]]) -> Result<ParsedCall, DialectError> {
    let arguments = slotted::read(keys, args, &FIELDS)?;
    let ticks = arguments.ticks();
    let limits: Vec<Limit> = arguments.limits.iter().map(|given| limit(given, ticks)).collect::<Result<_, _>>()?;
    arguments.call(limits, ticks, None)
}

fn limit([max, decay, resolution]: &[LimitNumber; 3], ticks: Ticks) -> Result<Limit, DialectError> {
    let count = max.decimal.floor_shifted(0).filter(|_| max.double <= EXACT as f64);
    let count = count.ok_or_else(|| max.wrong(format!("a number from 0 to {EXACT}")))?;
    let factor = decay.double;
    if !(factor > 1.0 && factor <= 1e9) {
        return Err(decay.wrong("a number above 1 and at most 1e9"));
    }
    let slot = ticks.span(resolution)?;
    let level = (max.double != count as f64).then_some(max.double);
    let options = Options { factor: Some(factor), level, ..Options::default() };
    // The only remaining error is a level that hardly fades.
    let built = Limit::build("decay", count, slot, &options).map_err(|_| {
        decay.wrong(format!("a decay by which a full level fades away within {} ticks", MAX_TIME.get()))
    })?;
    // Named by all its numbers in the caller's unit, as the original names its keys; doubles are named by their bits.
    let bits = [max.double, factor, resolution.double].map(f64::to_bits);
    let name = format!("ar1-{:x}-{:x}-{:x}", bits[0], bits[1], bits[2]);
    built.named(&name).map_err(|problem| max.wrong(problem.expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{HOME, TestHome, ask_slotted as ask, error};

    // Bug 10: the levels are 1, 1.5, 1.75, 1.875.
    #[test]
    fn the_fraction_of_the_level_is_kept() {
        let mut home = TestHome::new(&DIALECT);
        let replies: Vec<_> =
            ["1000", "1001", "1002", "1003"].map(|now| ask(&mut home, "1", "[[1.6,2,1]]", now, "0")).into();
        assert_eq!(replies, ["nil", "nil", "1", "1"]);
    }

    // Bug 11.
    #[test]
    fn a_tiny_level_is_tiny() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(ask(&mut home, "2", "[[1.2,2,1]]", "1000", "0"), "1");
        assert_eq!(ask(&mut home, "0", "[[1.2,2,1]]", "1020", "0"), "nil");
        assert_eq!(ask(&mut home, "1", "[[1.2,2,1]]", "1021", "0"), "nil");
    }

    // Bug 12.
    #[test]
    fn an_unknown_or_faded_key_tests_as_not_exceeded() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(ask(&mut home, "0", "[[5,2,1]]", "1000", "0"), "nil");
        ask(&mut home, "6", "[[5,2,1]]", "1000", "0");
        assert_eq!(ask(&mut home, "0", "[[5,2,1]]", "9000", "1"), "0");
    }

    // Bug 13: decay 1.1, a thousand events.
    #[test]
    fn a_level_lives_until_it_has_faded() {
        let mut home = TestHome::new(&DIALECT);
        let life = home.ttl(HOME, &["k"], &["1000", "ns", "[[5,1.1,1]]", "1700000000", "0"]);
        assert_eq!(life, Some(458_000_000));
        for (count, slots) in [("1", 54), ("10", 57), ("100", 60), ("1000", 63), ("10000", 67)] {
            let mut home = TestHome::new(&DIALECT);
            let life = home.ttl(HOME, &["k"], &[count, "ns", "[[5,2,1]]", "1700000000", "0"]);
            assert_eq!(life, Some(slots * 1_000_000), "{count}");
        }
    }

    // Bug 14.
    #[test]
    fn a_wait_leaves_room_for_the_event() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(ask(&mut home, "4", "[[2,2,1]]", "1000", "1"), "2");
        assert_eq!(ask(&mut home, "1", "[[2,2,1]]", "1002", "1"), "0");
    }

    // Bug 15.
    #[test]
    fn a_clock_set_back_is_no_error_and_admits_no_more() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(ask(&mut home, "2", "[[2,2,10]]", "1000", "0"), "nil");
        assert_eq!(ask(&mut home, "1", "[[2,2,10]]", "985", "0"), "1");
    }

    #[test]
    fn limits_may_be_objects() {
        let mut home = TestHome::new(&DIALECT);
        let limits = r#"[{"maxOccurrences": 2, "decayFactor": 2, "durationResolution": 1}]"#;
        assert_eq!(ask(&mut home, "4", limits, "1000", "1"), "2");
        assert_eq!(ask(&mut home, "0", "[[2,2,1]]", "1000", "0"), "1");
    }

    #[test]
    fn a_wait_holds_for_all_limits() {
        let mut home = TestHome::new(&DIALECT);
        // Both limits are exceeded: the second falls below its max minus one only at 1040.
        assert_eq!(ask(&mut home, "4", "[[2,2,1],[3,2,40]]", "1000", "1"), "40");
        assert_eq!(ask(&mut home, "0", "[[3,2,40]]", "1000", "1"), "40");
    }

    #[test]
    fn a_max_below_1_is_exceeded_by_any_event_and_no_wait_helps() {
        let mut home = TestHome::new(&DIALECT);
        assert_eq!(ask(&mut home, "1", "[[0.5,2,1]]", "1000", "1"), "-1");
        assert_eq!(ask(&mut home, "-1", "[[0.5,2,1]]", "0", "1"), "0");
        assert_eq!(ask(&mut home, "0", "[[0.5,2,1]]", "1000", "1"), "0");
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (limits, message) in [
            ("[[5,1,1]]", r#"limits[0] decay: expected a number above 1 and at most 1e9, found "1""#),
            ("[[5,0.5,1]]", r#"limits[0] decay: expected a number above 1 and at most 1e9, found "0.5""#),
            ("[[5,2,0]]", r#"limits[0] resolution: expected above 0 and below 2^53 ticks of 1e-6, found "0""#),
            ("[[-5,2,1]]", r#"limits[0] max: expected a number from 0 to 9007199254740992, found "-5""#),
            (
                "[[5,1.0000001,9000000000]]",
                "limits[0] decay: expected a decay by which a full level fades away within 316224000000000 ticks, \
                 found \"1.0000001\"",
            ),
            (
                "[[5,2]]",
                r#"limits: expected a JSON array of limits such as [[max, decay, resolution]], found "[[5,2]]""#,
            ),
        ] {
            assert_eq!(error(&DIALECT, &["k"], &["1", "ns", limits, "1000"]), message);
        }
    }
}
