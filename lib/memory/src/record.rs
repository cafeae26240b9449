//! State that does not fit in two words: event logs, several limits, spacings, changed policies.
//!
//! The words of a boxed slot say where its record is, when the key may be forgotten, and until when one more unit is
//! certain to be refused, if it is: refusals of one unit then need nothing else.
//!
//! ```text
//! words[0]   63 .. 11 expires (us)   10 .. 6 limit that refuses   5 .. 0 record, high
//! words[1]   63 .. 18 expires - refused until (us), all ones if not refused   17 .. 0 record, low
//! ```

use std::sync::Arc;

use tollgate_kernel::{
    Cell, Decision, KeyState, Limit, Micros, Mode, Policy, Request, Source, Timestamp, Wait, Writer,
};

use crate::budget::Budget;

/// The maximum number of records of a shard, given by the bits of a record's number.
pub(crate) const MAX_RECORDS: usize = 1 << (HIGH_BITS + LOW_BITS);
const HIGH_BITS: u32 = 6;
const LIMIT_BITS: u32 = 5;
const LOW_BITS: u32 = 18;
const NOT_REFUSED: u64 = (1 << (u64::BITS - LOW_BITS)) - 1;
/// The number of bytes that an allocation takes in addition to those requested.
const ALLOCATION: usize = 16;
/// The size that every log may have: 8 entries of 16 bytes.
const SHORT_LOG: usize = 8 * 16;

/// The cells of one key, and the number of bytes counted for them.
#[derive(Debug, Default)]
pub(crate) struct Record {
    cells: RecordCells,
    pub(crate) counted: usize,
}

#[derive(Debug, Default)]
enum RecordCells {
    #[default]
    Free,
    /// The cell of the policy of the key's space, which has one limit.
    One(Cell),
    /// The same for a policy of several limits.
    Several(Box<[Cell]>),
    /// Cells of limits that do not all belong to one policy, or of a policy without a space.
    Mixed(Box<KeyState>),
}

impl Record {
    /// Creates the record of cells under the space's own policy.
    pub(crate) fn of(cells: impl IntoIterator<Item = Cell, IntoIter: ExactSizeIterator>) -> Self {
        let mut cells = cells.into_iter();
        let cells = match cells.len() {
            0 => RecordCells::Free,
            1 => cells.next().map_or(RecordCells::Free, RecordCells::One),
            _ => RecordCells::Several(cells.collect()),
        };
        Self { cells, counted: 0 }
    }

    /// Creates the record of cells with their limits.
    pub(crate) fn mixed(state: KeyState) -> Self {
        Self { cells: RecordCells::Mixed(Box::new(state)), counted: 0 }
    }

