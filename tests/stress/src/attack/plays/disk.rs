//! A restart on a full disk: by default the server decides on, keeps nothing, and says so.

use super::Sizes;
use crate::attack::caller::CheckReply;
use crate::attack::stage::Stage;
use crate::kills::{Shim, Trouble};
use crate::{Failure, Report};

pub(super) fn full(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    for (is_clean, after) in [(true, "a clean stop, on a full disk"), (false, "a kill -9, on a full disk")] {
        let mut stage = Stage::new(sizes.caps, "  login: 5/h\n")?;
        let shim = Shim::build(stage.folder.path())?;
        shim.watch(stage.data.path())?;
        stage.set = shim.set(stage.data.path());
        stage.begin()?;
        stage.honest()?.cost("known", "login", "5")?;
        stage.end(report, is_clean)?;
        shim.trouble(Trouble::Full)?;
        if stage.again(report, after)? {
            let answer = stage.honest()?.check("known", "login")?;
            report.demand(answer == CheckReply::Refused, || {
                format!("fresh before its time: 5/h of an exhausted key is answered {answer:?} after {after}")
            });
            let health = stage.metrics()?.series("tollgate_journal_health");
            report.demand(health == Some(1.0), || {
                format!(
                    "a server that keeps nothing does not say so: tollgate_journal_health is {health:?} after {after}"
                )
            });
        }
        shim.trouble(Trouble::None)?;
    }
    Ok(())
}
