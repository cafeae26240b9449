//! The value of a key, and the bytes it takes.

use tollgate_kernel::{Cell, KeyState, Limit, Timestamp};

use super::ClockReadings;

/// A key's value and expiry.
#[derive(Debug)]
pub(super) struct KeyEntry {
    pub(super) value: KeyValue,
    /// The last microsecond at which it is alive; `None` if it does not expire.
    pub(super) expires: Option<Timestamp>,
    /// Whether it expires by the machine's clock instead of the one that limiters decide by.
    pub(super) by_wall: bool,
    /// The time at which the table next examines it; never after it expires.
    pub(super) due: Option<Timestamp>,
}

/// The value of a key.
#[derive(Debug)]
pub(super) enum KeyValue {
    /// Text that is an integer in canonical form.
    Number(i64),
    /// Any other text.
    Text(Box<[u8]>),
    /// The data of a token: redis-limiter's hash.
    Data(TokenData),
    /// The state of limiters.
    Limiter(Box<LimiterState>),
}

/// The data of a token: a hash of two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenData {
    /// The unix second of the last use.
    pub last: u64,
    /// The total number of uses.
    pub ops: u64,
}

/// The state of the limiters of one key.
#[derive(Debug, Default)]
pub(super) struct LimiterState {
    pub(super) parts: Vec<ScopeState>,
}

/// The state of the limiters of one scope: those that use the same clock and, if they have namespaces, the same
/// namespace.
#[derive(Debug)]
pub(super) struct ScopeState {
    pub(super) scope: Box<[u8]>,
    pub(super) state: KeyState,
    /// The last microsecond at which it is needed.
    pub(super) until: Timestamp,
}

/// The approximate overhead of one heap allocation, in bytes.
const PIECE: usize = 16;
/// The size in bytes below which a log is not thinned, so that a log may grow to it even at the cap.
const SHORT_LOG: usize = 128;

impl KeyEntry {
    /// Returns an entry. Text expires by the machine's clock; limiter state does not.
    pub(super) fn new(value: KeyValue, expires: Option<Timestamp>) -> Self {
        let by_wall = matches!(value, KeyValue::Number(_) | KeyValue::Text(_));
        Self { value, expires, by_wall, due: None }
    }

    /// Returns an entry that a limiter counted, text or not: it expires by the clock that limiters decide by.
    pub(super) fn counted(value: KeyValue, expires: Option<Timestamp>) -> Self {
        Self { by_wall: false, ..Self::new(value, expires) }
    }

    /// Returns whether it is alive now.
    pub(super) fn lives(&self, now: ClockReadings) -> bool {
        self.expires.is_none_or(|expires| now.by(self.by_wall) <= expires)
    }
}

impl KeyValue {
    /// Returns the value that stores this text.
    pub(super) fn of(text: &[u8]) -> Self {
        number(text).map_or_else(|| Self::Text(text.into()), Self::Number)
    }

    /// Returns the word that TYPE replies. Limiter state is a string in Redis too, though not one meant to be read.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Number(_) | Self::Text(_) | Self::Limiter(_) => "string",
            Self::Data(_) => "hash",
        }
    }

    /// Returns the bytes of heap memory it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Number(_) | Self::Data(_) => 0,
            Self::Text(text) => text.len() + PIECE,
            Self::Limiter(limiter) => limiter.bytes(),
        }
    }
}

impl LimiterState {
    pub(super) fn part(&mut self, scope: &[u8]) -> Option<&mut ScopeState> {
        self.parts.iter_mut().find(|part| *part.scope == *scope)
    }

    /// Returns the last microsecond at which it is needed.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.parts.iter().map(|part| part.until).max()
    }

    fn bytes(&self) -> usize {
        let parts = self.parts.capacity() * size_of::<ScopeState>() + 2 * PIECE + size_of::<Self>();
        parts + self.parts.iter().map(|part| part.scope.len() + PIECE + state_bytes(&part.state)).sum::<usize>()
    }
}

/// Returns the bytes that a state takes, including the limits it is filed under, because each call brings its own. A
/// short log counts as the size it may grow to.
pub(super) fn state_bytes(state: &KeyState) -> usize {
    let limit = |limit: &Limit, cell: &Cell| {
        let log = if cell.has_log() { SHORT_LOG.saturating_sub(cell.heap_bytes()) } else { 0 };
        let name = limit.given_name().map_or(0, |name| name.len() + PIECE);
        size_of::<Limit>() + limit.id().as_str().len() + name + 3 * PIECE + log
    };
    state.heap_bytes() + 2 * PIECE + state.each().map(|(own, cell)| limit(own, cell)).sum::<usize>()
}

/// Returns the integer that this text is in canonical form: no `+`, no leading zeros, no `-0`.
pub fn number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || digits.len() > 19 || (digits[0] == b'0' && text.len() > 1) {
        return None;
    }
    std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}
