//! Decisions under one policy, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Decision, Policy, Source};

/// The longest label, in characters.
const LONGEST_LABEL: usize = 100;

/// What was decided under a policy.
#[derive(Debug, Default)]
pub(crate) struct PolicyCounts {
    /// The policy's name, else its text.
    pub(super) label: String,
    pub(super) allowed: AtomicU64,
    pub(super) denied: AtomicU64,
    /// Decisions that somebody made in the home's place: this server, or nobody.
    pub(super) standin: [AtomicU64; 3],
    /// Requests that did not fit, by the first limit that they did not; the limits' names beside it. Of a
    /// policy that is counted with others, or that has too many limits, all are one.
    pub(super) limits: Box<[(String, AtomicU64)]>,
}

/// The label of what is counted together.
pub(super) const OTHER: &str = "other";

/// The sources that stand in for the home, in the order of the counters.
pub(super) const STANDINS: [Source; 3] = [Source::Local, Source::Open, Source::Closed];

impl PolicyCounts {
    /// Counters of a policy, at most so many limits apart.
    pub(super) fn new(policy: &Policy, most_limits: usize) -> Self {
        let limits = policy.limits();
        let names = if limits.len() <= most_limits {
            limits.iter().map(|limit| short(&limit.name())).collect()
        } else {
            vec![OTHER.to_owned()]
        };
        let limits = names.into_iter().map(|name| (name, AtomicU64::new(0))).collect();
        Self { label: label(policy), limits, ..Self::default() }
    }

    /// Counters of all policies that have none of their own.
    pub(super) fn of_others() -> Self {
        let limits = [(OTHER.to_owned(), AtomicU64::new(0))];
        Self { label: OTHER.to_owned(), limits: limits.into(), ..Self::default() }
    }

    /// What the policy is called here.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Counts decisions, one addition for each thing that happened.
    #[inline]
    pub(crate) fn count(&self, decisions: &[Decision]) {
        let mut allowed = 0u64;
        for decision in decisions {
            allowed += u64::from(decision.allowed);
            if let Some(place) = decision.limited_by {
                let limit = self.limits.get(place).or_else(|| self.limits.last());
                limit.inspect(|(_, count)| add(count, 1));
            }
            if decision.source != Source::Home {
                let places = STANDINS.iter().zip(&self.standin);
                places.filter(|(source, _)| **source == decision.source).for_each(|(_, count)| add(count, 1));
            }
        }
        let denied = decisions.len() as u64 - allowed;
        for (counter, count) in [(&self.allowed, allowed), (&self.denied, denied)] {
            if count > 0 {
                add(counter, count);
            }
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// What a policy is called in labels.
pub(super) fn label(policy: &Policy) -> String {
    if policy.name().is_empty() { short(&policy.to_string()) } else { policy.name().to_owned() }
}

/// A text that is not too long for a label.
fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST_LABEL) {
        None => text.to_owned(),
        Some((place, _)) => format!("{}…", &text[..place]),
    }
}
