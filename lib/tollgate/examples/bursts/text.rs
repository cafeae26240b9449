//! The plot for a terminal: a column every two seconds, its height in eight steps.

use crate::traffic::{BURSTS, Run, SECONDS, WORDS, every, offered};

/// Seconds a column.
const COLUMN: u64 = 2;
/// From how many requests on a column has which height. Not even, so that both a trickle and a burst
/// can be seen.
const HEIGHTS: [(usize, char); 8] =
    [(1, '▁'), (2, '▂'), (3, '▃'), (4, '▄'), (5, '▅'), (20, '▆'), (50, '▇'), (100, '█')];

pub(crate) fn plot(runs: &[Run]) -> String {
    let mut plot = format!("offered: {WORDS}\n{}\n{}\n", bars(&every(&offered(), COLUMN)), axis());
    for run in runs {
        let [first, second] = BURSTS.map(|at| format!("{} at {at} s", run.in_second(at)));
        plot += &format!("\n{}: {first}, {second}, {} in all; ", run.policy, run.total());
        plot += &format!("the fullest minute {}\n", run.in_fullest_minute());
        plot += &format!("{}\n", bars(&run.every(COLUMN)));
    }
    let heights: Vec<String> = HEIGHTS.iter().map(|(least, bar)| format!("{bar} {least}")).collect();
    plot + &format!("\n{}\n\nrequests in {COLUMN} s, at least: {}\n", axis(), heights.join("  "))
}

fn bars(counts: &[usize]) -> String {
    let bar = |count: &usize| HEIGHTS.iter().rev().find(|(least, _)| count >= least).map_or(' ', |(_, bar)| *bar);
    let line: String = counts.iter().map(bar).collect();
    line.trim_end().to_owned()
}

fn axis() -> String {
    let ticks = (0..SECONDS).step_by(30).map(|second| format!("{:<15}", format!("{second} s")));
    format!("{}{SECONDS} s", ticks.collect::<String>())
}
