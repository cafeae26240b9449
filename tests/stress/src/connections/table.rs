//! What came of the attacks, for people and for programs.

use super::attack::Kind;
use super::judge::{are_met, ratios};
use super::round::{Outcome, Stage};

/// The columns: name, unit, width.
const COLUMNS: [(&str, &str, usize); 14] = [
    ("tried", "", 6),
    ("held", "", 6),
    ("refused", "", 7),
    ("cut off", "", 7),
    ("after", "s", 6),
    ("requests", "", 8),
    ("p50 us", "before/now/twin", 15),
    ("p99 us", "before/now/twin", 15),
    ("ratio to", "before/twin", 11),
    ("new", "ms", 6),
    ("files", "", 5),
    ("CPUs", "", 5),
    ("memory", "+MB", 6),
    ("system", "+MB", 6),
];

/// The first lines.
pub(super) fn head() -> String {
    let line = |name: &str, cell: fn(&(&'static str, &'static str, usize)) -> &'static str| {
        let cells = COLUMNS.iter().map(|column| format!(" {:>1$}", cell(column), column.2));
        format!("{name:<10}{}", cells.collect::<String>())
    };
    format!("{}  p99 within twice\n{}", line("attack", |column| column.0), line("", |column| column.1))
}

/// A line.
pub(super) fn row(kind: &Kind, stage: &Stage, outcome: &Outcome) -> String {
    let Outcome { figures, before, during, most, .. } = outcome;
    let three = |of_a_thousand| {
        let [before, now, twin] = [&before.took, &during.took, &during.twin].map(|took| took.within(of_a_thousand));
        format!("{before}/{now}/{twin}")
    };
    let [to_before, to_twin] = ratios(outcome);
    let cells = [
        figures.tried.to_string(),
        figures.held.to_string(),
        figures.refused.to_string(),
        figures.cut.to_string(),
        format!("{:.1}", figures.slowest as f64 / 1e3),
        figures.requests.to_string(),
        three(500),
        three(990),
        format!("{to_before:.2}/{to_twin:.2}"),
        format!("{:.1}", f64::from(during.slowest_anew) / 1e3),
        most.files.to_string(),
        format!("{:.2}", outcome.worked.as_secs_f64() / outcome.lasted.as_secs_f64()),
        megabytes(most.memory, stage.memory),
        megabytes(most.system, outcome.system),
    ];
    let cells = cells.iter().zip(COLUMNS).map(|(cell, (_, _, width))| format!(" {cell:>width$}"));
    format!("{:<10}{}  {}", kind.name, cells.collect::<String>(), met(outcome))
}

/// The last lines.
pub(super) fn foot(rows: &[(&'static Kind, Outcome)]) -> String {
    let met = |by: usize| rows.iter().filter(|(_, outcome)| are_met(outcome)[by]).count();
    let anew: u64 = rows.iter().map(|(_, outcome)| outcome.during.anew).sum();
    let (before, twin, all) = (met(0), met(1), rows.len());
    let mut text = format!(
        "p99 within twice its baseline in {before} of {all} attacks, within twice that of the twin meanwhile in {twin}; \
         {anew} new connections meanwhile"
    );
    for (kind, _) in rows {
        text += &format!("\n  {:<10} {}", kind.name, kind.what);
    }
    text
}

/// One object.
pub(super) fn json(rows: &[(&'static Kind, Outcome)], plain: &Stage, locked: &Stage) -> String {
    let rows = rows.iter().map(|(kind, outcome)| object(kind, if kind.is_tls { locked } else { plain }, outcome));
    format!("{{\"server\":\"{}\",\"attacks\":[{}]}}", plain.server.told(), rows.collect::<Vec<_>>().join(","))
}

fn object(kind: &Kind, stage: &Stage, outcome: &Outcome) -> String {
    let Outcome { figures, before, during, most, left, .. } = outcome;
    let [to_before, to_twin] = ratios(outcome);
    let numbers = [
        ("tried", figures.tried),
        ("held", figures.held),
        ("held_of_first", figures.of_first),
        ("refused", figures.refused),
        ("cut", figures.cut),
        ("slowest_cut_ms", figures.slowest),
        ("requests", figures.requests),
        ("lasted_ms", outcome.lasted.as_millis() as u64),
        ("worked_ms", outcome.worked.as_millis() as u64),
        ("before_calls", before.took.calls() as u64),
        ("before_p50_us", before.took.within(500).into()),
        ("before_p99_us", before.took.within(990).into()),
        ("calls", during.took.calls() as u64),
        ("p50_us", during.took.within(500).into()),
        ("p99_us", during.took.within(990).into()),
        ("twin_p50_us", during.twin.within(500).into()),
        ("twin_p99_us", during.twin.within(990).into()),
        ("failed", during.failed),
        ("new", during.anew),
        ("new_slowest_us", during.slowest_anew.into()),
        ("files_idle", stage.files as u64),
        ("files_most", most.files as u64),
        ("files_after", left.files as u64),
        ("memory_idle_kb", stage.memory),
        ("memory_most_kb", most.memory),
        ("memory_after_kb", left.memory),
        ("system_before_kb", outcome.system),
        ("system_most_kb", most.system),
    ];
    let numbers: String = numbers.iter().map(|(name, number)| format!("\"{name}\":{number},")).collect();
    format!(
        "{{\"attack\":\"{}\",{numbers}\"p99_ratio_to_before\":{to_before:.3},\"p99_ratio_to_twin\":{to_twin:.3},\
         \"target\":\"{}\"}}",
        kind.name,
        met(outcome)
    )
}

fn met(outcome: &Outcome) -> &'static str {
    match are_met(outcome) {
        [true, _] => "met",
        [false, true] => "met by the twin's",
        [false, false] => "missed",
    }
}

/// Kilobytes over others, in megabytes.
fn megabytes(now: u64, then: u64) -> String {
    format!("{:.1}", now.saturating_sub(then) as f64 / 1024.0)
}
