//! What came of the attacks, for people and for programs.

use super::attack::Kind;
use super::judge::{is_met, ratio};
use super::round::{Outcome, Stage};

/// The first lines.
pub(super) fn head() -> String {
    format!(
        "{:<11} {:>7} {:>6} {:>7} {:>7} {:>7} {:>9} {:>13} {:>15} {:>7} {:>6} {:>6} {:>6} {:>7}  p99 within twice\n\
         {:<11} {:>7} {:>6} {:>7} {:>7} {:>7} {:>9} {:>13} {:>15} {:>7} {:>6} {:>6} {:>6} {:>7}",
        "attack",
        "tried",
        "held",
        "refused",
        "cut off",
        "after",
        "requests",
        "p50",
        "p99",
        "ratio",
        "new",
        "files",
        "memory",
        "system",
        "",
        "",
        "",
        "",
        "",
        "s",
        "",
        "us before/now",
        "us before/now",
        "",
        "ms",
        "",
        "+MB",
        "+MB",
    )
}

/// A line.
pub(super) fn row(kind: &Kind, stage: &Stage, outcome: &Outcome) -> String {
    let Outcome { figures, before, during, most, .. } = outcome;
    let pair = |of_a_thousand| format!("{}/{}", before.within(of_a_thousand), during.within(of_a_thousand));
    format!(
        "{:<11} {:>7} {:>6} {:>7} {:>7} {:>7.1} {:>9} {:>13} {:>15} {:>7.2} {:>6.1} {:>6} {:>6.1} {:>7.1}  {}",
        kind.name,
        figures.tried,
        figures.held,
        figures.refused,
        figures.cut,
        figures.slowest as f64 / 1e3,
        figures.requests,
        pair(500),
        pair(990),
        ratio(outcome),
        f64::from(during.slowest_anew) / 1e3,
        most.files,
        megabytes(most.memory, stage.memory),
        megabytes(most.system, outcome.system),
        if is_met(outcome) { "met" } else { "missed" },
    )
}

/// The last lines.
pub(super) fn foot(rows: &[(&'static Kind, Outcome)]) -> String {
    let met = rows.iter().filter(|(_, outcome)| is_met(outcome)).count();
    let anew: u64 = rows.iter().map(|(_, outcome)| outcome.during.anew).sum();
    let mut text =
        format!("p99 within twice its baseline in {met} of {} attacks; {anew} new connections meanwhile", rows.len());
    for (kind, _) in rows {
        text += &format!("\n  {:<11} {}", kind.name, kind.what);
    }
    text
}

/// One object.
pub(super) fn json(rows: &[(&'static Kind, Outcome)], plain: &Stage, locked: &Stage) -> String {
    let rows: Vec<String> = rows
        .iter()
        .map(|(kind, outcome)| {
            let stage = if kind.is_tls { locked } else { plain };
            let Outcome { figures, before, during, most, .. } = outcome;
            format!(
                "{{\"attack\":\"{}\",\"tried\":{},\"held\":{},\"held_of_first\":{},\"refused\":{},\"cut\":{},\
                 \"slowest_cut_ms\":{},\"requests\":{},\"lasted_ms\":{},\"before_p50_us\":{},\"before_p99_us\":{},\
                 \"before_calls\":{},\"p50_us\":{},\"p99_us\":{},\"calls\":{},\"p99_ratio\":{:.3},\"target\":\"{}\",\
                 \"new\":{},\"new_slowest_us\":{},\"failed\":{},\"files_idle\":{},\"files_most\":{},\"files_after\":{},\
                 \"memory_before_kb\":{},\"memory_most_kb\":{},\"memory_after_kb\":{},\"system_before_kb\":{},\
                 \"system_most_kb\":{}}}",
                kind.name,
                figures.tried,
                figures.held,
                figures.of_first,
                figures.refused,
                figures.cut,
                figures.slowest,
                figures.requests,
                outcome.lasted.as_millis(),
                before.within(500),
                before.within(990),
                before.calls(),
                during.within(500),
                during.within(990),
                during.calls(),
                ratio(outcome),
                if is_met(outcome) { "met" } else { "missed" },
                during.anew,
                during.slowest_anew,
                during.failed,
                stage.files,
                most.files,
                outcome.left.files,
                stage.memory,
                most.memory,
                outcome.left.memory,
                outcome.system,
                most.system,
            )
        })
        .collect();
    format!("{{\"server\":\"{}\",\"attacks\":[{}]}}", plain.server.told(), rows.join(","))
}

/// Kilobytes over others, in megabytes.
fn megabytes(now: u64, then: u64) -> f64 {
    now.saturating_sub(then) as f64 / 1024.0
}
