//! Policy names of callers, a thousand in each of many lives of a server: names without live keys are given back.

use super::Sizes;
use crate::attack::caller::CheckReply;
use crate::attack::caller::answered;
use crate::attack::stage::Stage;
use crate::{Failure, Report};

const LIVES: u64 = 17;
/// As many as callers may bring in one life.
const NAMES: u64 = 1_000;

pub(super) fn lives(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let mut stage = Stage::started(sizes.caps, "  login: 5/h\n")?;
    stage.honest()?.cost("known", "login", "5")?;
    for life in 0..LIVES {
        let words = |number: u64| {
            let name = format!("n-{life}-{number}");
            ["TG.CHECK", "k", "1/ms", "NAME", &name].map(str::to_owned).to_vec()
        };
        let mut errors = 0;
        let count = |_, reply: &_| errors += u64::from(matches!(answered(reply), CheckReply::Error(_)));
        stage.attacker()?.flood(0..NAMES, words, count)?;
        if life == 0 && errors == NAMES {
            return Err(Failure("no name of a caller is taken".to_owned()));
        }
        // By turns, so that snapshots and journals are read.
        stage.end(report, life % 4 != 3)?;
        stage.write(&format!("  login: 5/h\n  new-{life}: 5/h\n"))?;
        let after = format!("{} lives of {NAMES} policy names and with a new name in the policy file", life + 1);
        if !stage.again(report, &after)? {
            return Ok(());
        }
        let new = stage.honest()?.check("u", &format!("new-{life}"))?;
        report.demand(new == CheckReply::Granted(1), || format!("the new policy is answered {new:?} after {after}"));
    }
    let known = stage.honest()?.check("known", "login")?;
    report.demand(known == CheckReply::Refused, || {
        format!("fresh before its time: 5/h of an exhausted key is answered {known:?} after {LIVES} lives")
    });
    Ok(())
}
