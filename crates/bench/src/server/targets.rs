//! What Tollgate set out to reach, and where it lands in this run.
//!
//! Everything is a ratio to INCR in the same minute. Whether a target is met is told and never a failure:
//! a machine that is busy with something else would fail it.

use crate::rounds::{Measured, Ratios};

/// From here on the driver has no time left, and a faster server shows no more requests.
pub(crate) const DRIVER_FULL: f64 = 0.9;
/// How many times the requests of other limiters.
const TIMES: f64 = 3.0;
const POLICIES: [&str; 2] = ["100/min gcra", "100/min"];

/// One target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) what: String,
    pub(crate) found: f64,
    /// At least, or at most.
    pub(crate) bound: (&'static str, f64),
    pub(crate) met: bool,
    /// What else there is to know of it.
    pub(crate) note: String,
}

/// All targets of which both sides were measured.
pub(crate) fn judge(all: &[Measured]) -> Vec<Verdict> {
    let find = |name: &str, pipeline| all.iter().find(|it| it.subject.name == name && it.pipeline == pipeline);
    let mut verdicts = Vec::new();
    for policy in POLICIES {
        let ours = format!("tollgate {policy}");
        for pipeline in crate::rounds::PIPELINES {
            let Some(measured) = find(&ours, pipeline) else { continue };
            verdicts.extend(as_many_as_incr(measured));
            verdicts.extend(as_soon_as_incr(measured));
        }
        for theirs in [&format!("redis function {policy}"), "throttlecrab TCP_NODELAY"] {
            if let (Some(ours), Some(theirs)) = (find(&ours, 16), find(theirs, 16)) {
                verdicts.extend(times_as_many(ours, theirs));
            }
        }
    }
    verdicts
}

fn as_many_as_incr(measured: &Measured) -> Option<Verdict> {
    let (rate, cpu) = (measured.ratio(rate)?, measured.ratio(|ratios| ratios.cpu)?);
    let is_full = measured.median(|figures| figures.driver_busy) >= DRIVER_FULL;
    let by_cpu = rate < 1.0 && is_full && cpu <= 1.0;
    let note = match (rate < 1.0, is_full) {
        (false, _) => String::new(),
        (true, true) => format!("the driver is the limit; server CPU a request {cpu:.2} x INCR"),
        (true, false) => {
            let (server, driver) = (measured.median(|it| it.busy), measured.median(|it| it.driver_busy));
            format!("server busy {server:.2}, driver busy {driver:.2}; server CPU a request {cpu:.2} x INCR")
        }
    };
    Some(Verdict {
        what: format!("{}: requests/s x INCR", title(measured)),
        found: rate,
        bound: ("at least", 1.0),
        met: rate >= 1.0 || by_cpu,
        note,
    })
}

fn as_soon_as_incr(measured: &Measured) -> Option<Verdict> {
    let found = measured.ratio(|ratios| ratios.p99)?;
    let what = format!("{}: p99 x INCR", title(measured));
    Some(Verdict { what, found, bound: ("at most", 1.0), met: found <= 1.0, note: String::new() })
}

/// Both were measured beside INCR, so their ratios to it are compared and not their figures.
fn times_as_many(ours: &Measured, theirs: &Measured) -> Option<Verdict> {
    let found = ours.ratio(rate)? / theirs.ratio(rate)?;
    let what = format!("{}: requests/s x {}", title(ours), theirs.subject.name);
    Some(Verdict { what, found, bound: ("at least", TIMES), met: found >= TIMES, note: String::new() })
}

fn rate(ratios: &Ratios) -> f64 {
    ratios.rate
}

fn title(measured: &Measured) -> String {
    format!("{}, pipeline {}", measured.subject.name, measured.pipeline)
}
