//! What Tollgate set out to reach, and where it lands in this run.
//!
//! Everything is a ratio to INCR in the same minute. Whether a target is met is told and never a failure:
//! a machine that is busy with something else would fail it.

use crate::rounds::{Ratios, SubjectFigures};

/// From here on the driver has no time left, and a faster server shows no more requests.
pub(crate) const DRIVER_FULL: f64 = 0.9;
/// How many times the requests of other limiters.
const TIMES: f64 = 3.0;
/// What is left of the requests when everything is kept.
const KEPT: f64 = 0.7;
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
pub(crate) fn judge(all: &[SubjectFigures]) -> Vec<Verdict> {
    let find = |name: &str, pipeline| all.iter().find(|it| it.subject.name == name && it.pipeline == pipeline);
    let mut verdicts = Vec::new();
    for policy in POLICIES {
        let ours = format!("tollgate {policy}");
        for pipeline in crate::rounds::PIPELINES {
            let Some(measured) = find(&ours, pipeline) else { continue };
            verdicts.extend(as_many_as_incr(measured));
            verdicts.extend(as_soon_as_incr(measured));
            if let Some(kept) = find(&format!("{ours}, journal"), pipeline) {
                verdicts.extend(while_kept(kept, measured));
            }
        }
        for theirs in [&format!("redis function {policy}"), "throttlecrab TCP_NODELAY"] {
            if let (Some(ours), Some(theirs)) = (find(&ours, 16), find(theirs, 16)) {
                verdicts.extend(times_as_many(ours, theirs));
            }
        }
    }
    verdicts
}

fn as_many_as_incr(measured: &SubjectFigures) -> Option<Verdict> {
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

fn as_soon_as_incr(measured: &SubjectFigures) -> Option<Verdict> {
    let found = measured.ratio(|ratios| ratios.p99)?;
    let what = format!("{}: p99 x INCR", title(measured));
    Some(Verdict { what, found, bound: ("at most", 1.0), met: found <= 1.0, note: String::new() })
}

/// With the journal, of what it is without.
fn while_kept(kept: &SubjectFigures, bare: &SubjectFigures) -> Option<Verdict> {
    let found = kept.ratio(rate)? / bare.ratio(rate)?;
    let what = format!("{}: requests/s x without", title(kept));
    Some(Verdict { what, found, bound: ("at least", KEPT), met: found >= KEPT, note: String::new() })
}

/// Both were measured beside INCR, so their ratios to it are compared and not their figures.
fn times_as_many(ours: &SubjectFigures, theirs: &SubjectFigures) -> Option<Verdict> {
    let found = ours.ratio(rate)? / theirs.ratio(rate)?;
    let what = format!("{}: requests/s x {}", title(ours), theirs.subject.name);
    Some(Verdict { what, found, bound: ("at least", TIMES), met: found >= TIMES, note: String::new() })
}

fn rate(ratios: &Ratios) -> f64 {
    ratios.rate
}

fn title(measured: &SubjectFigures) -> String {
    format!("{}, pipeline {}", measured.subject.name, measured.pipeline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::DurationHistogram;
    use crate::rounds::Figures;
    use crate::subjects::SUBJECTS;

    fn measured(name: &str, pipeline: usize, ratios: Ratios, driver_busy: f64) -> SubjectFigures {
        let subject = SUBJECTS.iter().find(|subject| subject.name == name).unwrap();
        let figures = Figures {
            rate: 0.0,
            cpu: 0.0,
            driver_cpu: 0.0,
            busy: 0.0,
            driver_busy,
            others_busy: 0.0,
            p50: 0.0,
            p99: 0.0,
            allowed: 1.0,
            histogram: DurationHistogram::new(),
        };
        SubjectFigures { subject, pipeline, figures: vec![figures], ratios: vec![ratios] }
    }

    fn verdicts(all: &[SubjectFigures]) -> Vec<(f64, bool)> {
        judge(all).into_iter().map(|verdict| (verdict.found, verdict.met)).collect()
    }

    #[test]
    fn fewer_requests_than_incr_count_only_if_the_driver_is_the_limit() {
        let one = |rate, cpu, busy| verdicts(&[measured("tollgate 100/min", 1, Ratios { rate, cpu, p99: 1.0 }, busy)]);
        assert_eq!(one(1.0, 2.0, 0.5), [(1.0, true), (1.0, true)]);
        assert_eq!(one(0.98, 0.9, 0.95), [(0.98, true), (1.0, true)]);
        assert_eq!(one(0.98, 1.1, 0.95), [(0.98, false), (1.0, true)]);
        assert_eq!(one(0.98, 0.9, 0.5), [(0.98, false), (1.0, true)]);
    }

    #[test]
    fn other_limiters_are_compared_by_their_ratios_to_incr_at_pipeline_16() {
        let at = |rate| Ratios { rate, cpu: 1.0, p99: 1.5 };
        let all = [
            measured("redis function 100/min", 16, at(0.25), 0.1),
            measured("throttlecrab TCP_NODELAY", 16, at(0.5), 0.1),
            measured("tollgate 100/min", 16, at(1.0), 0.1),
        ];
        assert_eq!(verdicts(&all), [(1.0, true), (1.5, false), (4.0, true), (2.0, false)]);
        assert_eq!(verdicts(&all[..2]), []);
    }

    #[test]
    fn with_the_journal_seven_tenths_are_left() {
        let at = |rate| Ratios { rate, cpu: 1.0, p99: 1.0 };
        let both = |kept| {
            let all = [
                measured("tollgate 100/min", 1, at(1.0), 0.1),
                measured("tollgate 100/min, journal", 1, at(kept), 0.1),
            ];
            verdicts(&all).last().copied()
        };
        assert_eq!((both(0.7), both(0.6)), (Some((0.7, true)), Some((0.6, false))));
    }

    #[test]
    fn every_name_that_is_looked_for_is_measured() {
        let names = POLICIES.iter().flat_map(|policy| {
            [format!("tollgate {policy}"), format!("tollgate {policy}, journal"), format!("redis function {policy}")]
        });
        for name in names.chain(["throttlecrab TCP_NODELAY".to_owned()]) {
            assert!(SUBJECTS.iter().any(|subject| subject.name == name), "{name}");
        }
    }
}
