//! Keys that become unlimited: the server decides on a state that it then does not keep.

use super::Sizes;
use crate::attack::caller::{CheckReply, answered, check, many_limits};
use crate::attack::stage::Stage;
use crate::{Failure, Report};

/// Keys: nearly as many as 4 MiB hold packed.
const KEYS: u64 = 90_000;
/// Keys under texts of many limits.
const HEAVY: u64 = 20_000;
/// How often each is asked for.
const REPEATS: u64 = 3;

/// The grants of each key, counted.
struct Counts(Vec<u8>);

impl Counts {
    fn new(keys: u64) -> Self {
        Self(vec![0; keys as usize])
    }

    fn add(&mut self, key: u64, answer: &CheckReply) {
        if let (CheckReply::Granted(units), Some(count)) = (answer, self.0.get_mut(key as usize)) {
            *count = count.saturating_add(u8::try_from(*units).unwrap_or(u8::MAX));
        }
    }

    /// A finding if a key got more than its limits admit.
    fn judge(&self, report: &mut Report, policy: &str, most: u8) {
        let over = self.0.iter().filter(|count| **count > most).count();
        let highest = self.0.iter().max().copied().unwrap_or_default();
        report.demand(over == 0, || {
            let all = self.0.len();
            format!("keys become unlimited: {over} of {all} keys got up to {highest} units of {policy}, at most {most}")
        });
    }
}

/// Keys that fit packed, then under a policy that needs a record each.
pub(super) fn by_record(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let stage = Stage::started(sizes.caps, "  login: 5/h\n")?;
    let mut caller = stage.attacker()?;
    caller.flood(0..KEYS, |key| check(format!("u:{key}"), "1/w gcra"), |_, _| {})?;
    let mut counts = Counts::new(KEYS);
    for _ in 0..REPEATS {
        caller.flood(
            0..KEYS,
            |key| check(format!("u:{key}"), "1/h"),
            |key, reply| counts.add(key, &answered(reply)),
        )?;
    }
    counts.judge(report, "1/h", 1);
    stage.judge_memory(report)
}

/// A policy of the file whose keys fit packed, to which a limit is added.
pub(super) fn by_reload(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let stage = Stage::started(sizes.caps, "  api: 5/w gcra\n")?;
    let mut caller = stage.honest()?;
    caller.flood(0..KEYS, |key| check(format!("u:{key}"), "api"), |_, _| {})?;
    stage.reload("  api: 5/w gcra, 2/d\n")?;
    let mut counts = Counts::new(KEYS);
    for _ in 0..REPEATS {
        caller.flood(
            0..KEYS,
            |key| check(format!("u:{key}"), "api"),
            |key, reply| counts.add(key, &answered(reply)),
        )?;
    }
    counts.judge(report, "5/w gcra, 2/d since the reload", 2);
    stage.judge_memory(report)
}

/// Few keys that take much memory each.
pub(super) fn by_texts(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let stage = Stage::started(sizes.caps, "  login: 5/h\n")?;
    let mut caller = stage.attacker()?;
    let mut counts = Counts::new(HEAVY);
    for _ in 0..2 {
        caller.flood(
            0..HEAVY,
            |key| check(format!("u:{key}"), "1/w"),
            |key, reply| counts.add(key, &answered(reply)),
        )?;
        for number in 0..3 {
            let text = many_limits(32, number);
            caller.flood(0..HEAVY, |key| check(format!("u:{key}"), &text), |_, _| {})?;
        }
    }
    counts.judge(report, "1/w", 1);
    stage.judge_memory(report)
}
