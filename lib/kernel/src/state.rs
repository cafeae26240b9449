//! The state of a key under policies of one name: one cell per limit, stored by limit id.
//!
//! A policy that changes finds the cells of its limits again. A new limit starts with a fresh cell and leaves the
//! others alone. Cells of limits that are gone are kept until they expire, so that a policy may return, or policies may
//! alternate on one key. A cell is dropped only when it has expired: a store that bounds the state of a key calls
//! [`KeyState::has_place_for`] before it decides, and refuses policies for which there is no place.

use std::sync::Arc;

use crate::combine;
use crate::decision::{Decision, Detail};
use crate::limit::{Cell, Limit};
use crate::policy::{MAX_LIMITS, Policy};
use crate::request::Request;
use crate::store::StoreError;
use crate::units::{Micros, Timestamp};

/// The most limits that a key remembers besides those of the policy that is decided.
pub const MAX_OTHER_LIMITS: usize = 2 * MAX_LIMITS;

/// The cells of one key. Those of the latest policy come first and in its order.
///
/// ```
/// use tollgate_kernel::{KeyState, Policy, Request, Timestamp};
/// let policy: Policy = "1/5s, 5/h".parse().unwrap();
/// let mut state = KeyState::default();
/// let t = Timestamp::new(1_700_000_000_000_000).unwrap();
/// assert!(state.decide(&policy, t, &Request::ONE).allowed);
/// let refused = state.decide(&policy, t, &Request::ONE);
/// assert_eq!(refused.flat(), [0, 0, 0, 5_000_000, 3_600_000_000, 1]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct KeyState {
    limits: Vec<Arc<Limit>>,
    cells: Vec<Cell>,
    /// Cells that were last charged under numbers other than those of their limit. Usually empty.
    former: Vec<FormerLimit>,
}

/// The limit under which a cell was charged before a policy with other numbers found it. The limit that charged a cell
/// last determines how long the cell lives, and a policy that only peeks must not change that.
#[derive(Clone, Debug)]
struct FormerLimit {
    place: usize,
    limit: Arc<Limit>,
    /// The cell at that time, without its log. Every charge changes it.
    head: Cell,
}

/// Two states are equal if they have the same limits and cells in the same order.
impl PartialEq for KeyState {
    fn eq(&self, other: &Self) -> bool {
        self.each().eq(other.each())
    }
}

impl KeyState {
    /// Decides a request and charges what it grants: see [`combine::decide`].
    pub fn decide(&mut self, policy: &Policy, t: Timestamp, request: &Request) -> Decision {
        combine::decide(policy, self.cells_of(policy, t), t, request)
    }

    /// As [`KeyState::decide`], and returns each limit's part as well.
    pub fn decide_full(&mut self, policy: &Policy, t: Timestamp, request: &Request) -> (Decision, Vec<Detail>) {
        let mut details = Vec::with_capacity(policy.limits().len());
        let decision =
            combine::decide_with(policy, self.cells_of(policy, t), t, request, |detail| details.push(detail));
        (decision, details)
    }

    /// Gives back charged units: see [`combine::refund`].
    pub fn refund(&mut self, policy: &Policy, t: Timestamp, units: u64, at: Timestamp) -> u64 {
        combine::refund(policy, self.cells_of(policy, t), t, units, at)
    }

    /// Forgets the key under `policy`; the cells of other limits stay.
    pub fn reset(&mut self, policy: &Policy, t: Timestamp) {
        let cells = self.cells_of(policy, t);
        for (cell, limit) in cells.iter_mut().zip(policy.limits()) {
            *cell = limit.fresh();
        }
    }

    /// Creates the state of a key from these cells, one per limit of `policy` in its order.
    pub fn of(policy: &Policy, cells: Vec<Cell>) -> Self {
        Self { limits: policy.limits().iter().take(cells.len()).cloned().collect(), cells, former: Vec::new() }
    }

    /// Returns every cell with the limit that charged it last.
    pub fn each(&self) -> impl Iterator<Item = (&Arc<Limit>, &Cell)> {
        let limits = self.limits.iter().enumerate().zip(&self.cells);
        limits.map(|((place, limit), cell)| (self.charged_under(place, cell).unwrap_or(limit), cell))
    }

    /// Returns the limit that charged the cell, if its numbers differ from those of the limit it is now stored under.
    fn charged_under(&self, place: usize, cell: &Cell) -> Option<&Arc<Limit>> {
        let former = self.former.iter().find(|former| former.place == place)?;
        (former.head == cell.head()).then_some(&former.limit)
    }

