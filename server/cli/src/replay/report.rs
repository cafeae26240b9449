//! The result of a replay, for people: totals, refusals by limit, the keys hit hardest; for several policies first a
//! table that compares them.

use std::iter::once;

use tollgate_kernel::Micros;

use super::summary::{PolicyResultPart, RefusedKeyPart, ReplaySummary};
use crate::moment;
use crate::text::{ColumnAlignment, TextTable, WIDTH, counted, grouped, percent, shown_key, wait};

use ColumnAlignment::{Left, Right};

/// The least width to which a key is cut, however wide the line gets.
const MIN_KEY_WIDTH: usize = 16;
/// The widest policy in the comparison.
const POLICY_WIDTH: usize = 34;

/// Formats the report of a replay.
pub(crate) fn print(summary: &ReplaySummary) -> String {
    let mut text = head(summary);
    match summary.policies.as_slice() {
        [only] => {
            text += &format!("\n{}\n", title(only));
            text += &outcome(summary, only);
            text += &details(only);
        }
        several => {
            text += &comparison(summary);
            for (place, part) in several.iter().enumerate() {
                text += &format!("\n#{} {}\n", place + 1, title(part));
                text += &details(part);
            }
        }
    }
    text
}

/// Formats what was read, and which lines of it were faulty.
pub(crate) fn head(summary: &ReplaySummary) -> String {
    heading(summary) + &faults(summary)
}

fn heading(summary: &ReplaySummary) -> String {
    let input = &summary.input;
    let mut text = format!("{}: {}", input.file, counted(summary.requests, "request", "requests"));
    if summary.units != u128::from(summary.requests) {
        text += &format!(", {} units", grouped(summary.units));
    }
    if summary.peeks > 0 {
        text += &format!(", {}", counted(summary.peeks, "peek", "peeks"));
    }
    text += &format!(", {} by {}\n", counted(summary.keys, "key", "keys"), input.key);
    text += &format!("{} to {} ({})\n", summary.from, summary.to, Micros::new(summary.span_us));
    if let Some(unit) = input.unit {
        text += &format!("times read as {} (--time-unit {})\n", unit.word(), unit.name());
    }
    text
}

fn faults(summary: &ReplaySummary) -> String {
    let mut text = String::new();
    let late = &summary.out_of_order;
    if late.count > 0 {
        let lines: Vec<_> = late.first.iter().map(|fault| fault.line.to_string()).collect();
        let more = if late.count > lines.len() as u64 { ", …" } else { "" };
        let word = if late.count == 1 { "line" } else { "lines" };
        text += &format!("\n{} out of order, decided at the latest time seen:\n", counted(late.count, "line", "lines"));
        text += &format!("  {word} {}{more}\n", lines.join(", "));
    }
    let wrong = &summary.malformed;
    if wrong.count > 0 {
        text += &format!("\n{} malformed, left out:\n", counted(wrong.count, "line", "lines"));
        for fault in &wrong.first {
            text += &format!("  line {}: {}\n", fault.line, fault.reason);
        }
        if wrong.count > wrong.first.len() as u64 {
            text += "  …\n";
        }
    }
    text
}

fn title(part: &PolicyResultPart) -> String {
    if part.mode == "binary" { part.policy.clone() } else { format!("{} ({})", part.policy, part.mode) }
}

fn outcome(summary: &ReplaySummary, part: &PolicyResultPart) -> String {
    let mut table = TextTable::new(&[Left, Right, Right, Left]);
    let share = |count| percent(count, summary.requests);
    table.row(["allowed".to_owned(), grouped(part.allowed), share(part.allowed), String::new()]);
    if part.partial > 0 {
        table.row(["  in part".to_owned(), grouped(part.partial), share(part.partial), String::new()]);
    }
    let keys = match part.keys_refused {
        0 => String::new(),
        refused => format!("{} of {} keys", grouped(refused), grouped(summary.keys)),
    };
    table.row(["refused".to_owned(), grouped(part.refused), share(part.refused), keys]);
    table.print()
}

fn comparison(summary: &ReplaySummary) -> String {
    let mut table = TextTable::new(&[Right, Left, Right, Right, Right, Right, Right]);
    table.row(["", "policy", "allowed", "refused", "", "keys", "longest wait"]);
    for (place, part) in summary.policies.iter().enumerate() {
        table.row([
            format!("#{}", place + 1),
            shown_key(title(part).as_bytes(), POLICY_WIDTH),
            grouped(part.allowed),
            grouped(part.refused),
            percent(part.refused, summary.requests),
            grouped(part.keys_refused),
            if part.refused > 0 { wait(part.longest_wait) } else { "-".to_owned() },
        ]);
    }
    format!("\n{}", table.print())
}

fn details(part: &PolicyResultPart) -> String {
    if part.refused == 0 {
        return "  nobody was refused\n".to_owned();
    }
    let mut limits = TextTable::new(&[Left, Right, Right]);
    limits.row(["refused by", "requests"]);
    for limit in &part.limits {
        limits.row([limit.limit.clone(), grouped(limit.refused), percent(limit.refused, part.refused)]);
    }
    let keys = if part.hardest.is_empty() { String::new() } else { format!("\n{}", keys(part)) };
    format!("\n{}{keys}", limits.print())
}

fn keys(part: &PolicyResultPart) -> String {
    let cells = |key: &RefusedKeyPart| {
        [grouped(key.refused), grouped(key.requests), moment::print_short(key.first_refusal_us), wait(key.longest_wait)]
    };
    let mut rows = vec![["refused", "requests", "first refusal", "longest wait"].map(str::to_owned)];
    rows.extend(part.hardest.iter().map(cells));
    // The keys get the width that the other columns leave.
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let others: usize = (0..4).map(|column| 2 + width(column)).sum();
    let room = WIDTH.saturating_sub(2 + others).max(MIN_KEY_WIDTH);
    let mut table = TextTable::new(&[Left, Right, Right, Left, Right]);
    let names = part.hardest.iter().map(|key| shown_key(&key.bytes, room));
    for (name, cells) in once("keys hit hardest".to_owned()).chain(names).zip(rows) {
        table.row(once(name).chain(cells));
    }
    table.print()
}
