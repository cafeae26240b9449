//! The counters of decisions under one policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_kernel::{Decision, Policy, Source};

use crate::rule::DecidingRule;

/// The longest label, in characters.
const MAX_LABEL: usize = 100;

/// The counters for decisions under a policy: those of its label, and those of its limits.
#[derive(Debug, Default)]
pub struct PolicyCounts {
    /// The counters of the policy.
    pub totals: Arc<LabelCounts>,
    /// Requests that did not fit, by the first limit that they did not fit. If there are fewer counters than limits,
    /// the last one counts the others.
    pub limits: Box<[Arc<LimitCount>]>,
}

/// The counters of the policies of one label.
#[derive(Debug, Default)]
pub struct LabelCounts {
    /// The policy's name, or its text if it has none.
    pub label: String,
    /// Allowed requests.
    pub allowed: AtomicU64,
    /// Denied requests.
    pub denied: AtomicU64,
    /// Decisions that a stand-in made in place of the home, by source.
    pub standin: [AtomicU64; STANDINS.len()],
    /// Decisions by a rule beside the policy's own limits.
    pub rules: [AtomicU64; RULES.len()],
    /// Decisions that a candidate would flip.
    pub flips: [AtomicU64; FLIPS.len()],
    /// Bans that began.
    pub bans: AtomicU64,
}

/// Requests that did not fit a limit.
#[derive(Debug, Default)]
pub struct LimitCount {
    /// The name of the limit.
    pub name: String,
    /// Requests that it denied first.
    pub count: AtomicU64,
}

/// The label of everything that is counted together.
pub(super) const OTHER: &str = "other";
/// The name that stands for all limits of a policy's overrides.
pub(super) const OVERRIDE: &str = "override";

/// The sources that stand in for the home, in the order of the counters.
pub const STANDINS: [Source; 3] = [Source::Local, Source::Open, Source::Closed];
/// The rules that are counted, in the order of the counters.
pub const RULES: [DecidingRule; 5] =
    [DecidingRule::Allow, DecidingRule::Deny, DecidingRule::Ban, DecidingRule::Override, DecidingRule::Shadow];
/// The ways in which a candidate would flip a decision, in the order of the counters.
pub const FLIPS: [&str; 2] = ["would_refuse", "would_allow"];

impl PolicyCounts {
    /// Returns the label of the policy.
    pub fn label(&self) -> &str {
        &self.totals.label
    }

    /// Counts decisions, with one addition for each fact.
    #[inline]
    pub fn count(&self, decisions: &[Decision]) {
        let mut allowed = 0u64;
        let totals = &*self.totals;
        for decision in decisions {
            allowed += u64::from(decision.allowed);
            if let Some(place) = decision.limited_by {
                let limit = self.limits.get(place).or_else(|| self.limits.last());
                limit.inspect(|limit| add(&limit.count, 1));
            }
            if decision.source != Source::Home {
                let places = STANDINS.iter().zip(&totals.standin);
                places.filter(|(source, _)| **source == decision.source).for_each(|(_, count)| add(count, 1));
            }
        }
        let denied = decisions.len() as u64 - allowed;
        for (counter, count) in [(&totals.allowed, allowed), (&totals.denied, denied)] {
            if count > 0 {
                add(counter, count);
            }
        }
    }

    /// Counts a decision that a rule made or changed.
    pub fn rule(&self, rule: DecidingRule) {
        let places = RULES.iter().zip(&self.totals.rules);
        places.filter(|(other, _)| **other == rule).for_each(|(_, count)| add(count, 1));
    }

    /// Counts a decision that the candidate would flip.
    pub fn flip(&self, live_allowed: bool) {
        let [would_refuse, would_allow] = &self.totals.flips;
        add(if live_allowed { would_refuse } else { would_allow }, 1);
    }

    /// Counts a ban that began.
    pub fn ban(&self) {
        add(&self.totals.bans, 1);
    }
}

impl LabelCounts {
    /// Returns counters at zero.
    pub fn new(label: String) -> Self {
        Self { label, ..Self::default() }
    }
}

impl LimitCount {
    /// Returns a counter at zero.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), count: AtomicU64::new(0) }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Returns the label of a policy.
pub fn label(policy: &Policy) -> String {
    if policy.name().is_empty() { short(&policy.to_string()) } else { policy.name().to_owned() }
}

/// Returns a text, truncated if it is too long for a label.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_LABEL) {
        None => text.to_owned(),
        Some((place, _)) => format!("{}…", &text[..place]),
    }
}
