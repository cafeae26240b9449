//! What a key remembers under policies of one name: a cell a limit, filed by limit id.
//!
//! A policy that changes finds its limits' cells again; a limit that is new starts fresh and leaves
//! the others alone; cells of limits that are gone are kept until they expire, so that a policy may
//! come back, or policies may take turns on one key. A cell is given up only when it has expired: a store
//! that bounds how much a key may remember asks [`KeyState::has_place_for`] before it decides, and
//! refuses policies for which there is no place.

use std::sync::Arc;

use crate::combine;
use crate::decision::{Decision, Detail};
use crate::limit::{Cell, Limit};
use crate::policy::{MOST_LIMITS, Policy};
use crate::request::Request;
use crate::store::StoreError;
use crate::units::{Micros, Timestamp};

/// The most limits that a key remembers beside those of the policy it is asked under.
pub const MAX_OTHER_LIMITS: usize = 2 * MOST_LIMITS;

/// The cells of one key, those of the latest policy first and in its order.
///
/// ```
/// use tollgate_core::{KeyState, Policy, Request, Timestamp};
/// let policy: Policy = "1/5s, 5/h".parse().unwrap();
/// let mut state = KeyState::default();
/// let t = Timestamp::new(1_700_000_000_000_000).unwrap();
/// assert!(state.decide(&policy, t, &Request::ONE).allowed);
/// let refused = state.decide(&policy, t, &Request::ONE);
/// assert_eq!(refused.flat(), [0, 0, 0, 5_000_000, 3_600_000_000, 1]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyState {
    limits: Vec<Arc<Limit>>,
    cells: Vec<Cell>,
}

impl KeyState {
    /// Decides and charges: see [`combine::decide`].
    pub fn decide(&mut self, policy: &Policy, t: Timestamp, request: &Request) -> Decision {
        combine::decide(policy, self.cells_of(policy, t), t, request)
    }

    /// As [`KeyState::decide`], with each limit's part.
    pub fn decide_full(&mut self, policy: &Policy, t: Timestamp, request: &Request) -> (Decision, Vec<Detail>) {
        let mut details = Vec::with_capacity(policy.limits().len());
        let decision =
            combine::decide_with(policy, self.cells_of(policy, t), t, request, |detail| details.push(detail));
        (decision, details)
    }

    /// Gives back: see [`combine::refund`].
    pub fn refund(&mut self, policy: &Policy, t: Timestamp, units: u64, at: Timestamp) -> u64 {
        combine::refund(policy, self.cells_of(policy, t), t, units, at)
    }

    /// Forgets the key under `policy`; cells of limits it does not have stay.
    pub fn reset(&mut self, policy: &Policy, t: Timestamp) {
        let cells = self.cells_of(policy, t);
        for (cell, limit) in cells.iter_mut().zip(policy.limits()) {
            *cell = limit.fresh();
        }
    }

    /// The state of a key with these cells, one a limit of `policy` in its order.
    pub fn of(policy: &Policy, cells: Vec<Cell>) -> Self {
        Self { limits: policy.limits().iter().take(cells.len()).cloned().collect(), cells }
    }

    /// Every cell with its limit.
    pub fn each(&self) -> impl Iterator<Item = (&Arc<Limit>, &Cell)> {
        self.limits.iter().zip(&self.cells)
    }

    /// Keeps a cell of a limit, beside those it has.
    pub fn keep(&mut self, limit: Arc<Limit>, cell: Cell) {
        self.limits.push(limit);
        self.cells.push(cell);
    }

    /// Keeps no more room than its cells need.
    pub(crate) fn shrink(&mut self) {
        self.limits.shrink_to_fit();
        self.cells.shrink_to_fit();
    }

