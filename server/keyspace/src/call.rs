//! A call of a dialect.

use tollgate_dialects::{Action, CallClock, Dialect, ParsedCall, Wording};

use crate::table::{derived_bytes, entry_bytes};

/// The dialect that takes several keys, each with a limit of its own.
pub(crate) const ROLLING: &str = "rolling";

/// A call of a dialect that has been parsed and is valid.
#[derive(Debug)]
pub struct DialectCall {
    /// The dialect that was called.
    pub dialect: &'static Dialect,
    /// The parsed call.
    pub call: ParsedCall,
    /// The selected database.
    pub db: u8,
    /// The keys as they were sent, for forwarding to a home elsewhere.
    pub keys: Vec<Vec<u8>>,
    /// The arguments as they were sent.
    pub args: Vec<Vec<u8>>,
    /// The wording of its reply.
    pub wording: Wording,
}

impl DialectCall {
    /// Returns the scope that separates its state from others within its key.
    pub(crate) fn scope(&self) -> Vec<u8> {
        match self.call.clock() {
            CallClock::Home => Vec::new(),
            // The dialect's name alone, if the dialect has no namespaces.
            CallClock::Caller(_) if self.keys.iter().any(|key| key == self.call.state_key()) => {
                self.dialect.name.as_bytes().to_vec()
            }
            CallClock::Caller(_) => [self.dialect.name.as_bytes(), b" ", self.call.state_key()].concat(),
        }
    }

    /// Returns the names at which a table stores its state: its keys, unless its dialect derives a name from its key.
    pub fn places(&self) -> impl Iterator<Item = &[u8]> {
        let derived = self.call.state_name();
        let keys = if derived.is_some() { &[] } else { &*self.keys };
        derived.into_iter().chain(keys.iter().map(Vec::as_slice))
    }

    /// Returns an estimate, never too low, of the bytes that the state of new keys takes.
    pub(crate) fn new_bytes(&self) -> usize {
        let state_key = self.call.state_key().len();
        let names = self.places().map(|name| 2 * entry_bytes(name.len()) + state_key);
        let derived =
            self.call.state_name().map_or(0, |name| derived_bytes(name, self.keys.iter().map(Vec::len).sum()));
        names.sum::<usize>() + derived + 1_024 + 768 * self.call.policy().limits().len()
    }

    /// Returns whether it may charge. A call that only reads never takes memory.
    pub fn may_charge(&self) -> bool {
        matches!(self.call.action(), Action::Check(request) if request.cost.get() > 0 && !request.peek)
    }
}
