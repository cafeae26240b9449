//! Calls of the dialects, decided on the keys they name.
//!
//! A key stores the state of every dialect that uses it, as in Redis: each dialect finds its own state again, and the
//! key lives as long as any of them does. Dialects that use their callers' clocks are kept apart from the others and
//! from each other, so that one caller's time does not affect another.

mod rolling;

use std::sync::Arc;

use tollgate_dialects::{Action, Call, Clock, Outcome, Reply, Usage};
use tollgate_kernel::{Cell, Decision, KeyState, Limit, Micros, Timestamp};

use crate::call::{DialectCall, ROLLING};
use crate::entry::{Entry, Limiter, Part, Value, state_bytes};
use crate::fault::{Code, Fault};
use crate::overflow::Bucket;
use crate::{Keys, Times, check_name};

/// The most scopes that a key stores; a call that would add another one is refused.
pub(super) const MAX_PARTS: usize = 64;

/// The changes of a call that matter later. A refusal leaves everything as it was, or as it would be found anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wrote {
    /// It changed nothing.
    #[default]
    Nothing,
    /// The limiter state of its keys.
    States,
    /// Plain keys: those that the table reports as changed.
    Entries,
    /// A state that its keys share with others for lack of memory, and keys that know some of its limits: those that
    /// the table reports as changed.
    Shared(Bucket),
}

impl Keys {
    /// Decides a call at `now`.
    pub fn decide(&mut self, spoken: &DialectCall, now: impl Into<Times>) -> Result<Reply, Fault> {
        let now = now.into();
        self.wrote = Wrote::Nothing;
        spoken.keys.iter().try_for_each(|key| check_name(key))?;
        self.table.sweep(now);
        let decided = match (spoken.call.usage_key(), spoken.keys.as_slice()) {
            (Some(data), _) => {
                self.wrote = Wrote::Entries;
                self.count_minute(spoken.db, &spoken.call, data, now)?
            }
            (None, [key]) if spoken.dialect.name != ROLLING => self.decide_one(spoken, key, now)?,
            (None, keys) => self.decide_several(spoken, keys, now)?,
        };
        match decided {
            Some(reply) => Ok(reply),
            None => self.decide_shared(spoken, now),
        }
    }

    /// Decides a call on the state that keys share for lack of memory. Limits that the keys of the call know are
    /// decided on the keys' own state, so that a call with a new limit does not bypass it.
    fn decide_shared(&mut self, spoken: &DialectCall, times: Times) -> Result<Reply, Fault> {
        let mut own = self.take_own(spoken, times)?;
        let outcome = self.overflow.decide(spoken, times.now, &mut own);
        let decision = outcome.as_ref().ok().and_then(|outcome| outcome.decision);
        self.put_own(spoken, own, decision, times)?;
        if outcome.is_ok() {
            self.wrote = Wrote::Shared(self.overflow.bucket(spoken));
        }
        outcome.map(|outcome| outcome.reply)
    }

