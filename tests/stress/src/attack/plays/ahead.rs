//! A clock that was once ahead and is set right: it is not remembered for longer than it must.

use super::Sizes;
use crate::attack::caller::{Caller, check};
use crate::attack::stage::Stage;
use crate::{Failure, Report};

const DAY: i64 = 86_400;
/// Events of the key whose charges are measured: its whole state is many times a charge.
const EVENTS: u64 = 2_000;
/// Charges that are measured, after some that may bring the clock along.
const CHARGES: u64 = 100;
const FIRST: u64 = 10;
/// Bytes that a charge may take more than before.
const MORE: f64 = 500.0;

pub(super) fn once(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let policies = "  login:\n    limit: 1/h\n    ban: 10min after 3/min refusals, up to 1d\n  log: 10000/h\n";
    let mut stage = Stage::new(sizes.caps, policies)?;
    stage.set = variables(&stage)?;
    stage.begin()?;
    let mut caller = stage.honest()?;
    caller.flood(0..EVENTS, |_| check("long", "log"), |_, _| {})?;
    let usual = bytes_a_charge(&stage, &mut caller)?;
    // A life with a clock that is ahead: what is decided in it is in the files.
    restart(&mut stage, report, 2 * DAY)?;
    caller = stage.honest()?;
    caller.flood(0..EVENTS, |_| check("long", "log"), |_, _| {})?;
    for _ in 0..6 {
        caller.check("banned", "login")?;
    }
    restart(&mut stage, report, 0)?;
    caller = stage.honest()?;
    let reply = caller.ask(&["TG.CHECK", "banned", "login"])?;
    let wait = reply.at(3).int().unwrap_or_default() / 1_000_000;
    report.demand(wait <= DAY + 3_600, || {
        format!("a clock that was ahead by 2 d is never forgotten: a ban of at most 1 d lasts {} h", wait / 3_600)
    });
    for after in ["the clock was set right", "another restart"] {
        (0..FIRST).try_for_each(|_| charge(&mut caller))?;
        let now = bytes_a_charge(&stage, &mut caller)?;
        report.demand(now <= usual + MORE, || {
            format!("a clock that was ahead is never forgotten: a charge takes {now:.0} bytes of the journal, {usual:.0} before it, after {after}")
        });
        stage.end(report, true)?;
        if !stage.again(report, after)? {
            return Ok(());
        }
        caller = stage.honest()?;
    }
    stage.end(report, true)
}

/// Ends the server and starts it with another clock.
fn restart(stage: &mut Stage, report: &mut Report, offset: i64) -> Result<(), Failure> {
    stage.end(report, true)?;
    tollgate_kit::set_clock(stage.folder.path(), offset)?;
    stage.begin()
}

/// The clock of the stage's server is ours.
pub(in crate::attack) fn variables(stage: &Stage) -> Result<Vec<(&'static str, String)>, Failure> {
    tollgate_kit::set_clock(stage.folder.path(), 0)?;
    let known = ["LD_PRELOAD", "FAKETIME_TIMESTAMP_FILE", "FAKETIME_NO_CACHE", "FAKETIME_DONT_FAKE_MONOTONIC"];
    let set = tollgate_kit::clock_variables(stage.folder.path())?;
    Ok(set
        .into_iter()
        .filter_map(|(name, value)| Some((*known.iter().find(|known| **known == name)?, value)))
        .collect())
}

fn charge(caller: &mut Caller) -> Result<(), Failure> {
    caller.check("long", "log").map(drop).map_err(Failure::from)
}

/// Bytes of the journal that a charge takes.
fn bytes_a_charge(stage: &Stage, caller: &mut Caller) -> Result<f64, Failure> {
    let bytes = || -> Result<f64, Failure> {
        let metrics = stage.metrics()?;
        metrics.series("tollgate_journal_bytes").ok_or_else(|| Failure("/metrics has no journal".to_owned()))
    };
    let before = bytes()?;
    (0..CHARGES).try_for_each(|_| charge(caller))?;
    Ok((bytes()? - before) / CHARGES as f64)
}
