//! What Tollgate set out to reach, and where it lands in this run.

use crate::child::Figures;
use crate::measure::{THREADS, Times};
use crate::{bytes as count, stall};

/// A ratio of nanoseconds: how many times as fast one contender is as another.
struct Target {
    workload: &'static str,
    ours: &'static str,
    theirs: &'static str,
    /// One thread, two, or both.
    threads: &'static [usize],
    at_least: f64,
}

const ONE_AND_TWO: &[usize] = &[1, THREADS];

const fn target(
    workload: &'static str,
    ours: &'static str,
    theirs: &'static str,
    threads: &'static [usize],
    at_least: f64,
) -> Target {
    Target { workload, ours, theirs, threads, at_least }
}

#[rustfmt::skip]
const TARGETS: &[Target] = &[
    target("1M", "tollgate", "governor-str", ONE_AND_TWO, 2.0),
    target("zipf", "tollgate", "governor-str", ONE_AND_TWO, 2.0),
    target("1M", "tollgate", "governor-inline", ONE_AND_TWO, 1.2),
    target("zipf", "tollgate", "governor-inline", ONE_AND_TWO, 1.2),
    target("hot-deny", "tollgate", "governor-str", &[THREADS], 3.0),
    target("hot-deny", "tollgate", "governor-inline", &[THREADS], 3.0),
    target("1M", "tollgate-x16", "governor-str", ONE_AND_TWO, 6.0),
    target("1M", "tollgate-x16", "governor-inline", ONE_AND_TWO, 6.0),
    target("hot-deny", "tollgate-sliding", "tollgate", ONE_AND_TWO, 1.0 / 1.4),
    target("1M", "tollgate-sliding", "tollgate", ONE_AND_TWO, 1.0 / 2.5),
    target("hot-deny", "tollgate", "floor", ONE_AND_TWO, 1.0 / 1.5),
    target("1M", "tollgate", "floor", ONE_AND_TWO, 1.0 / 1.5),
    target("zipf", "tollgate", "floor", ONE_AND_TWO, 1.0 / 1.5),
];

/// Bytes a key of gcra at ten million keys.
const MAX_BYTES: f64 = 48.0;

pub(crate) fn print(timed: &[(&'static str, Vec<Times>)], bytes: &[Figures], stalls: &[Figures]) {
    println!("\ntargets: times as fast, of what was set");
    for target in TARGETS {
        let Some((_, times)) = timed.iter().find(|(workload, _)| *workload == target.workload) else { continue };
        let find = |name: &str| times.iter().find(|times| times.contender.name == name);
        let (Some(ours), Some(theirs)) = (find(target.ours), find(target.theirs)) else { continue };
        for threads in target.threads {
            let ratio = theirs.median(*threads) / ours.median(*threads);
            let what = format!("{}, {} threads: {} over {}", target.workload, threads, target.ours, target.theirs);
            println!("{:<58} {ratio:>6.2} of {:>5.2} {}", what, target.at_least, verdict(ratio >= target.at_least));
        }
    }
    for figures in bytes.iter().filter(|figures| figures.contender.name == "tollgate" && figures.keys >= 10_000_000) {
        let bytes = figures.get(count::NOW);
        let what = format!("bytes a key of gcra at {} keys, at most", figures.keys);
        println!("{what:<58} {bytes:>6.1} of {MAX_BYTES:>5.1} {}", verdict(bytes <= MAX_BYTES));
    }
    for figures in stalls.iter().filter(|figures| figures.contender.name == "tollgate") {
        let (over, clock) = (figures.get(stall::OVER), figures.get(stall::CLOCK_OVER));
        let what = format!("calls over 1 ms while {} keys come ({clock} of the clock)", figures.keys);
        println!("{what:<58} {over:>6.0} of {:>5.0} {}", clock, verdict(over <= clock));
    }
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "missed" }
}
