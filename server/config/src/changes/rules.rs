//! Changes of lists and overrides.

use std::collections::{HashMap, HashSet};

use super::{ChangeReport, limits};
use crate::model::Override;
use crate::pattern::Pattern;

/// The most entries of a list change that are named.
const NAMED: usize = 3;

/// Reports the entries that were added to a list and removed from it.
pub(super) fn list(report: &mut ChangeReport, what: &str, old: &[Pattern], new: &[Pattern]) {
    let (before, after): (HashSet<_>, HashSet<_>) = (old.iter().collect(), new.iter().collect());
    let added: Vec<_> = new.iter().filter(|pattern| !before.contains(pattern)).collect();
    let removed: Vec<_> = old.iter().filter(|pattern| !after.contains(pattern)).collect();
    for (patterns, word) in [(added, "added"), (removed, "removed")] {
        if !patterns.is_empty() {
            report.add(format!("{what} list: {word} {}", few(&patterns)));
        }
    }
}

/// Returns whether a fact is about a list.
pub(super) fn is_list(fact: &str) -> bool {
    fact.starts_with("allow list: ") || fact.starts_with("deny list: ")
}

fn few(patterns: &[&Pattern]) -> String {
    let named: Vec<_> = patterns.iter().take(NAMED).map(|pattern| shown(pattern)).collect();
    match patterns.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Returns a pattern in quotes, so that its contents cannot harm a terminal or a log.
fn shown(pattern: &Pattern) -> String {
    let text: String = pattern.as_str().chars().take(64).collect();
    if text.len() < pattern.as_str().len() { format!("{text:?}…") } else { format!("{text:?}") }
}

/// Reports the change of each override.
pub(super) fn overrides(report: &mut ChangeReport, old: &[Override], new: &[Override]) {
    let by_key = |all: &[Override]| -> HashMap<Pattern, usize> {
        all.iter().enumerate().map(|(place, own)| (own.key.clone(), place)).collect()
    };
    let (before, after) = (by_key(old), by_key(new));
    for own in new {
        let name = shown(&own.key);
        let Some(was) = before.get(&own.key).and_then(|&place| old.get(place)) else {
            report.add(format!("override of {name} added, {}{}", own.policy, until(own)));
            continue;
        };
        limits::compare(report, &format!("override of {name}:"), &was.policy, &own.policy);
        if was.until != own.until {
            report.add(format!("override of {name}:{} ->{}", until_word(was), until_word(own)));
        }
    }
    for own in old.iter().filter(|own| !after.contains_key(&own.key)) {
        report.add(format!("override of {} removed, was {}", shown(&own.key), own.policy));
    }
    let kept = |all: &[Override], other: &HashMap<Pattern, usize>| -> Vec<Pattern> {
        all.iter().map(|own| own.key.clone()).filter(|key| other.contains_key(key)).collect()
    };
    if kept(old, &after) != kept(new, &before) {
        report.add("overrides in another order: the first that matches counts");
    }
}

fn until(own: &Override) -> String {
    if own.until.is_some() { format!(",{}", until_word(own)) } else { String::new() }
}

fn until_word(own: &Override) -> String {
    let moment = own.until.and_then(|until| jiff::Timestamp::from_microsecond(until.get().cast_signed()).ok());
    moment.map_or_else(|| " without end".to_owned(), |moment| format!(" until {moment}"))
}