    /// Takes every cell out, with the limit that charged it last.
    fn take(&mut self) -> Vec<(Arc<Limit>, Cell)> {
        let limits: Vec<_> = self.each().map(|(limit, _)| Arc::clone(limit)).collect();
        self.limits.clear();
        self.former.clear();
        limits.into_iter().zip(std::mem::take(&mut self.cells)).collect()
    }

    /// Adds a cell of a limit to those the state has.
    pub fn keep(&mut self, limit: Arc<Limit>, cell: Cell) {
        // Stores account for the size of a state before they let it grow.
        self.limits.reserve_exact(1);
        self.cells.reserve_exact(1);
        self.limits.push(limit);
        self.cells.push(cell);
    }

    /// Returns the position of the limit's cell, if there is one.
    pub fn position(&self, limit: &Limit) -> Option<usize> {
        self.each().position(|(held, cell)| limit.finds(held, cell))
    }

    /// Replaces the cell at a position, and the limit it was charged under if one is given; returns the previous cell.
    pub fn replace(&mut self, place: usize, limit: Option<&Arc<Limit>>, cell: Cell) -> Option<Cell> {
        if let (Some(held), Some(limit)) = (self.limits.get_mut(place), limit) {
            *held = Arc::clone(limit);
        }
        self.cells.get_mut(place).map(|held| std::mem::replace(held, cell))
    }

    /// Returns the cells of `limits` in their order, with fresh cells for those that are missing, and drops the others.
    pub fn into_cells(mut self, limits: &[Arc<Limit>]) -> Vec<Cell> {
        let cell = |limit: &Arc<Limit>| match self.position(limit) {
            Some(place) => {
                self.limits.swap_remove(place);
                self.cells.swap_remove(place)
            }
            None => limit.fresh(),
        };
        limits.iter().map(cell).collect()
    }

    /// Drops the cells for which `keeps` returns false.
    pub fn retain(&mut self, keeps: impl Fn(&Limit, &Cell) -> bool) {
        // Usually there is nothing to drop.
        if self.former.is_empty() && self.each().all(|(limit, cell)| keeps(limit, cell)) {
            return self.shrink();
        }
        let cells = self.take().into_iter();
        (self.limits, self.cells) = cells.filter(|(limit, cell)| keeps(limit, cell)).unzip();
        self.shrink();
    }

    /// Frees the memory that its cells do not need.
    pub fn shrink(&mut self) {
        self.limits.shrink_to_fit();
        self.cells.shrink_to_fit();
        self.former.shrink_to_fit();
    }

    /// Returns the same state without what has expired at `t`, in the order of limit ids. States with the same cells
    /// are then equal, whatever the order of their policies.
    #[must_use]
    pub fn sorted(mut self, t: Timestamp) -> Self {
        let is_left = |limit: &Limit, cell: &Cell| limit.reset_after(cell, t) > Micros::ZERO;
        if self.former.is_empty() && self.cells.len() <= 1 && self.each().all(|(limit, cell)| is_left(limit, cell)) {
            return self;
        }
        let mut left = self.take();
        left.retain(|(limit, cell)| is_left(limit, cell));
        left.sort_by(|(a, _), (b, _)| (a.id(), a.rule().name()).cmp(&(b.id(), b.rule().name())));
        let (limits, cells) = left.into_iter().unzip();
        Self { limits, cells, former: Vec::new() }
    }

    /// Returns whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns a time not after the latest charge: see [`Cell::latest`].
    pub fn latest(&self) -> Timestamp {
        self.cells.iter().map(Cell::latest).max().unwrap_or_default()
    }

    /// Ensures that the next charge takes no more memory: see [`Cell::thin`].
    pub fn thin(&mut self) {
        self.cells.iter_mut().for_each(Cell::thin);
    }

    /// Returns the time until everything has expired.
    pub fn expires_after(&self, t: Timestamp) -> Micros {
        self.each().map(|(limit, cell)| limit.reset_after(cell, t)).max().unwrap_or_default()
    }

    /// Returns the bytes of heap memory: cells and logs.
    pub fn heap_bytes(&self) -> usize {
        let limits = self.limits.capacity() * size_of::<usize>() + self.former.capacity() * size_of::<FormerLimit>();
        let cells = self.cells.capacity() * size_of::<Cell>() + limits;
        cells + self.cells.iter().map(Cell::heap_bytes).sum::<usize>()
    }

