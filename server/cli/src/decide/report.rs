//! A decision of a store, for people and for programs.

use serde::Serialize;
use tollgate_kernel::{Cost, Decision, Detail, Policy, Source, Wait};

use crate::text::{self, ColumnAlignment, TextTable, grouped, shown_key};

/// The longest key that is shown in full.
const MAX_WIDTH: usize = 40;

/// A request to a store, and its decision.
pub(crate) struct CheckReport<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) policy: &'a Policy,
    pub(crate) cost: Cost,
    pub(crate) decision: Decision,
    pub(crate) details: Vec<Detail>,
    pub(crate) peek: bool,
}

/// Formats a key for a terminal.
pub(crate) fn shown(key: &[u8]) -> String {
    shown_key(key, MAX_WIDTH)
}

impl CheckReport<'_> {
    /// Formats a line for people, and with `full` a table of the limits.
    pub(crate) fn print(&self, full: bool) -> String {
        let mut text = text::wrapped(&self.line());
        if full {
            text += &self.table();
        }
        text
    }

    /// Formats the key, the outcome, what is left, how long to wait, and why.
    fn line(&self) -> String {
        let decision = &self.decision;
        let verdict = match (decision.allowed, decision.limited_by, self.peek) {
            (true, None, false) => "allowed".to_owned(),
            (true, None, true) => "would be allowed".to_owned(),
            (true, Some(_), _) => format!("in part: {} of {}", grouped(decision.granted), grouped(self.cost.get())),
            (false, _, false) => "denied".to_owned(),
            (false, _, true) => "would be denied".to_owned(),
        };
        let mut facts = vec![format!("{} left", decision.remaining)];
        if !decision.allowed {
            facts.push(match decision.retry_after {
                Wait::Never => "no wait helps: it asks for more than ever fits".to_owned(),
                wait => format!("retry after {}", text::wait(wait)),
            });
        }
        if let Some(name) = self.limited_by() {
            facts.push(format!("limited by {name}"));
        }
        if decision.reset_after.get() > 0 {
            facts.push(format!("as new in {}", text::wait(Wait::After(decision.reset_after))));
        }
        match decision.source {
            Source::Local => facts.push("decided by the server alone, since its store did not answer".to_owned()),
            Source::Open => facts.push("let pass by the server, since its store did not answer".to_owned()),
            Source::Home | Source::Closed => {}
        }
        format!("{} {verdict}: {}", shown(self.key), facts.join(", "))
    }

    /// Formats the limits, a row each.
    pub(crate) fn table(&self) -> String {
        use ColumnAlignment::{Left, Right};
        let mut table = TextTable::new(&[Left, Left, Right, Right, Right, Right]);
        table.row(["limit", "fits", "count", "left", "retry after", "as new in"]);
        for (limit, detail) in self.policy.limits().iter().zip(&self.details) {
            let wait = |wait: Wait| if wait.as_flat() == 0 { "-".to_owned() } else { text::wait(wait) };
            table.row([
                limit.name(),
                if detail.fits { "yes" } else { "no" }.to_owned(),
                grouped(detail.count),
                detail.remaining.to_string(),
                wait(detail.retry_after),
                wait(Wait::After(detail.reset_after)),
            ]);
        }
        table.print()
    }

    fn limited_by(&self) -> Option<String> {
        let place = self.decision.limited_by?;
        self.policy.limits().get(place).map(|limit| limit.name())
    }

    /// Formats the document for programs.
    pub(crate) fn json(&self) -> String {
        text::json(&self.document())
    }

    /// Returns the document with the names of the flat reply; -1 is never.
    pub(crate) fn document(&self) -> DecisionDocument {
        let decision = &self.decision;
        DecisionDocument {
            key: text::key(self.key),
            policy: self.policy.to_string(),
            cost: self.cost.get(),
            allowed: decision.allowed,
            granted: decision.granted,
            remaining: decision.remaining,
            retry_after_us: decision.retry_after.as_flat(),
            reset_after_us: decision.reset_after.get(),
            limited_by: self.limited_by(),
            charged: decision.charged,
            next_after_us: decision.next_after.as_flat(),
            at_us: decision.at.get(),
            source: decision.source.name(),
            limits: self
                .policy
                .limits()
                .iter()
                .zip(&self.details)
                .map(|(limit, detail)| part(limit.name(), detail))
                .collect(),
        }
    }
}

/// The document that `check` and `peek` print, and `explain --key` as a part of its own.
#[derive(Serialize)]
pub(crate) struct DecisionDocument {
    key: String,
    policy: String,
    cost: u64,
    allowed: bool,
    granted: u64,
    remaining: i64,
    retry_after_us: i64,
    reset_after_us: u64,
    limited_by: Option<String>,
    charged: u64,
    next_after_us: i64,
    at_us: u64,
    source: &'static str,
    limits: Vec<LimitDecisionPart>,
}

/// A limit of a decision.
#[derive(Serialize)]
struct LimitDecisionPart {
    name: String,
    fits: bool,
    remaining: i64,
    retry_after_us: i64,
    reset_after_us: u64,
    count: u64,
}

fn part(name: String, detail: &Detail) -> LimitDecisionPart {
    LimitDecisionPart {
        name,
        fits: detail.fits,
        remaining: detail.remaining,
        retry_after_us: detail.retry_after.as_flat(),
        reset_after_us: detail.reset_after.get(),
        count: detail.count,
    }
}
