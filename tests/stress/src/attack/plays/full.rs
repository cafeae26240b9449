//! A server whose memory is full, stopped and started again.

use super::Sizes;
use crate::attack::caller::{CheckReply, check, many_limits};
use crate::attack::stage::Stage;
use crate::{Failure, Report};

/// Keys, each packed first and with a record then.
const KEYS: u64 = 60_000;

/// Stopped cleanly and by `kill -9`: it starts, and knows the key that was exhausted before.
pub(super) fn restart(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let mut stage = Stage::started(sizes.caps, "  login: 5/h\n")?;
    stage.honest()?.cost("known", "login", "5")?;
    let mut caller = stage.attacker()?;
    caller.flood(0..KEYS, |key| check(format!("u:{key}"), "1/w gcra"), |_, _| {})?;
    caller.flood(0..KEYS, |key| check(format!("u:{key}"), "1/h"), |_, _| {})?;
    let text = many_limits(32, 0);
    caller.flood(0..KEYS / 20, |key| check(format!("u:{key}"), &text), |_, _| {})?;
    for (is_clean, after) in [(true, "a clean stop under full memory"), (false, "a kill -9 under full memory")] {
        stage.end(report, is_clean)?;
        if !stage.again(report, after)? {
            return Ok(());
        }
        let answer = stage.honest()?.check("known", "login")?;
        report.demand(answer == CheckReply::Refused, || {
            format!("fresh before its time: 5/h of an exhausted key is answered {answer:?} after {after}")
        });
    }
    Ok(())
}
