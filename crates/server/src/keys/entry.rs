//! What a key holds, and the bytes it takes.

use tollgate_core::{Cell, KeyState, Limit, Timestamp};

use super::Times;

/// A key's value and when it goes.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// The last microsecond it is alive; none if it does not expire.
    pub(super) expires: Option<Timestamp>,
    /// Whether it expires by the machine's clock, not by the one that limiters decide by.
    pub(super) by_wall: bool,
    /// When the table looks at it: not after it expires.
    pub(super) due: Option<Timestamp>,
}

/// What a key holds.
#[derive(Debug)]
pub(super) enum Value {
    /// Text that is an integer in its only form.
    Number(i64),
    /// Any other text.
    Text(Box<[u8]>),
    /// The data of a token: seed 001's hash.
    Data(Data),
    /// What limiters remember.
    Limiter(Box<Limiter>),
}

/// A hash of two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    /// The unix second of the last use.
    pub(crate) last: u64,
    /// Uses in all.
    pub(crate) ops: u64,
}

/// What the limiters of one key remember.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    pub(super) parts: Vec<Part>,
}

/// What limiters of one scope remember: those that go by one clock and, if they have namespaces, of one.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) scope: Box<[u8]>,
    pub(super) state: KeyState,
    /// The last microsecond it is needed.
    pub(super) until: Timestamp,
}

/// What the system takes for a piece of memory, about.
const PIECE: usize = 16;
/// A log below this is not thinned, so it may grow to it at the cap.
const SHORT_LOG: usize = 128;

impl Entry {
    /// Text expires by the machine's clock; what limiters remember does not.
    pub(super) fn new(value: Value, expires: Option<Timestamp>) -> Self {
        let by_wall = matches!(value, Value::Number(_) | Value::Text(_));
        Self { value, expires, by_wall, due: None }
    }

    /// What a limiter counted, be it text or not.
    pub(super) fn counted(value: Value, expires: Option<Timestamp>) -> Self {
        Self { by_wall: false, ..Self::new(value, expires) }
    }

    /// Whether it is there now.
    pub(super) fn lives(&self, now: Times) -> bool {
        self.expires.is_none_or(|expires| now.by(self.by_wall) <= expires)
    }
}

impl Value {
    /// Text as it is kept.
    pub(super) fn of(text: &[u8]) -> Self {
        super::number(text).map_or_else(|| Self::Text(text.into()), Self::Number)
    }

    /// The word of TYPE. What limiters remember is text in Redis too, if not one to be read.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Number(_) | Self::Text(_) | Self::Limiter(_) => "string",
            Self::Data(_) => "hash",
        }
    }

    /// Bytes of heap memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Number(_) | Self::Data(_) => 0,
            Self::Text(text) => text.len() + PIECE,
            Self::Limiter(limiter) => limiter.bytes(),
        }
    }
}

impl Limiter {
    pub(super) fn part(&mut self, scope: &[u8]) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| *part.scope == *scope)
    }

    /// The last microsecond it is needed.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.parts.iter().map(|part| part.until).max()
    }

    fn bytes(&self) -> usize {
        let parts = self.parts.capacity() * size_of::<Part>() + 2 * PIECE + size_of::<Self>();
        parts + self.parts.iter().map(|part| part.scope.len() + PIECE + state_bytes(&part.state)).sum::<usize>()
    }
}

/// Bytes of what a state keeps, the limits it is filed under among them: each call brings its own. A short log counts
/// as what it may grow to.
pub(super) fn state_bytes(state: &KeyState) -> usize {
    let limit = |limit: &Limit, cell: &Cell| {
        let is_log = matches!(limit.rule().name(), "sliding" | "slots" | "rolling");
        let log = if is_log { SHORT_LOG.saturating_sub(cell.heap_bytes()) } else { 0 };
        let name = limit.given_name().map_or(0, |name| name.len() + PIECE);
        size_of::<Limit>() + limit.id().as_str().len() + name + 3 * PIECE + log
    };
    state.heap_bytes() + 2 * PIECE + state.each().map(|(own, cell)| limit(own, cell)).sum::<usize>()
}
