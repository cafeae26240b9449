//! The questions that the engine answers, parsed and valid, and its answers.

use std::sync::Arc;

use tollgate_kernel::{Cost, Decision, Detail, JointDecision, Mode, Request, Timestamp};

use crate::home::HomePolicy;
use crate::policies::EnginePolicy;
use crate::rule::DecidingRule;

/// A question to the engine.
#[derive(Debug)]
pub enum EngineQuestion {
    /// Decides a request.
    Check(EngineCheck),
    /// Resets a key under a policy.
    Reset(QuestionPart),
    /// Refunds what is still held of units charged at a time.
    Refund {
        /// The key and its policy.
        part: QuestionPart,
        /// The number of units.
        units: Cost,
        /// When they were charged.
        at: Timestamp,
    },
    /// Decides several parts, all or none.
    All(Vec<QuestionPart>),
}

impl EngineQuestion {
    /// Returns the number of limits it concerns.
    pub fn limits(&self) -> usize {
        let limits = |part: &QuestionPart| part.known.policy.limits().len();
        match self {
            Self::Check(ask) => limits(&ask.part),
            Self::Reset(part) | Self::Refund { part, .. } => limits(part),
            Self::All(parts) => parts.iter().map(limits).sum(),
        }
    }
}

/// A key under a policy, and a number of units.
#[derive(Debug)]
pub struct QuestionPart {
    /// The policy.
    pub known: Arc<EnginePolicy>,
    /// The key.
    pub key: Vec<u8>,
    /// The number of units.
    pub cost: Cost,
}

impl QuestionPart {
    /// Returns the part as homes decide it.
    pub(crate) fn at_home(&self) -> (HomePolicy<'_>, &[u8], Cost) {
        (self.known.at_home(), &self.key, self.cost)
    }
}

/// A request to decide.
#[derive(Debug)]
pub struct EngineCheck {
    /// The key under its policy.
    pub part: QuestionPart,
    /// The mode, if not the policy's own.
    pub mode: Option<Mode>,
    /// Whether nothing is charged.
    pub peek: bool,
    /// How much of the decision is returned.
    pub detail: DetailLevel,
}

impl EngineCheck {
    /// Returns the request for the kernel.
    pub fn request(&self) -> Request {
        Request { mode: self.mode, peek: self.peek, ..Request::cost(self.part.cost) }
    }
}

/// How much of a decision is returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DetailLevel {
    /// The flat reply.
    #[default]
    Flat,
    /// Also what was charged, the next wait and the time.
    Rest,
    /// Also the details of each limit.
    Full,
}

/// An answer.
#[derive(Debug)]
pub enum EngineAnswer {
    /// A decision, and the rule that made it.
    Decided(EngineVerdict),
    /// Several decisions, all or none; and the rules that made them, unless the limits alone did.
    Together(JointDecision, Vec<EngineVerdict>),
    /// The number of units refunded.
    Units(u64),
    /// The reset is done.
    Done,
}

/// A decision, and the rule that made it.
#[derive(Debug)]
pub struct EngineVerdict {
    /// The decision.
    pub decision: Decision,
    /// The details of each limit, if they were requested.
    pub details: Vec<Detail>,
    /// The rule that made it.
    pub rule: DecidingRule,
    /// The override that was applied instead of the policy's limits.
    pub overriding: Option<Arc<EnginePolicy>>,
}

impl EngineVerdict {
    /// Returns the verdict of a policy without rules.
    pub fn plain(decision: Decision, details: Vec<Detail>) -> Self {
        Self { decision, details, rule: DecidingRule::Policy, overriding: None }
    }

    /// Returns the policy whose limits were applied.
    pub fn applied<'a>(&'a self, known: &'a EnginePolicy) -> &'a EnginePolicy {
        self.overriding.as_deref().unwrap_or(known)
    }
}