    /// Returns whether the record has no cells.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.cells, RecordCells::Free)
    }

    /// Returns whether the cells are those of the space's own policy.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.cells, RecordCells::One(_) | RecordCells::Several(_))
    }

    /// Returns the cells of the space's own policy, in policy order; an empty slice if the record has others too.
    #[inline]
    pub(crate) fn own_cells(&mut self) -> &mut [Cell] {
        match &mut self.cells {
            RecordCells::One(cell) => std::slice::from_mut(cell),
            RecordCells::Several(cells) => cells,
            RecordCells::Free | RecordCells::Mixed(_) => &mut [],
        }
    }

    /// Returns every cell with its limit; `own` is the own policy of the key's space.
    pub(crate) fn each<'a>(&'a self, own: &'a Policy) -> impl Iterator<Item = (&'a Arc<Limit>, &'a Cell)> {
        let (cells, mixed): (&[Cell], _) = match &self.cells {
            RecordCells::Free => (&[], None),
            RecordCells::One(cell) => (std::slice::from_ref(cell), None),
            RecordCells::Several(cells) => (cells, None),
            RecordCells::Mixed(state) => (&[], Some(state.each())),
        };
        own.limits().iter().zip(cells).chain(mixed.into_iter().flatten())
    }

    /// Takes out the cell at a position, leaving one in its initial state.
    pub(crate) fn take_cell(&mut self, own: &Policy, place: usize) -> Option<Cell> {
        let fresh = self.each(own).nth(place)?.0.fresh();
        match &mut self.cells {
            RecordCells::Mixed(state) => state.replace(place, None, fresh),
            _ => self.own_cells().get_mut(place).map(|cell| std::mem::replace(cell, fresh)),
        }
    }

    /// Puts a cell back at its position; `limit` is given if the cell was charged under numbers other than those
    /// stored.
    pub(crate) fn put_cell(&mut self, place: usize, limit: Option<&Arc<Limit>>, cell: Cell) {
        match &mut self.cells {
            RecordCells::Mixed(state) => _ = state.replace(place, limit, cell),
            _ => {
                if let Some(held) = self.own_cells().get_mut(place) {
                    *held = cell;
                }
            }
        }
    }

    /// Takes out all cells with their limits; `own` is the own policy of the key's space.
    pub(crate) fn take_state(&mut self, own: &Policy) -> KeyState {
        match std::mem::take(&mut self.cells) {
            RecordCells::Free => KeyState::default(),
            RecordCells::One(cell) => KeyState::of(own, vec![cell]),
            RecordCells::Several(cells) => KeyState::of(own, cells.into_vec()),
            RecordCells::Mixed(state) => *state,
        }
    }

    /// Puts cells into a record that has none: those of the space's own policy, in policy order.
    pub(crate) fn put_own(&mut self, cells: impl IntoIterator<Item = Cell, IntoIter: ExactSizeIterator>) {
        self.cells = Self::of(cells).cells;
    }

    /// Puts cells with their limits into a record that has none.
    pub(crate) fn put_mixed(&mut self, state: KeyState) {
        self.cells = RecordCells::Mixed(Box::new(state));
    }

    /// Returns a copy of all cells with their limits; `own` is the own policy of the key's space.
    pub(crate) fn state(&self, own: &Policy) -> KeyState {
        match &self.cells {
            RecordCells::Free => KeyState::default(),
            RecordCells::One(cell) => KeyState::of(own, vec![cell.clone()]),
            RecordCells::Several(cells) => KeyState::of(own, cells.to_vec()),
            RecordCells::Mixed(state) => KeyState::clone(state),
        }
    }

    /// Writes the cells: those of the space's own policy in policy order, or a state that includes its limits.
    pub(crate) fn write(&self, to: &mut Writer) {
        match &self.cells {
            RecordCells::Free => {}
            RecordCells::One(cell) => cell.write(to),
            RecordCells::Several(cells) => cells.iter().for_each(|cell| cell.write(to)),
            RecordCells::Mixed(state) => state.write(to),
        }
    }

    /// Returns the time until the whole state has expired.
    pub(crate) fn expires_after(&self, own: &Policy, t: Timestamp) -> Micros {
        match &self.cells {
            RecordCells::Free => Micros::ZERO,
            RecordCells::One(cell) => tollgate_kernel::expires_after(own, std::slice::from_ref(cell), t),
            RecordCells::Several(cells) => tollgate_kernel::expires_after(own, cells, t),
            RecordCells::Mixed(state) => state.expires_after(t),
        }
    }

    /// Returns the number of bytes that charging the cells may take beyond those that are counted.
    #[inline(always)]
    pub(crate) fn growth(&self) -> usize {
        match &self.cells {
            RecordCells::Free => 0,
            RecordCells::One(cell) => growth(cell),
            RecordCells::Several(cells) => cells.iter().map(growth).sum(),
            RecordCells::Mixed(state) => state.each().map(|(_, cell)| growth(cell)).sum(),
        }
    }

    /// Counts the bytes that the record takes now, of which `reserved` bytes beyond those counted are taken already.
    /// `is_callers` is whether its limits may come from texts of callers.
    #[inline]
    pub(crate) fn count(&mut self, budget: &Budget, reserved: usize, is_callers: bool) {
        let (bytes, mut taken) = (self.bytes(is_callers), self.counted + reserved);
        // A log with too few entries to be thinned may exceed the size that is counted for every log, by a few bytes.
        if bytes > taken && budget.take(bytes - taken) {
            taken = bytes;
        }
        budget.give_back(taken.saturating_sub(bytes));
        self.counted = bytes.min(taken);
    }

    /// Returns the number of bytes that the record takes in addition to its place.
    #[inline(always)]
    pub(crate) fn bytes(&self, is_callers: bool) -> usize {
        match &self.cells {
            RecordCells::Free => 0,
            RecordCells::One(cell) => log_bytes(cell),
            RecordCells::Several(cells) => ALLOCATION + cells.iter().map(own_bytes).sum::<usize>(),
            RecordCells::Mixed(state) => {
                MIXED + state.each().map(|(limit, cell)| mixed_bytes(limit, cell, is_callers)).sum::<usize>()
            }
        }
    }

    /// Thins the logs of all cells, see [`Cell::thin`].
    #[cold]
    pub(crate) fn thin(&mut self) {
        match &mut self.cells {
            RecordCells::Free => {}
            RecordCells::One(cell) => cell.thin(),
            RecordCells::Several(cells) => cells.iter_mut().for_each(Cell::thin),
            RecordCells::Mixed(state) => state.thin(),
        }
    }
}

/// The number of bytes of a record of several limits with their numbers, in addition to its cells.
const MIXED: usize = size_of::<KeyState>() + 3 * ALLOCATION;

/// Returns the number of bytes of a record of cells under their own policy, before it is created.
pub(crate) fn own_record_bytes<'a>(cells: impl ExactSizeIterator<Item = &'a Cell>) -> usize {
    let several = cells.len() > 1;
    cells.map(if several { own_bytes } else { log_bytes }).sum::<usize>() + if several { ALLOCATION } else { 0 }
}

/// Returns the number of bytes of a record of cells with their limits, before it is created.
pub(crate) fn mixed_record_bytes<'a>(
    cells: impl Iterator<Item = (&'a Arc<Limit>, &'a Cell)>,
    is_callers: bool,
) -> usize {
    MIXED + cells.map(|(limit, cell)| mixed_bytes(limit, cell, is_callers)).sum::<usize>()
}

