//! What can be asked of the desk, read and valid, and what it answers.

use std::sync::Arc;

use tollgate_core::{Cost, Mode, Request, Timestamp, Together};

use super::{Known, Verdict};

/// A question.
#[derive(Debug)]
pub(crate) enum Question {
    /// To decide.
    Check(Ask),
    /// To forget a key under a policy.
    Reset(Part),
    /// To give back what is still held of units charged at a time.
    Refund { part: Part, units: Cost, at: Timestamp },
    /// To decide several parts, all or none.
    All(Vec<Part>),
}

impl Question {
    /// How many limits it is about.
    pub(crate) fn limits(&self) -> usize {
        let limits = |part: &Part| part.known.policy.limits().len();
        match self {
            Self::Check(ask) => limits(&ask.part),
            Self::Reset(part) | Self::Refund { part, .. } => limits(part),
            Self::All(parts) => parts.iter().map(limits).sum(),
        }
    }
}

/// A key under a policy, and how many units it is about.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) known: Arc<Known>,
    pub(crate) key: Vec<u8>,
    pub(crate) cost: Cost,
}

/// A request to decide.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) part: Part,
    pub(crate) mode: Option<Mode>,
    pub(crate) peek: bool,
    pub(crate) tells: Tells,
}

impl Ask {
    pub(crate) fn request(&self) -> Request {
        Request { mode: self.mode, peek: self.peek, ..Request::cost(self.part.cost) }
    }
}

/// How much of a decision is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tells {
    /// The flat reply.
    #[default]
    Flat,
    /// And what was charged, the next wait and the time.
    Rest,
    /// And each limit's part.
    Full,
}

/// An answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A decision, and what made it.
    Decided(Verdict),
    /// Several, all or none; what made them, unless the limits alone did.
    Together(Together, Vec<Verdict>),
    /// Units given back.
    Units(u64),
    /// It is done.
    Done,
}
