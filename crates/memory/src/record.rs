//! What two words cannot hold: event logs, several limits, spacings, changed policies.
//!
//! The words of a boxed slot say where its record is, when the key may be forgotten, and, where one
//! more unit is surely refused, until when: so refusals of one unit look at nothing else.
//!
//! ```text
//! words[0]   63 .. 11 expires (us)   10 .. 6 limit that refuses   5 .. 0 record, high
//! words[1]   63 .. 18 expires - refused until (us), all ones if not refused   17 .. 0 record, low
//! ```

use crate::budget::Budget;
use crate::shared::Target;
use tollgate_core::{Cell, Decision, KeyState, Micros, Mode, Policy, Request, Source, Timestamp, Wait, Writer};

/// The bits of a record's number, and so the most records of a shard.
pub(crate) const MOST_RECORDS: usize = 1 << (HIGH_BITS + LOW_BITS);
const HIGH_BITS: u32 = 6;
const LIMIT_BITS: u32 = 5;
const LOW_BITS: u32 = 18;
const NOT_REFUSED: u64 = (1 << (u64::BITS - LOW_BITS)) - 1;
/// Bytes an allocation takes besides those asked for.
const ALLOCATION: usize = 16;
/// Entries of 16 bytes that every log may have.
const SHORT_LOG: usize = 8 * 16;

/// One key's cells, and the bytes counted for them.
#[derive(Debug, Default)]
pub(crate) struct Record {
    cells: Cells,
    pub(crate) counted: usize,
}

#[derive(Debug, Default)]
enum Cells {
    #[default]
    Free,
    /// Under the policy of its key's space, of one limit.
    One(Cell),
    /// The same, of several.
    Several(Box<[Cell]>),
    /// Under another.
    Changed(Box<KeyState>),
}

impl Record {
    /// The record of cells under the space's own policy.
    pub(crate) fn of(cells: Vec<Cell>) -> Self {
        let cells = match <[Cell; 1]>::try_from(cells) {
            Ok([cell]) => Cells::One(cell),
            Err(cells) => Cells::Several(cells.into()),
        };
        Self { cells, counted: 0 }
    }

    /// The record of a key under the target's policy.
    pub(crate) fn new(target: Target<'_>, cells: Vec<Cell>) -> Self {
        if target.is_own {
            return Self::of(cells);
        }
        Self::changed(KeyState::of(target.policy, cells))
    }

    /// The record of a key whose policy changed.
    pub(crate) fn changed(state: KeyState) -> Self {
        Self { cells: Cells::Changed(Box::new(state)), counted: 0 }
    }

    /// Whether its cells are those of the space's own policy.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.cells, Cells::One(_) | Cells::Several(_))
    }

    /// The cells of `policy`; `own` is the own policy of the key's space.
    #[inline]
    pub(crate) fn cells_of(&mut self, policy: &Policy, own: &Policy, is_own: bool, t: Timestamp) -> &mut [Cell] {
        if !is_own || !self.is_own() {
            return self.change(own).cells_of(policy, t);
        }
        match &mut self.cells {
            Cells::One(cell) => std::slice::from_mut(cell),
            Cells::Several(cells) => cells,
            Cells::Free | Cells::Changed(_) => &mut [],
        }
    }

    fn change(&mut self, own: &Policy) -> &mut KeyState {
        if !matches!(self.cells, Cells::Changed(_)) {
            let cells = match std::mem::take(&mut self.cells) {
                Cells::One(cell) => vec![cell],
                Cells::Several(cells) => cells.into_vec(),
                Cells::Free | Cells::Changed(_) => Vec::new(),
            };
            self.cells = Cells::Changed(Box::new(KeyState::of(own, cells)));
        }
        let Cells::Changed(state) = &mut self.cells else { unreachable!("it has just been made one") };
        state
    }

    /// A copy of all its cells with their limits; `own` is the own policy of the key's space.
    pub(crate) fn state(&self, own: &Policy) -> KeyState {
        match &self.cells {
            Cells::Free => KeyState::default(),
            Cells::One(cell) => KeyState::of(own, vec![cell.clone()]),
            Cells::Several(cells) => KeyState::of(own, cells.to_vec()),
            Cells::Changed(state) => KeyState::clone(state),
        }
    }

    /// Writes its cells: those of the space's own policy in its order, or a state that tells its limits.
    pub(crate) fn write(&self, to: &mut Writer) {
        match &self.cells {
            Cells::Free => {}
            Cells::One(cell) => cell.write(to),
            Cells::Several(cells) => cells.iter().for_each(|cell| cell.write(to)),
            Cells::Changed(state) => state.write(to),
        }
    }

    /// The time until nothing is left to remember.
    pub(crate) fn expires_after(&self, own: &Policy, t: Timestamp) -> Micros {
        match &self.cells {
            Cells::Free => Micros::ZERO,
            Cells::One(cell) => tollgate_core::expires_after(own, std::slice::from_ref(cell), t),
            Cells::Several(cells) => tollgate_core::expires_after(own, cells, t),
            Cells::Changed(state) => state.expires_after(t),
        }
    }

    /// Counts the bytes it takes now, at least those a key of these limits takes soon.
    #[inline]
    pub(crate) fn count(&mut self, budget: &Budget, least: usize) {
        let bytes = self.bytes().max(least);
        if bytes > self.counted {
            budget.count(bytes - self.counted);
        } else if bytes < self.counted {
            budget.give_back(self.counted - bytes);
        }
        self.counted = bytes;
    }

    #[inline]
    fn bytes(&self) -> usize {
        let bytes = match &self.cells {
            Cells::Free => 0,
            Cells::One(cell) => cell.heap_bytes(),
            Cells::Several(cells) => {
                size_of_val::<[Cell]>(cells) + cells.iter().map(|cell| cell.heap_bytes() + ALLOCATION).sum::<usize>()
            }
            Cells::Changed(state) => size_of::<KeyState>() + 3 * ALLOCATION + state.heap_bytes(),
        };
        bytes + ALLOCATION
    }

    /// See [`Cell::thin`].
    #[cold]
    pub(crate) fn thin(&mut self) {
        match &mut self.cells {
            Cells::Free => {}
            Cells::One(cell) => cell.thin(),
            Cells::Several(cells) => cells.iter_mut().for_each(Cell::thin),
            Cells::Changed(state) => state.thin(),
        }
    }
}

