//! Pairs of keys under TG.CHECKALL when memory is full: each part is held to its own policy, also where both share an
//! overflow bucket.

use super::Sizes;
use crate::attack::caller::check;
use crate::attack::stage::Stage;
use crate::{Failure, Report};

/// More than 4 MiB hold, packed and as records.
const KEYS: u64 = 110_000;
const RECORDS: u64 = 20_000;
/// Keys beside one: of 1,024 buckets some are the same.
const TRIED: u64 = 6_000;
const REPEATS: usize = 3;

pub(super) fn sharing(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let stage = Stage::started(sizes.caps, "  login: 5/h\n")?;
    let mut caller = stage.attacker()?;
    caller.flood(0..KEYS, |key| check(format!("u:{key}"), "1/w gcra"), |_, _| {})?;
    caller.flood(0..RECORDS, |key| check(format!("v:{key}"), "1/h"), |_, _| {})?;
    let before = stage.metrics()?.series("tollgate_store_overflow_decisions_total").unwrap_or_default();
    if before == 0.0 {
        return Err(Failure(format!("memory is not full after {KEYS} keys")));
    }
    let (mut over, mut highest) = (0, 0);
    for number in 0..TRIED {
        let strict = format!("b:{number}");
        let mut granted = 0;
        for _ in 0..REPEATS {
            let reply = caller.ask(&["TG.CHECKALL", "a", "100000/d", "AND", &strict, "1/d"])?;
            if reply.at(0).int() != Some(1) {
                break;
            }
            granted += 1;
        }
        over += u64::from(granted > 1);
        highest = highest.max(granted);
    }
    report.demand(over == 0, || {
        format!("a part is decided under another's policy: {over} of {TRIED} keys got up to {highest} of {REPEATS} units of 1/d")
    });
    Ok(())
}
