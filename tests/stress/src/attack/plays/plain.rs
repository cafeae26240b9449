//! Plain keys of callers while the wall clock is set back: EXPIREAT names a moment of that clock.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Sizes;
use super::ahead::variables;
use crate::attack::stage::Stage;
use crate::{Failure, Report};

const MINUTE: i64 = 60;

pub(super) fn set_back(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let mut stage = Stage::new(sizes.caps, "  login: 5/h\n")?;
    stage.set = variables(&stage)?;
    stage.begin()?;
    let mut caller = stage.attacker()?;
    for (offset, what) in [(0, "right"), (-10 * MINUTE, "set back by 10 min"), (10 * MINUTE, "set ahead by 10 min")] {
        tollgate_kit::set_clock(stage.folder.path(), offset)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() as i64 + offset;
        let key = format!("c:{offset}");
        let mut counted = Vec::new();
        for _ in 0..3 {
            counted.push(caller.ask(&["INCR", &key])?.int().unwrap_or_default());
            caller.ask(&["EXPIREAT", &key, &(now + MINUTE).to_string()])?;
        }
        report.demand(counted == [1, 2, 3], || {
            format!("plain keys do not live by the wall clock: it is {what}, and INCR with EXPIREAT in 60 s counts {counted:?}")
        });
        let told = caller.ask(&["TIME"])?.at(0).int().unwrap_or_default();
        report
            .demand((told - now).abs() <= 2, || format!("TIME is wrong by {} s: the wall clock is {what}", told - now));
    }
    stage.end(report, true)
}