/// What a record of this policy takes at least, on the heap.
pub(crate) fn least_bytes(policy: &Policy) -> usize {
    let logs = policy.limits().iter().filter(|limit| limit.rule().log_bytes_at_most() > 0).count();
    let cells = if policy.limits().len() > 1 { size_of::<Cell>() * policy.limits().len() + ALLOCATION } else { 0 };
    cells + logs * (SHORT_LOG + ALLOCATION)
}

/// The words of a boxed slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mirror {
    pub(crate) record: usize,
    pub(crate) expires: Timestamp,
    refused: Option<Refused>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused {
    until: Timestamp,
    by: u64,
}

impl Mirror {
    pub(crate) fn of(record: usize, expires: Timestamp) -> Self {
        // What takes longer than the kernel knows time is kept for as long as that.
        Self { record, expires: expires.min(Timestamp::MAX), refused: None }
    }

    #[inline]
    pub(crate) fn unpack(words: [u64; 2]) -> Self {
        let high = (words[0] & ((1 << HIGH_BITS) - 1)) as usize;
        let low = (words[1] & ((1 << LOW_BITS) - 1)) as usize;
        let expires = words[0] >> (HIGH_BITS + LIMIT_BITS);
        let before = words[1] >> LOW_BITS;
        let by = words[0] >> HIGH_BITS & ((1 << LIMIT_BITS) - 1);
        let until = Timestamp::saturating(expires - before.min(expires));
        let refused = (before != NOT_REFUSED).then_some(Refused { until, by });
        Self { record: high << LOW_BITS | low, expires: Timestamp::saturating(expires), refused }
    }

    #[inline]
    pub(crate) fn pack(&self) -> [u64; 2] {
        let (high, low) = (self.record >> LOW_BITS, self.record & ((1 << LOW_BITS) - 1));
        let expires = self.expires.get();
        let (before, by) = match self.refused {
            Some(Refused { until, by }) => (expires.saturating_sub(until.get()).min(NOT_REFUSED), by),
            None => (NOT_REFUSED, 0),
        };
        [expires << (HIGH_BITS + LIMIT_BITS) | by << HIGH_BITS | high as u64, before << LOW_BITS | low as u64]
    }

    /// Remembers a refusal of one unit, if it is the same until its wait is over: the first limit to
    /// refuse is the last to stop, it has nothing left, and no limit loses room by waiting.
    /// `first_wait` is the wait of the first limit that refuses.
    pub(crate) fn remember(&mut self, policy: &Policy, decision: &Decision, request: &Request, first_wait: Wait) {
        let (Some(by), Wait::After(wait)) = (decision.limited_by, decision.retry_after) else { return };
        let until = decision.at.plus(wait);
        let settled = first_wait == decision.retry_after && decision.remaining == 0 && until <= self.expires;
        let steady = policy.limits().iter().all(|limit| !limit.rule().loses_room());
        if is_plain(policy, request) && !decision.allowed && settled && steady {
            self.refused = Some(Refused { until, by: by as u64 });
        }
    }

    /// The refusal that was remembered, as of `t`. If the clock may have been set back since, by more
    /// than `near`, the kernel has to see it.
    #[inline]
    pub(crate) fn refusal(&self, policy: &Policy, request: &Request, t: Timestamp, near: Micros) -> Option<Decision> {
        let Refused { until, by } = self.refused?;
        if t >= until || until.since(t) > near || !is_plain(policy, request) {
            return None;
        }
        let wait = Wait::After(until.since(t));
        Some(Decision {
            allowed: false,
            granted: 0,
            charged: 0,
            remaining: 0,
            retry_after: wait,
            next_after: wait,
            reset_after: self.expires.since(t),
            limited_by: Some(by as usize),
            at: t,
            source: Source::Home,
        })
    }
}

/// Whether the request is for one unit, and leaves nothing behind when it is refused.
#[inline]
fn is_plain(policy: &Policy, request: &Request) -> bool {
    let uniform = request.mode.unwrap_or(policy.mode()) == Mode::Uniform;
    request.cost.get() == 1 && request.wait_for.is_none() && !uniform
}

/// How far back a clock may go without any limit of the policy needing a correction.
pub(crate) fn near(policy: &Policy) -> Micros {
    let each = policy
        .limits()
        .iter()
        .map(|limit| if limit.rule().log_bytes_at_most() > 0 { limit.period() } else { Micros::ZERO });
    each.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_keeps_its_parts_apart() {
        for record in [0, 1, 262_143, 262_144, MOST_RECORDS - 1] {
            for expires in [0, 1, 1_790_000_000_123_456, Timestamp::MAX.get()] {
                let expires = Timestamp::saturating(expires);
                let plain = Mirror::of(record, expires);
                assert_eq!(Mirror::unpack(plain.pack()), plain);
                let refused = Mirror { refused: Some(Refused { until: expires, by: 31 }), ..plain };
                assert_eq!(Mirror::unpack(refused.pack()), refused);
            }
        }
    }
}
