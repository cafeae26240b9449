//! What is asked of whoever decides, and what becomes of a request that may wait.

use tollgate_core::{Decision, Wait};

/// What is asked for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// May it pass now? If so, charge it.
    Charge,
    /// What would be answered? Charges nothing: for a request that is refused without its turn having come.
    Look,
}

/// An answer that a line understands.
pub trait Asked {
    /// `None`: it passed. Else when to ask again, or that asking again is of no use.
    fn wait(&self) -> Option<Wait>;
}

impl Asked for Decision {
    fn wait(&self) -> Option<Wait> {
        (!self.allowed).then_some(self.retry_after)
    }
}

/// What became of a request, and the answer it got last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waited<T> {
    /// It passed, at once or after waiting.
    Passed(T),
    /// It was refused: it would not fit before its time is up, or never.
    Refused(T),
    /// There was no place for it, or a key with fewer waiters took its place. The answer charged nothing.
    Full(T),
    /// Its time was up before its turn came. The answer is from a look.
    Late(T),
}
