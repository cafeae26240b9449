//! What came of an attack against the promises.

use super::Sizes;
use super::attack::{Expectation, Kind, split};
use super::good::{self, Latencies};
use super::round::{Outcome, Stage};
use crate::Report;
use crate::timing::is_judged;

/// Kilobytes that the server may grow by, whatever is done to it.
const GROWS: u64 = 64 << 10;
/// Connections that the acceptor holds for a moment, to answer that there is no slot: one for each listener.
const AT_ACCEPTOR: usize = 2;
/// How much slower the good client may become.
const SLOWER: f64 = 2.0;

/// How much slower the good client became, by its p99: than it was before, and than it is at the twin.
pub(super) fn ratios(outcome: &Outcome) -> [f64; 2] {
    let p99 = |took: &Latencies| f64::from(took.within(990).max(1));
    let now = p99(&outcome.during.took);
    [now / p99(&outcome.before.took), now / p99(&outcome.during.twin)]
}

/// Whether it became no slower than it may, by each.
pub(super) fn are_met(outcome: &Outcome) -> [bool; 2] {
    ratios(outcome).map(|ratio| ratio <= SLOWER)
}

pub(super) fn judge(report: &mut Report, kind: &Kind, sizes: &Sizes, stage: &Stage, outcome: &Outcome) {
    let (name, Outcome { figures, before, during, most, .. }) = (kind.name, outcome);
    report.demand(stage.server.is_alive(), || format!("{name}: the server ended"));
    let panics = stage.server.panics();
    report.demand(panics == 0, || format!("{name}: the server panicked {panics} times so far"));
    report.demand(outcome.wrong.is_none(), || format!("{name}: afterwards {}", outcome.wrong.as_deref().unwrap_or("")));
    for (when, seen) in [("before", before), ("meanwhile", during)] {
        let why = seen.failure.as_deref().unwrap_or_default();
        report.demand(seen.failed == 0, || {
            format!("{name}: {when}, the good client failed {} times: {why}", seen.failed)
        });
        report.demand(seen.took.calls() > 0 && seen.anew > 0, || {
            format!("{name}: {when}, the good client asked nothing")
        });
    }
    let most_files = stage.files + sizes.caps.connections + AT_ACCEPTOR;
    report.demand(most.files <= most_files, || {
        format!("{name}: the server had {} files open, expected at most {most_files}", most.files)
    });
    let grown = most.memory.saturating_sub(stage.memory);
    report.demand(grown <= GROWS, || format!("{name}: the server grew by {} MB, expected at most 64", grown >> 10));
    report.demand(outcome.is_closed, || {
        let expected = stage.files + good::STAYING;
        format!("{name}: {} files were left open, expected at most {expected}", outcome.left.files)
    });
    report.demand(figures.wrong == 0, || format!("{name}: {} things that must not happen", figures.wrong));
    report.demand(figures.tried > 0, || format!("{name}: nobody attacked"));
    demand_expected(report, kind, sizes, outcome);
    if is_judged() {
        report.demand(are_met(outcome) != [false; 2], || {
            let [now, then, twin] = [&during.took, &before.took, &during.twin].map(|took| took.within(990));
            format!("{name}: p99 {now} us, before {then} us, at the twin {twin} us: expected at most {SLOWER} times")
        });
    }
}

/// What must come of the attackers.
fn demand_expected(report: &mut Report, kind: &Kind, sizes: &Sizes, outcome: &Outcome) {
    let (name, Outcome { figures, .. }) = (kind.name, outcome);
    match kind.expected {
        Expectation::FillCaps => {
            let caps = sizes.caps;
            let tries = split(sizes.idle, sizes.addresses, caps.prefix);
            let of_all: usize = tries.iter().map(|tries| caps.prefix.min(*tries)).sum();
            let (of_first, of_all) = (caps.prefix.min(tries[0]), caps.of_strangers().min(of_all));
            report.demand(figures.of_first == of_first as u64, || {
                format!("{name}: {} connections of one address were held, expected {of_first}", figures.of_first)
            });
            report.demand(figures.held == of_all as u64, || {
                format!("{name}: {} connections were held, expected {of_all}", figures.held)
            });
            report.demand(figures.held + figures.refused == figures.tried, || format!("{name}: {figures:?}"));
        }
        Expectation::BeCutLate if !sizes.sees_slow_commands_cut() => {}
        Expectation::BeCut | Expectation::BeCutLate => report
            .demand(figures.held > 0 && figures.cut == figures.held, || {
                format!("{name}: {} of {} were cut off within {:.1?}", figures.cut, figures.held, outcome.lasted)
            }),
        Expectation::DoNoHarm => {}
    }
}