    /// The same without what has expired at `t`, in the order of limit ids: states that remember the same are
    /// then equal, whatever order their policies came in.
    #[must_use]
    pub fn sorted(self, t: Timestamp) -> Self {
        let cells = self.limits.into_iter().zip(self.cells);
        let mut left: Vec<_> = cells.filter(|(limit, cell)| limit.reset_after(cell, t) > Micros::ZERO).collect();
        left.sort_by(|(a, _), (b, _)| a.id().cmp(b.id()));
        let (limits, cells) = left.into_iter().unzip();
        Self { limits, cells }
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// A time not after the latest charge: see [`Cell::latest`].
    pub fn latest(&self) -> Timestamp {
        self.cells.iter().map(Cell::latest).max().unwrap_or_default()
    }

    /// Makes sure that the next charge takes no more memory: see [`Cell::thin`].
    pub fn thin(&mut self) {
        self.cells.iter_mut().for_each(Cell::thin);
    }

    /// The time until nothing is left to remember.
    pub fn expires_after(&self, t: Timestamp) -> Micros {
        let each = self.limits.iter().zip(&self.cells);
        each.map(|(limit, cell)| limit.reset_after(cell, t)).max().unwrap_or_default()
    }

    /// Bytes of heap memory: cells and logs.
    pub fn heap_bytes(&self) -> usize {
        let cells = self.cells.capacity() * size_of::<Cell>() + self.limits.capacity() * size_of::<usize>();
        cells + self.cells.iter().map(Cell::heap_bytes).sum::<usize>()
    }

    /// The cells of `policy` in its order.
    pub fn cells_of(&mut self, policy: &Policy, t: Timestamp) -> &mut [Cell] {
        let limits = policy.limits();
        let known = self.limits.len() >= limits.len()
            && limits.iter().zip(&self.limits).all(|(limit, held)| Arc::ptr_eq(limit, held));
        if !known {
            self.adopt(policy, t);
        }
        &mut self.cells[..limits.len()]
    }

    /// Returns whether the key can remember the limits of `policy`: of those it does not have, at most
    /// [`MAX_OTHER_LIMITS`] are live at `t`. Callers choose policy texts, so a store must not keep more.
    pub fn has_place_for(&self, policy: &Policy, t: Timestamp) -> bool {
        self.cells.len() <= MAX_OTHER_LIMITS || self.others_than(policy, t) <= MAX_OTHER_LIMITS
    }

    /// As [`KeyState::has_place_for`], as the error that a store answers with when there is no place.
    pub fn check_place_for(&self, policy: &Policy, t: Timestamp) -> Result<(), StoreError> {
        if self.has_place_for(policy, t) { Ok(()) } else { Err(StoreError::Crowded(self.others_than(policy, t))) }
    }

    /// Returns how many limits are live at `t` that `policy` does not have.
    fn others_than(&self, policy: &Policy, t: Timestamp) -> usize {
        let is_own = |limit: &Limit, cell: &Cell| policy.limits().iter().any(|own| own.finds(limit, cell));
        let others = self.each().filter(|(limit, cell)| !is_own(limit, cell));
        others.filter(|(limit, cell)| limit.reset_after(cell, t) > Micros::ZERO).count()
    }

    fn adopt(&mut self, policy: &Policy, t: Timestamp) {
        let limits = std::mem::take(&mut self.limits);
        let mut old: Vec<_> = limits.into_iter().zip(std::mem::take(&mut self.cells)).collect();
        // Nearly always these are all, for as long as the key lives.
        self.limits.reserve_exact(policy.limits().len());
        self.cells.reserve_exact(policy.limits().len());
        for limit in policy.limits() {
            let place = old.iter().position(|(held, cell)| limit.finds(held, cell));
            let cell = place.map(|place| old.swap_remove(place).1).unwrap_or_else(|| limit.fresh());
            self.limits.push(Arc::clone(limit));
            self.cells.push(cell);
        }
        // What the policy does not ask for goes when it expires, and not before: also the cell of a limit of the
        // same name that another algorithm charged, or a text with that name would clear it.
        old.retain(|(limit, cell)| limit.reset_after(cell, t) > Micros::ZERO);
        for (limit, cell) in old {
            self.limits.push(limit);
            self.cells.push(cell);
        }
    }
}
