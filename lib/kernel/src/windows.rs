//! Windows on one log: `sliding` limits of a key that count the same events.
//!
//! The limits of a policy keep a log each, because the state of a limit must not depend on the limits beside it. The
//! calling convention of rdslim has one index of events for all windows of a key instead: a window that is added later
//! counts the events that are still held. Here all windows look at one cell, which belongs to a keeper: a limit that
//! refuses nothing and whose period is the longest window of the calls that charged the key since its log was last
//! empty. An event leaves the log when it has left that period, so no window of these calls misses one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::algorithms::sliding::Sliding;
use crate::algorithms::{Algorithm, AlgorithmMemory, Rule};
use crate::combine::ask;
use crate::decision::{Decision, Detail, Source};
use crate::limit::{Cell, Limit};
use crate::log::LogState;
use crate::options::LimitError;
use crate::policy::{Policy, PolicyError};
use crate::request::{Mode, Request};
use crate::ring::Ring;
use crate::state::KeyState;
use crate::units::{Micros, Timestamp, Wait};

/// The name of every keeper, which is the id of its state.
const KEEPER: &str = "windows";

/// The windows of a call, and the keeper of their log.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedWindows {
    windows: Policy,
    keeper: Policy,
}

impl SharedWindows {
    /// Creates windows from limits of `sliding`, in the order in which they refuse.
    pub fn new(windows: Vec<Limit>) -> Result<Self, PolicyError> {
        let most = windows.iter().map(Limit::count).max().unwrap_or_default();
        let longest = windows.iter().map(Limit::period).max().unwrap_or_default();
        let windows = Policy::new(windows)?;
        let keeper = keeper(most, longest).map(|keeper| vec![keeper]).unwrap_or_default();
        Ok(Self { windows, keeper: Policy::new(keeper)? })
    }

    /// Returns the policy under which a key's cell is stored: the keeper alone.
    pub fn keeper(&self) -> &Policy {
        &self.keeper
    }

    /// Returns the same for a key that other calls charged: its keeper has the longest period of them all.
    pub fn keeper_of(&self, state: &KeyState, t: Timestamp) -> Cow<'_, Policy> {
        let own = &self.keeper.limits()[0];
        let longer = |held: &Limit, cell: &Cell| own.finds(held, cell) && held.period() > own.period();
        let held = state.each().find(|(held, cell)| longer(held, cell) && held.remembers(cell, t));
        let held = held.and_then(|(held, _)| Policy::new(vec![Limit::clone(held)]).ok());
        held.map_or(Cow::Borrowed(&self.keeper), Cow::Owned)
    }

    /// Decides a request at `t` on the cell of `keeper`: it is recorded if every window has room for it. The mode does
    /// not matter.
    pub fn decide(
        &self,
        keeper: &Policy,
        cell: &mut Cell,
        t: Timestamp,
        request: &Request,
        mut tell: impl FnMut(Detail),
    ) -> Decision {
        let ask = ask(&self.windows, &request.mode(Mode::Binary));
        let limits = self.windows.limits();
        let fits: Vec<bool> = limits.iter().map(|limit| limit.fits(cell, t, ask.cost)).collect();
        let limited_by = fits.iter().position(|fits| !fits);
        let allowed = limited_by.is_none();
        let granted = if allowed { ask.cost } else { 0 };
        let charged = if ask.peek { 0 } else { granted };
        if charged > 0 {
            record(&keeper.limits()[0], cell, t, charged);
        }
        let (mut remaining, mut reset_after, mut wait) = (i64::MAX, Micros::ZERO, Wait::NONE);
        for (limit, fits) in limits.iter().zip(fits) {
            let settled = limit.settle(cell, t, 0, ask.needs);
            let left = settled.remaining.max(0);
            remaining = remaining.min(left);
            reset_after = reset_after.max(settled.reset_after);
            wait = wait.max(settled.wait);
            let (retry_after, reset_after) = (settled.wait, settled.reset_after);
            tell(Detail { fits, remaining: left, retry_after, reset_after, count: limit.count() });
        }
        Decision {
            allowed,
            granted,
            charged,
            remaining,
            retry_after: if allowed { Wait::NONE } else { wait },
            next_after: wait,
            reset_after,
            limited_by,
            at: t,
            source: Source::Home,
        }
    }

    /// As [`SharedWindows::decide`], on the state of a key.
    pub fn decide_on(&self, state: &mut KeyState, t: Timestamp, request: &Request) -> Decision {
        let keeper = self.keeper_of(state, t);
        let cells = state.cells_of(&keeper, t);
        self.decide(&keeper, &mut cells[0], t, request, |_| {})
    }
}

fn keeper(count: u64, period: Micros) -> Result<Limit, LimitError> {
    Limit::new(Rule::Sliding(Sliding::of_single_units(count, period)?)).named(KEEPER)
}

/// Records units in the log, whether they fit or not.
fn record(keeper: &Limit, cell: &mut Cell, t: Timestamp, units: u64) {
    if let (Rule::Sliding(rule), AlgorithmMemory::Sliding(state, log)) = (keeper.rule(), &mut cell.memory) {
        let look = rule.look(state, log, t);
        rule.record(state, log, &look, t, units);
    }
}

/// Replaces logs that counted each window apart, as states of earlier releases have them, by one log of a keeper. An
/// event that several logs hold is one event, so each window counts at least what its own log held. Other cells stay.
#[must_use]
pub fn merge_windows(mut state: KeyState) -> KeyState {
    let is_window = |limit: &Limit| matches!(limit.rule(), Rule::Sliding(_));
    let is_apart = |limit: &Limit| is_window(limit) && limit.given_name() != Some(KEEPER);
    if !state.each().any(|(limit, _)| is_apart(limit)) {
        return state;
    }
    let logs: Vec<(Arc<Limit>, Cell)> = state
        .each()
        .filter(|(limit, _)| is_window(limit))
        .map(|(limit, cell)| (Arc::clone(limit), cell.clone()))
        .collect();
    let most = logs.iter().map(|(limit, _)| limit.count()).max().unwrap_or_default();
    let longest = logs.iter().map(|(limit, _)| limit.period()).max().unwrap_or_default();
    if let Ok(keeper) = keeper(most, longest) {
        state.retain(|limit, _| !is_window(limit));
        state.keep(Arc::new(keeper), merge_logs(logs.iter().map(|(_, cell)| cell)));
    }
    state
}

/// Returns a log with the events of all logs, whose clocks are those of the home.
fn merge_logs<'a>(cells: impl Iterator<Item = &'a Cell>) -> Cell {
    let mut events: BTreeMap<u64, u64> = BTreeMap::new();
    for cell in cells {
        let AlgorithmMemory::Sliding(state, log) = &cell.memory else { continue };
        let [_, _, skew] = state.parts();
        for index in 0..log.len() {
            let units = state.left(log, index) - state.left(log, index + 1);
            let held = events.entry(state.at(log, index).saturating_sub(skew)).or_default();
            *held = units.max(*held);
        }
    }
    let (mut state, mut log) = (LogState::default(), Ring::default());
    for (at, units) in &events {
        state.append(&mut log, Timestamp::saturating(*at), *at, *units, events.len() as u64);
    }
    Cell { memory: AlgorithmMemory::Sliding(state, log), last: None }
}