#[inline]
fn own_bytes(cell: &Cell) -> usize {
    size_of::<Cell>() + log_bytes(cell)
}

/// Returns the number of bytes of a cell with its limit. The limits of a server's policies are shared by all keys; a
/// text from a caller may belong to one key alone.
fn mixed_bytes(limit: &Limit, cell: &Cell, is_callers: bool) -> usize {
    let limit = if is_callers { limit.bytes() + 3 * ALLOCATION } else { 0 };
    own_bytes(cell) + size_of::<usize>() + limit
}

/// Returns the number of bytes of a cell's log, at least those that every log may have.
#[inline]
fn log_bytes(cell: &Cell) -> usize {
    cell.log_bytes().map_or(0, |bytes| bytes.max(SHORT_LOG) + ALLOCATION)
}

/// Returns the number of bytes that a charge may take beyond those counted by [`log_bytes`].
#[inline(always)]
pub(crate) fn growth(cell: &Cell) -> usize {
    match cell.growth() {
        0 => 0,
        more => (cell.heap_bytes() + more).saturating_sub(cell.heap_bytes().max(SHORT_LOG)),
    }
}

/// The words of a boxed slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mirror {
    pub(crate) record: usize,
    pub(crate) expires: Timestamp,
    refused: Option<MirroredRefusal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MirroredRefusal {
    until: Timestamp,
    by: u64,
}

impl Mirror {
    pub(crate) fn of(record: usize, expires: Timestamp) -> Self {
        // An expiry beyond the latest time of the kernel is clamped to that time.
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
        let refused = (before != NOT_REFUSED).then_some(MirroredRefusal { until, by });
        Self { record: high << LOW_BITS | low, expires: Timestamp::saturating(expires), refused }
    }

    #[inline]
    pub(crate) fn pack(&self) -> [u64; 2] {
        let (high, low) = (self.record >> LOW_BITS, self.record & ((1 << LOW_BITS) - 1));
        let expires = self.expires.get();
        let (before, by) = match self.refused {
            Some(MirroredRefusal { until, by }) => (expires.saturating_sub(until.get()).min(NOT_REFUSED), by),
            None => (NOT_REFUSED, 0),
        };
        [expires << (HIGH_BITS + LIMIT_BITS) | by << HIGH_BITS | high as u64, before << LOW_BITS | low as u64]
    }

    /// Records a refusal of one unit, if it stays the same until its wait is over: the first limit that refuses is the
    /// last to stop refusing, it has nothing left, and no limit loses room by waiting. `first_wait` is the wait of the
    /// first limit that refuses.
    pub(crate) fn remember(&mut self, policy: &Policy, decision: &Decision, request: &Request, first_wait: Wait) {
        let (Some(by), Wait::After(wait)) = (decision.limited_by, decision.retry_after) else { return };
        let until = decision.at.plus(wait);
        let settled = first_wait == decision.retry_after && decision.remaining == 0 && until <= self.expires;
        let steady = policy.limits().iter().all(|limit| !limit.rule().loses_room());
        if is_plain(policy, request) && !decision.allowed && settled && steady {
            self.refused = Some(MirroredRefusal { until, by: by as u64 });
        }
    }

    /// Returns the recorded refusal as of `t`. Returns `None` if the clock may have been set back by more than `near`
    /// since, in which case the kernel has to decide.
    #[inline]
    pub(crate) fn refusal(&self, policy: &Policy, request: &Request, t: Timestamp, near: Micros) -> Option<Decision> {
        let MirroredRefusal { until, by } = self.refused?;
        if t >= until || until.since(t) > near || !is_plain(policy, request) {
            return None;
        }
        Some(Decision {
            reset_after: self.expires.since(t),
            limited_by: Some(by as usize),
            source: Source::Home,
            ..Decision::closed(until.since(t), t)
        })
    }
}

/// Returns whether the request is for one unit, and changes nothing when it is refused.
#[inline]
fn is_plain(policy: &Policy, request: &Request) -> bool {
    let uniform = request.mode.unwrap_or(policy.mode()) == Mode::Uniform;
    request.cost.get() == 1 && request.wait_for.is_none() && !uniform
}

/// Returns how far back a clock may go without any limit of the policy needing a correction.
pub(crate) fn near(policy: &Policy) -> Micros {
    let each = policy.limits().iter().map(|limit| if limit.has_log() { limit.period() } else { Micros::ZERO });
    each.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_keeps_its_parts_apart() {
        for record in [0, 1, 262_143, 262_144, MAX_RECORDS - 1] {
            for expires in [0, 1, 1_790_000_000_123_456, Timestamp::MAX.get()] {
                let expires = Timestamp::saturating(expires);
                let plain = Mirror::of(record, expires);
                assert_eq!(Mirror::unpack(plain.pack()), plain);
                let refused = Mirror { refused: Some(MirroredRefusal { until: expires, by: 31 }), ..plain };
                assert_eq!(Mirror::unpack(refused.pack()), refused);
            }
        }
    }
}
