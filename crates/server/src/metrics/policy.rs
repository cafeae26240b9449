//! Decisions under one policy, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Decision, Policy, Source};

use crate::desk::Rule;

/// The longest label, in characters.
const LONGEST_LABEL: usize = 100;

/// Where decisions under a policy are counted: what its label tells, and its limits.
#[derive(Debug, Default)]
pub(crate) struct PolicyCounts {
    pub(super) tally: Arc<Tally>,
    /// Requests that did not fit, by the first limit that they did not. Where there are fewer than the policy
    /// has limits, the last one counts the others.
    pub(super) limits: Box<[Arc<LimitCount>]>,
}

/// What was decided under policies of one label.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The policy's name, else its text.
    pub(super) label: String,
    pub(super) allowed: AtomicU64,
    pub(super) denied: AtomicU64,
    /// Decisions that somebody made in the home's place: this server, or nobody.
    pub(super) standin: [AtomicU64; STANDINS.len()],
    /// Decisions by a rule beside the policy's own limits.
    pub(super) rules: [AtomicU64; RULES.len()],
    /// Decisions that a candidate would flip.
    pub(super) flips: [AtomicU64; FLIPS.len()],
    /// Bans that were begun.
    pub(super) bans: AtomicU64,
}

/// Requests that did not fit a limit.
#[derive(Debug, Default)]
pub(crate) struct LimitCount {
    pub(super) name: String,
    pub(super) count: AtomicU64,
}

/// The label of what is counted together.
pub(super) const OTHER: &str = "other";
/// The limit that stands for all limits of a policy's overrides.
pub(super) const OVERRIDE: &str = "override";

/// The sources that stand in for the home, in the order of the counters.
pub(super) const STANDINS: [Source; 3] = [Source::Local, Source::Open, Source::Closed];
/// The rules that are counted, in the order of the counters.
pub(super) const RULES: [Rule; 5] = [Rule::Allow, Rule::Deny, Rule::Ban, Rule::Override, Rule::Shadow];
/// What a candidate would have made of a decision, in the order of the counters.
pub(super) const FLIPS: [&str; 2] = ["would_refuse", "would_allow"];

impl PolicyCounts {
    /// What the policy is called here.
    pub(crate) fn label(&self) -> &str {
        &self.tally.label
    }

    /// Counts decisions, one addition for each thing that happened.
    #[inline]
    pub(crate) fn count(&self, decisions: &[Decision]) {
        let mut allowed = 0u64;
        let tally = &*self.tally;
        for decision in decisions {
            allowed += u64::from(decision.allowed);
            if let Some(place) = decision.limited_by {
                let limit = self.limits.get(place).or_else(|| self.limits.last());
                limit.inspect(|limit| add(&limit.count, 1));
            }
            if decision.source != Source::Home {
                let places = STANDINS.iter().zip(&tally.standin);
                places.filter(|(source, _)| **source == decision.source).for_each(|(_, count)| add(count, 1));
            }
        }
        let denied = decisions.len() as u64 - allowed;
        for (counter, count) in [(&tally.allowed, allowed), (&tally.denied, denied)] {
            if count > 0 {
                add(counter, count);
            }
        }
    }

    /// Counts a decision that a rule made or changed.
    pub(crate) fn rule(&self, rule: Rule) {
        let places = RULES.iter().zip(&self.tally.rules);
        places.filter(|(other, _)| **other == rule).for_each(|(_, count)| add(count, 1));
    }

    /// Counts a decision that the candidate would have made otherwise.
    pub(crate) fn flip(&self, live_allowed: bool) {
        let [would_refuse, would_allow] = &self.tally.flips;
        add(if live_allowed { would_refuse } else { would_allow }, 1);
    }

    /// Counts a ban that was begun.
    pub(crate) fn ban(&self) {
        add(&self.tally.bans, 1);
    }
}

impl Tally {
    pub(super) fn new(label: String) -> Self {
        Self { label, ..Self::default() }
    }
}

impl LimitCount {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), count: AtomicU64::new(0) }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// What a policy is called in labels.
pub(crate) fn label(policy: &Policy) -> String {
    if policy.name().is_empty() { short(&policy.to_string()) } else { policy.name().to_owned() }
}

/// A text that is not too long for a label.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST_LABEL) {
        None => text.to_owned(),
        Some((place, _)) => format!("{}…", &text[..place]),
    }
}
