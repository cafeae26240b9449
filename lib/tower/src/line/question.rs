//! The question to the limiter, and the result of a request that may wait.

use tollgate_kernel::{Decision, Wait};

/// The question that a line asks about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineQuestion {
    /// Whether the request may pass now. If so, it is charged.
    Charge,
    /// What the answer would be. Nothing is charged: this is for a request that is refused before its turn.
    Look,
}

/// An answer that a line understands.
pub trait LineAnswer {
    /// Returns `None` if the request passed; otherwise when to ask again, or that asking again is useless.
    fn wait(&self) -> Option<Wait>;
}

impl LineAnswer for Decision {
    fn wait(&self) -> Option<Wait> {
        (!self.allowed).then_some(self.retry_after)
    }
}

/// The result of a request, with its last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineOutcome<T> {
    /// It passed, immediately or after waiting.
    Passed(T),
    /// It was refused, because it would not fit before its deadline, or never.
    Refused(T),
    /// There was no place for it, or a key with fewer waiters displaced it. The answer charged nothing.
    Full(T),
    /// Its deadline passed before its turn. The answer is that of [`LineQuestion::Look`].
    Late(T),
}
