//! What Tollgate set out to reach, and where it lands in this run: how many times as fast as others, where 1 is as
//! fast, by four measures. Slower in processor time or instructions is needing more of them.

use crate::contenders::{BARE, Case, GOVERNOR, GOVERNOR_HEADERS, TOLLGATE, TOLLGATE_SILENT};
use crate::count::Count;
use crate::inside::How;
use crate::pairs::Interval;
use crate::rounds::{Measured, Slice};

/// Two contenders that are compared.
struct Target {
    case: Case,
    ours: &'static str,
    theirs: &'static str,
    /// `None`: told, since it is asked for, though the two do not do the same.
    at_least: Option<f64>,
    why: &'static str,
}

const TARGETS: &[Target] = &[
    target(Case::Allowed, TOLLGATE, BARE, Some(0.95), "at most 5 % below the bare handler"),
    target(Case::Allowed, TOLLGATE, GOVERNOR_HEADERS, Some(1.0), "two header fields each"),
    target(Case::Allowed, TOLLGATE_SILENT, GOVERNOR, Some(1.0), "no header fields"),
    target(Case::Allowed, TOLLGATE, GOVERNOR, None, "both as they are: two header fields against none"),
    target(Case::Refused, TOLLGATE, GOVERNOR_HEADERS, None, "both refuse with header fields and a body"),
    target(Case::Refused, TOLLGATE_SILENT, GOVERNOR, None, "governor tells Retry-After even so"),
];

const fn target(
    case: Case,
    ours: &'static str,
    theirs: &'static str,
    at_least: Option<f64>,
    why: &'static str,
) -> Target {
    Target { case, ours, theirs, at_least, why }
}

/// How many times as fast the first is.
type Ratio = fn(&Slice, &Slice) -> f64;

/// What contenders are compared by.
const PAIRED: [(&str, Ratio); 2] =
    [("requests/s", |ours, theirs| ours.rate / theirs.rate), ("CPU", |ours, theirs| theirs.cpu / ours.cpu)];
/// The bare handler without a socket is a hundredth of a request: what a layer adds to that is told, not judged.
const COUNTED: [(&str, How); 2] = [("instructions of a call", How::Call), ("of a connection", How::Connection)];

pub(crate) enum Found {
    /// Of pairs.
    Within(Interval),
    /// Counted.
    Exactly(f64),
}

/// A comparison by one measure.
pub(crate) struct Verdict {
    pub(crate) case: Case,
    pub(crate) ours: &'static str,
    pub(crate) theirs: &'static str,
    pub(crate) by: &'static str,
    pub(crate) found: Found,
    pub(crate) at_least: Option<f64>,
    pub(crate) why: &'static str,
}

impl Verdict {
    /// Met and missed only if the whole interval says so.
    pub(crate) fn word(&self) -> &'static str {
        let Some(bound) = self.at_least else { return "told" };
        match &self.found {
            Found::Exactly(ratio) if *ratio >= bound => "met",
            Found::Within(interval) if !interval.is_sure() => "too few pairs",
            Found::Within(interval) if interval.low >= bound => "met",
            Found::Within(interval) if interval.high >= bound => "open",
            _ => "missed",
        }
    }
}

pub(crate) fn judge(counts: &[Count], measured: &[Measured]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for target in TARGETS {
        let &Target { case, ours, theirs, at_least, why } = target;
        for (by, ratio) in PAIRED {
            if let Some(interval) = pairs(measured, target, ratio) {
                verdicts.push(Verdict { case, ours, theirs, by, found: Found::Within(interval), at_least, why });
            }
        }
        for (by, how) in COUNTED {
            let at_least = at_least.filter(|_| theirs != BARE);
            if let Some(ratio) = count(counts, target, how) {
                verdicts.push(Verdict { case, ours, theirs, by, found: Found::Exactly(ratio), at_least, why });
            }
        }
    }
    verdicts
}

/// The ratios of two contenders, round by round.
fn pairs(measured: &[Measured], target: &Target, ratio: Ratio) -> Option<Interval> {
    let find = |name: &str| measured.iter().find(|of| of.case == target.case && of.contender.name == name);
    let (ours, theirs) = (find(target.ours)?, find(target.theirs)?);
    Interval::of(ours.slices.iter().zip(&theirs.slices).map(|(ours, theirs)| ratio(ours, theirs)).collect())
}

fn count(counts: &[Count], target: &Target, how: How) -> Option<f64> {
    let find = |name: &str| {
        counts.iter().find(|count| count.how == how && count.case == target.case && count.contender.name == name)
    };
    Some(find(target.theirs)?.instructions / find(target.ours)?.instructions)
}