    /// Returns the cells of `policy` in its order.
    pub fn cells_of(&mut self, policy: &Policy, t: Timestamp) -> &mut [Cell] {
        let limits = policy.limits();
        let known = self.limits.len() >= limits.len()
            && limits.iter().zip(&self.limits).all(|(limit, held)| Arc::ptr_eq(limit, held));
        if !known {
            self.adopt(policy, t);
        } else if !self.former.is_empty() {
            self.drop_outdated_former();
        }
        &mut self.cells[..limits.len()]
    }

    /// Returns the cell of a limit, if there is one.
    pub fn find(&self, limit: &Limit) -> Option<&Cell> {
        self.each().find(|(held, cell)| limit.finds(held, cell)).map(|(_, cell)| cell)
    }

    /// As [`KeyState::find`], but mutable. The other cells are not changed, and no cell is created.
    pub fn find_mut(&mut self, limit: &Limit) -> Option<&mut Cell> {
        let place = self.each().position(|(held, cell)| limit.finds(held, cell))?;
        self.cells.get_mut(place)
    }

    /// Releases the limits that charged cells before the latest policy, and so their memory. A cell that the latest
    /// policy did not charge is stored again under the limit that charged it.
    pub fn settle(&mut self) {
        for former in std::mem::take(&mut self.former) {
            let unchanged = self.cells.get(former.place).is_some_and(|cell| cell.head() == former.head);
            if let (true, Some(limit)) = (unchanged, self.limits.get_mut(former.place)) {
                *limit = former.limit;
            }
        }
    }

    /// Drops the records that a charge has made outdated.
    fn drop_outdated_former(&mut self) {
        let cells = &self.cells;
        self.former.retain(|former| cells.get(former.place).is_some_and(|cell| cell.head() == former.head));
        if self.former.is_empty() {
            self.former = Vec::new();
        }
    }

    /// Returns whether the key can remember the limits of `policy`: it remembers all of them at `t`, or at most
    /// [`MAX_OTHER_LIMITS`] others. Callers choose policy texts, so a store must not keep more.
    pub fn has_place_for(&self, policy: &Policy, t: Timestamp) -> bool {
        self.check_place_for(policy, t).is_ok()
    }

    /// As [`KeyState::has_place_for`], but returns the error that a store reports if there is no place.
    pub fn check_place_for(&self, policy: &Policy, t: Timestamp) -> Result<(), StoreError> {
        if self.cells.len() <= MAX_OTHER_LIMITS {
            return Ok(());
        }
        let live: Vec<_> = self.each().filter(|(limit, cell)| limit.reset_after(cell, t) > Micros::ZERO).collect();
        let is_live = |own: &Limit| live.iter().any(|(limit, cell)| own.finds(limit, cell));
        let known = policy.limits().iter().filter(|own| is_live(own)).count();
        let others = live.len() - known;
        if others <= MAX_OTHER_LIMITS || known == policy.limits().len() {
            return Ok(());
        }
        Err(StoreError::Crowded(others))
    }

    fn adopt(&mut self, policy: &Policy, t: Timestamp) {
        let mut old = self.take();
        // Usually these are all the cells for as long as the key lives.
        self.limits = Vec::with_capacity(policy.limits().len());
        self.cells = Vec::with_capacity(policy.limits().len());
        for (place, limit) in policy.limits().iter().enumerate() {
            let found = old.iter().position(|(held, cell)| limit.finds(held, cell));
            let cell = match found.map(|at| old.swap_remove(at)) {
                Some((held, cell)) => {
                    if held != *limit {
                        self.former.push(FormerLimit { place, limit: held, head: cell.head() });
                    }
                    cell
                }
                None => limit.fresh(),
            };
            self.limits.push(Arc::clone(limit));
            self.cells.push(cell);
        }
        // Cells that the policy does not use are dropped when they have expired, and not before. This includes the cell
        // of a limit of the same name that another algorithm charged: otherwise a text with that name would clear it.
        old.retain(|(limit, cell)| limit.reset_after(cell, t) > Micros::ZERO);
        self.limits.reserve_exact(old.len());
        self.cells.reserve_exact(old.len());
        for (limit, cell) in old {
            self.limits.push(limit);
            self.cells.push(cell);
        }
    }
}
