//! The differences between two files, in words: one line for each fact, without notes and without webhook URLs.
//!
//! | file | what it is |
//! |---|---|
//! | `limits.rs` | limits, and whether past consumption still counts |
//! | `rules.rs` | lists and overrides |

mod limits;
mod rules;

use std::collections::HashMap;

use crate::model::{Config, KeyPart, PolicyEntry};

/// Returns the differences, policy by policy in the order of the new file; removed policies come last.
///
/// ```
/// use tollgate_config::{ConfigFormat, changes, read};
///
/// let old = read("policies: {login: 5/min, gone: 1/s}", ConfigFormat::Yaml).unwrap().config;
/// let new = read("policies: {login: 10/min, api: 100/min}", ConfigFormat::Yaml).unwrap().config;
/// assert_eq!(
///     changes(&old, &new),
///     [
///         "login: limit 5/min -> 10/min; what was consumed counts on",
///         "api: added, 100/min",
///         "gone: removed, and what was consumed under it is no longer asked for",
///     ]
/// );
/// ```
pub fn changes(old: &Config, new: &Config) -> Vec<String> {
    let by_name = |config: &Config| -> HashMap<String, usize> {
        let names = config.policies.iter().enumerate();
        names.map(|(place, entry)| (entry.policy.name().to_owned(), place)).collect()
    };
    let (before, after) = (by_name(old), by_name(new));
    let mut report = ChangeReport::default();
    for entry in &new.policies {
        report.name = entry.policy.name().to_owned();
        match before.get(entry.policy.name()).and_then(|&place| old.policies.get(place)) {
            Some(was) if was == entry => {}
            Some(was) => changed(&mut report, was, entry),
            None => report.add(format!("added, {}{}", entry.policy, extras(entry))),
        }
    }
    for entry in old.policies.iter().filter(|entry| !after.contains_key(entry.policy.name())) {
        report.name = entry.policy.name().to_owned();
        report.add("removed, and what was consumed under it is no longer asked for");
    }
    report.name = "webhook".to_owned();
    match (&old.webhook, &new.webhook) {
        (None, Some(_)) => report.add("added"),
        (Some(_), None) => report.add("removed"),
        (Some(was), Some(is)) if was != is => report.add("changed"),
        _ => {}
    }
    let kept = new.policies.iter().filter(|entry| before.contains_key(entry.policy.name())).count();
    report.lines(kept)
}

/// The facts found so far, and the policy that is being compared.
#[derive(Default)]
struct ChangeReport {
    name: String,
    facts: Vec<(String, String)>,
}

impl ChangeReport {
    fn add(&mut self, fact: impl Into<String>) {
        self.facts.push((self.name.clone(), fact.into()));
    }

    /// Returns one line for each fact. A change of a list that is the same in all policies that stay is reported once,
    /// because a list of the whole file is in each of them.
    fn lines(self, kept: usize) -> Vec<String> {
        let mut times: HashMap<&str, usize> = HashMap::new();
        self.facts.iter().for_each(|(_, fact)| *times.entry(fact).or_default() += 1);
        let shared = |fact: &str| kept > 1 && times.get(fact) == Some(&kept) && rules::is_list(fact);
        let mut lines = Vec::new();
        let mut all = Vec::new();
        for (name, fact) in &self.facts {
            if !shared(fact) {
                lines.push(format!("{name}: {fact}"));
            } else if !all.contains(fact) {
                lines.push(format!("all policies: {fact}"));
                all.push(fact.clone());
            }
        }
        lines
    }
}

fn changed(report: &mut ChangeReport, old: &PolicyEntry, new: &PolicyEntry) {
    limits::compare(report, "limit", &old.policy, &new.policy);
    if old.policy.mode() != new.policy.mode() {
        report.add(format!("mode {} -> {}", old.policy.mode().name(), new.policy.mode().name()));
    }
    if old.policy.on_error() != new.policy.on_error() {
        report.add(format!("on_error {} -> {}", old.policy.on_error().name(), new.policy.on_error().name()));
    }
    if old.key != new.key {
        report.add(format!("key parts {} -> {}; keys are others", parts(&old.key), parts(&new.key)));
    }
    rules::list(report, "allow", &old.allow, &new.allow);
    rules::list(report, "deny", &old.deny, &new.deny);
    rules::overrides(report, &old.overrides, &new.overrides);
    if old.shadow != new.shadow {
        report.add(if new.shadow { "shadow on: nobody is refused" } else { "shadow off: requests are refused" });
    }
    match (&old.candidate, &new.candidate) {
        (None, Some(candidate)) => report.add(format!("candidate added, {candidate}")),
        (Some(_), None) => report.add("candidate removed"),
        (Some(was), Some(is)) => limits::compare(report, "candidate", was, is),
        (None, None) => {}
    }
    match (&old.ban, &new.ban) {
        (None, Some(ban)) => report.add(format!("ban added, {ban}")),
        (Some(_), None) => report.add("ban removed"),
        (Some(was), Some(is)) if was != is => report.add(format!("ban {was} -> {is}")),
        _ => {}
    }
    if old.usage != new.usage {
        report.add(if new.usage { "usage on" } else { "usage off" });
    }
    if old.alerts != new.alerts {
        report.add(format!("alerts {} -> {}", percent(&old.alerts), percent(&new.alerts)));
    }
}

/// Describes what a new policy has besides its limits.
fn extras(entry: &PolicyEntry) -> String {
    let mut words = Vec::new();
    if entry.shadow {
        words.push("shadow".to_owned());
    }
    for (length, one, many) in [
        (entry.allow.len(), "key or pattern allowed", "keys or patterns allowed"),
        (entry.deny.len(), "key or pattern denied", "keys or patterns denied"),
        (entry.overrides.len(), "override", "overrides"),
    ] {
        match length {
            0 => {}
            1 => words.push(format!("1 {one}")),
            _ => words.push(format!("{length} {many}")),
        }
    }
    if let Some(candidate) = &entry.candidate {
        words.push(format!("candidate {candidate}"));
    }
    if let Some(ban) = &entry.ban {
        words.push(format!("ban {ban}"));
    }
    words.iter().map(|word| format!("; {word}")).collect()
}

fn parts(parts: &[KeyPart]) -> String {
    if parts.is_empty() {
        return "none".to_owned();
    }
    parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn percent(alerts: &[u8]) -> String {
    if alerts.is_empty() {
        return "off".to_owned();
    }
    let alerts: Vec<_> = alerts.iter().map(|percent| format!("{percent} %")).collect();
    alerts.join(", ")
}