    /// Returns where the limits of a call are stored if its keys know them, one place for each limit.
    fn places<'a>(&self, spoken: &'a DialectCall) -> Result<Vec<Own<'a>>, Fault> {
        let limits = spoken.call.policy().limits();
        match spoken.keys.as_slice() {
            _ if spoken.call.usage_key().is_some() => Ok(Vec::new()),
            [key] if spoken.dialect.name != ROLLING => {
                let scope = spoken.scope();
                let own = |limit: &Arc<Limit>| Own { key, scope: scope.clone(), limit: Arc::clone(limit) };
                Ok(limits.iter().map(own).collect())
            }
            keys => rolling::places(keys, limits),
        }
    }

    /// Takes out the cells that the keys store for the limits of a call, `None` for a limit that its key does not know.
    /// Until a cell is put back, a fresh one is in its place.
    fn take_own(&mut self, spoken: &DialectCall, times: Times) -> Result<Vec<Option<Cell>>, Fault> {
        let mut taken = Vec::new();
        for Own { key, scope, limit } in self.places(spoken)? {
            let is_known = matches!(
                self.table.get(spoken.db, key, times).map(|entry| &entry.value),
                Some(Value::Limiter(limiter)) if limiter.knows(&scope, &limit, times.now)
            );
            if !is_known {
                taken.push(None);
                continue;
            }
            let cell = self.table.change(spoken.db, key, times, |entry| {
                let Value::Limiter(limiter) = &mut entry.value else { return None };
                let mut cell = std::mem::replace(limiter.part(&scope)?.state.find_mut(&limit)?, limit.fresh());
                if spoken.may_charge() {
                    cell.thin();
                }
                Some(cell)
            });
            taken.push(cell.flatten());
        }
        Ok(taken)
    }

    /// Puts back the cells that were taken; if they were charged, they live as long as the convention says.
    fn put_own(
        &mut self,
        spoken: &DialectCall,
        taken: Vec<Option<Cell>>,
        decision: Option<Decision>,
        times: Times,
    ) -> Result<(), Fault> {
        let now = times.now;
        let ttl = decision.and_then(|decision| spoken.call.ttl(&decision, now));
        for (Own { key, scope, limit }, cell) in self.places(spoken)?.into_iter().zip(taken) {
            let Some(cell) = cell else { continue };
            self.table.change(spoken.db, key, times, |entry| {
                let Value::Limiter(limiter) = &mut entry.value else { return };
                let Some(part) = limiter.part(&scope) else { return };
                if let Some(held) = part.state.find_mut(&limit) {
                    *held = cell;
                }
                if let Some(ttl) = ttl {
                    part.until = part.until.max(now.plus(ttl));
                    entry.expires = limiter.until();
                }
            });
        }
        Ok(())
    }

    /// Returns the changes of the latest call.
    pub fn wrote(&self) -> Wrote {
        self.wrote
    }

    /// Returns the states that a key of the first database stores for dialects, one for each scope.
    pub fn states(&self, key: &[u8], now: impl Into<Times>) -> Vec<KeyState> {
        match self.table.get(0, key, now.into()).map(|entry| &entry.value) {
            Some(Value::Limiter(limiter)) => limiter.parts.iter().map(|part| part.state.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Decides a call on its one key. Returns `None` if there is no memory for new state.
    fn decide_one(&mut self, spoken: &DialectCall, key: &[u8], times: Times) -> Result<Option<Reply>, Fault> {
        let (db, scope, call, now) = (spoken.db, spoken.scope(), &spoken.call, times.now);
        let t = call.time(now)?;
        let known = self.knows(db, key, &scope, spoken, times)?;
        self.check_place(spoken, key, &scope, times, t)?;
        // The shared state may include what this key was charged.
        let shared = if known { KeyState::default() } else { self.overflow.state_of(spoken, now) };
        if !known && !self.table.has_room(spoken.new_bytes() + state_bytes(&shared), times) {
            return Ok(None);
        }
        if !known && self.table.get(db, key, times).is_none() {
            let mut part = Part { scope: scope.into(), state: shared, until: now };
            let outcome = run(call, &mut part, now, t)?;
            if outcome.decision.is_some_and(|decision| decision.charged > 0) {
                self.wrote = Wrote::States;
                let until = part.until;
                let limiter = Box::new(Limiter { parts: vec![part] });
                self.table.put(db, key, Entry::new(Value::Limiter(limiter), Some(until)));
            }
            return Ok(Some(outcome.reply));
        }
        let tight = spoken.may_charge()
            && self.table.get(db, key, times).is_some_and(|entry| self.table.lacks(2 * entry.value.bytes()));
        let done = self.table.change(db, key, times, |entry| {
            let Value::Limiter(limiter) = &mut entry.value else { return Err(wrong_state()) };
            let before = (entry.expires, limiter.outline(&scope));
            let is_new = limiter.part(&scope).is_none();
            let part = limiter.open(&scope, now)?;
            let was_ahead = is_ahead(&part.state, t);
            if tight {
                part.state.thin();
            }
            for (limit, cell) in shared.each().filter(|(limit, _)| part.state.find(limit).is_none()).collect::<Vec<_>>()
            {
                part.state.keep(Arc::clone(limit), cell.clone());
            }
            let outcome = run(call, part, now, t);
            // An expiry that a command has set stays until the key is written.
            let is_written =
                outcome.as_ref().is_ok_and(|outcome| outcome.decision.is_none_or(|decision| decision.charged > 0));
            let is_kept = |part: &Part| {
                now <= part.until && !part.state.is_empty() && (is_written || !is_new || *part.scope != *scope)
            };
            limiter.parts.retain(is_kept);
            if is_new && !is_written {
                limiter.parts.shrink_to_fit();
            }
            let outcome = outcome?;
            if is_written {
                entry.expires = Some(limiter.until().unwrap_or(now));
            }
            let is_other = is_written || tight || was_ahead || before != (entry.expires, limiter.outline(&scope));
            Ok((outcome.reply, limiter.parts.is_empty(), is_other))
        });
        let (reply, is_empty, is_other) = done.unwrap_or_else(|| Err(wrong_state()))?;
        if is_other {
            self.wrote = Wrote::States;
        }
        if is_empty {
            self.table.remove(db, key);
        }
        Ok(Some(reply))
    }

    /// Returns whether the key stores the limits of a call, so that deciding it takes no more memory.
    pub(super) fn knows(
        &self,
        db: u8,
        key: &[u8],
        scope: &[u8],
        spoken: &DialectCall,
        now: Times,
    ) -> Result<bool, Fault> {
        let Some(entry) = self.table.get(db, key, now) else { return Ok(false) };
        let Value::Limiter(limiter) = &entry.value else { return Err(wrong_state()) };
        Ok(spoken.call.policy().limits().iter().all(|limit| limiter.knows(scope, limit, now.now)))
    }

    /// Refuses a call for which its key has no room: a key drops no state for what callers bring.
    pub(super) fn check_place(
        &self,
        spoken: &DialectCall,
        key: &[u8],
        scope: &[u8],
        times: Times,
        t: Timestamp,
    ) -> Result<(), Fault> {
        let now = times.now;
        let entry = self.table.get(spoken.db, key, times).map(|entry| &entry.value);
        let (Some(Value::Limiter(limiter)), Action::Check(_)) = (entry, spoken.call.action()) else { return Ok(()) };
        match limiter.parts.iter().find(|part| *part.scope == *scope && now <= part.until) {
            Some(part) => Ok(part.state.check_place_for(spoken.call.policy(), t)?),
            None => limiter.check_place(scope, now),
        }
    }
}

/// The place of a call's limit, if its key knows the limit.
pub(super) struct Own<'a> {
    pub(super) key: &'a [u8],
    pub(super) scope: Vec<u8>,
    pub(super) limit: Arc<Limit>,
}

/// Returns whether a state contains a time after `t`: then deciding may correct it, even if nothing is charged.
pub(super) fn is_ahead(state: &KeyState, t: Timestamp) -> bool {
    state.each().any(|(_, cell)| cell.latest() > t)
}

impl Limiter {
    /// Returns what a call may change even if it charges nothing: the number of scopes, how long this scope lives and
    /// how many limits it stores.
    fn outline(&self, scope: &[u8]) -> (usize, Option<(Timestamp, usize)>) {
        let part = self.parts.iter().find(|part| *part.scope == *scope);
        (self.parts.len(), part.map(|part| (part.until, part.state.each().count())))
    }

    /// Returns whether a scope stores a limit.
    pub(super) fn knows(&self, scope: &[u8], limit: &Limit, now: Timestamp) -> bool {
        let mut parts = self.parts.iter().filter(|part| *part.scope == *scope && now <= part.until);
        parts.any(|part| part.state.find(limit).is_some())
    }

    /// Checks that there is room for a scope.
    pub(super) fn check_place(&self, scope: &[u8], now: Timestamp) -> Result<(), Fault> {
        let others = self.parts.iter().filter(|part| now <= part.until && *part.scope != *scope).count();
        if others < MAX_PARTS {
            return Ok(());
        }
        Err(Fault::wrong(format!(
            "key: expected at most {MAX_PARTS} namespaces and clocks remembered for a key, found {}; use fewer on a key \
             or wait until they expire",
            others + 1
        )))
    }

    /// Returns the state of a scope, which begins now if there was none.
    pub(super) fn open(&mut self, scope: &[u8], now: Timestamp) -> Result<&mut Part, Fault> {
        let place = match self.parts.iter().position(|part| *part.scope == *scope) {
            Some(place) => place,
            None => {
                self.check_place(scope, now)?;
                self.parts.retain(|part| now <= part.until);
                self.parts.reserve_exact(1);
                self.parts.push(Part { scope: scope.into(), state: KeyState::default(), until: now });
                self.parts.len() - 1
            }
        };
        Ok(&mut self.parts[place])
    }
}

/// Decides a call on the state of its scope, and keeps that state for as long as the convention says.
fn run(call: &Call, part: &mut Part, now: Timestamp, t: Timestamp) -> Result<Outcome, Fault> {
    if part.until < now {
        part.state = KeyState::default();
    }
    let cells = part.state.cells_of(call.policy(), t);
    let outcome = call.run_on(cells, &mut Usage::default(), t);
    part.state.settle();
    let outcome = outcome?;
    let others = part.state.each().count() > call.policy().limits().len();
    match (call.action(), &outcome.decision) {
        (Action::Reset, _) if part.state.expires_after(t) == Micros::ZERO => {
            (part.state, part.until) = (KeyState::default(), now);
        }
        (_, Some(decision)) => part.keep(call, decision, others, now, t),
        _ => {}
    }
    Ok(outcome)
}

impl Part {
    /// Keeps the state for as long as the convention says, or longer if it holds the state of other calls.
    fn keep(&mut self, call: &Call, decision: &Decision, others: bool, now: Timestamp, t: Timestamp) {
        let Some(ttl) = call.ttl(decision, now) else { return };
        let own = now.plus(ttl);
        self.until = match call.clock() {
            _ if !others => own,
            Clock::Home => own.max(now.plus(self.state.expires_after(t))),
            Clock::Caller(_) => own.max(self.until),
        };
    }
}

/// Returns the error for a key whose value is not limiter state.
pub(super) fn wrong_state() -> Fault {
    let text = "Operation against a key holding the wrong kind of value: expected a state of tollgate";
    Fault::new(Code::WrongType, text)
}
