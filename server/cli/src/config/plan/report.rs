//! The output of a plan, for people and for programs.

use serde::Serialize;
use tollgate_config::ConfigMessage;

use super::PlanArgs;
use super::decider::{FlipCounts, PairResult};
use super::log::PlanReplay;
use super::policy_pair::PolicyPair;
use crate::config::messages::{self, MessagePart};
use crate::replay::{ReplaySummary, head};
use crate::text::{self, ColumnAlignment, TextTable, WIDTH, counted, grouped, hanging, percent, shown_key};

use ColumnAlignment::{Left, Right};

/// The least width to which a key is cut, however wide the line gets.
const MIN_KEY_WIDTH: usize = 16;

/// The whole plan. `before` and `after` are null where there is no such policy.
#[derive(Serialize)]
pub(super) struct PlanDocument {
    file: String,
    from: Option<String>,
    changes: Vec<String>,
    warnings: Vec<MessagePart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<PlanLogPart>,
}

/// The replay of a log.
#[derive(Serialize)]
struct PlanLogPart {
    #[serde(flatten)]
    summary: ReplaySummary,
    lines_name_policies: bool,
    changed: Vec<ChangedPolicyPart>,
}

/// A policy that decides differently.
#[derive(Serialize)]
struct ChangedPolicyPart {
    policy: String,
    before: Option<String>,
    after: Option<String>,
    #[serde(flatten)]
    counts: FlipCountsPart,
    keys: u64,
    keys_changed: u64,
    hardest: Vec<ChangedKeyPart>,
}

/// The counts of decisions, of one key or of all.
#[derive(Serialize)]
struct FlipCountsPart {
    requests: u64,
    refused_before: u64,
    refused_after: u64,
    newly_refused: u64,
    newly_allowed: u64,
}

/// A key with decisions that differ.
#[derive(Serialize)]
struct ChangedKeyPart {
    key: String,
    #[serde(flatten)]
    counts: FlipCountsPart,
    #[serde(skip)]
    bytes: Vec<u8>,
}

impl From<FlipCounts> for FlipCountsPart {
    fn from(counts: FlipCounts) -> Self {
        let FlipCounts { requests, refused_before, refused_after, newly_refused, newly_allowed } = counts;
        Self { requests, refused_before, refused_after, newly_refused, newly_allowed }
    }
}

impl PlanDocument {
    pub(super) fn new(
        args: &PlanArgs,
        warnings: &[ConfigMessage],
        changes: Vec<String>,
        replay: Option<PlanReplay>,
    ) -> Self {
        Self {
            file: args.new.display().to_string(),
            from: args.from.as_ref().map(|path| path.display().to_string()),
            changes,
            warnings: warnings.iter().map(MessagePart::from).collect(),
            log: replay.map(|replay| PlanLogPart {
                summary: replay.summary,
                lines_name_policies: replay.named,
                changed: replay.policies.into_iter().map(|(pair, result)| changed(pair, result)).collect(),
            }),
        }
    }

    pub(super) fn json(&self) -> String {
        text::json(self)
    }

    pub(super) fn print(&self, warnings: &[ConfigMessage]) -> String {
        let count = counted(self.changes.len() as u64, "change", "changes");
        let mut text = match &self.from {
            Some(from) => format!("from {from} to {}: {count}\n", self.file),
            None => format!("from nothing to {}: {count}\n", self.file),
        };
        for change in &self.changes {
            text += &hanging("  - ", change);
        }
        for warning in warnings {
            text += &messages::print_one("warning", &self.file, warning);
        }
        if let Some(log) = &self.log {
            text += &format!("\n{}", head(&log.summary));
            if log.changed.is_empty() {
                text += "\nno policy decides in another way\n";
            }
            log.changed.iter().for_each(|changed| text += &print(changed));
        }
        text
    }
}

fn changed(pair: PolicyPair, result: PairResult) -> ChangedPolicyPart {
    let hardest = result.hardest.into_iter();
    ChangedPolicyPart {
        policy: pair.name,
        before: pair.before.map(|side| side.text()),
        after: pair.after.map(|side| side.text()),
        counts: result.counts.into(),
        keys: result.keys,
        keys_changed: result.keys_changed,
        hardest: hardest
            .map(|(bytes, counts)| ChangedKeyPart { key: text::key(&bytes), counts: counts.into(), bytes })
            .collect(),
    }
}

fn print(changed: &ChangedPolicyPart) -> String {
    let none = || "no policy".to_owned();
    let before = changed.before.clone().unwrap_or_else(none);
    let after = changed.after.clone().unwrap_or_else(none);
    let title = if before == after { before } else { format!("{before} -> {after}") };
    let mut text = format!("\n{}", hanging(&format!("{}: ", changed.policy), &title));
    let FlipCountsPart { requests, refused_before, refused_after, newly_refused, newly_allowed } = changed.counts;
    if requests == 0 {
        return text + "  the log has no request for it\n";
    }
    let mut table = TextTable::new(&[Left, Right, Right]);
    table.row(["requests".to_owned(), grouped(requests), String::new()]);
    for (name, count) in [
        ("refused before", refused_before),
        ("refused after", refused_after),
        ("newly refused", newly_refused),
        ("newly allowed", newly_allowed),
    ] {
        table.row([name.to_owned(), grouped(count), percent(count, requests)]);
    }
    text += &table.print();
    if newly_refused + newly_allowed == 0 {
        return text + "  no decision flips\n";
    }
    text += &format!("  decisions flip for {} of {} keys\n", grouped(changed.keys_changed), grouped(changed.keys));
    if changed.hardest.is_empty() { text } else { text + "\n" + &keys(changed) }
}

fn keys(changed: &ChangedPolicyPart) -> String {
    let mut rows = vec![["requests", "before", "after", "newly refused", "allowed"].map(str::to_owned)];
    rows.extend(changed.hardest.iter().map(|key| {
        let FlipCountsPart { requests, refused_before, refused_after, newly_refused, newly_allowed } = key.counts;
        [requests, refused_before, refused_after, newly_refused, newly_allowed].map(grouped)
    }));
    // The keys get the width that the other columns leave.
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let others: usize = (0..5).map(|column| 2 + width(column)).sum();
    let room = WIDTH.saturating_sub(2 + others).max(MIN_KEY_WIDTH);
    let mut table = TextTable::new(&[Left, Right, Right, Right, Right, Right]);
    let names = changed.hardest.iter().map(|key| shown_key(&key.bytes, room));
    for (name, cells) in std::iter::once("keys hit hardest".to_owned()).chain(names).zip(rows) {
        table.row(std::iter::once(name).chain(cells));
    }
    table.print()
}
