//! Calls of the dialects, decided on the keys they name.
//!
//! A key stores the state of every dialect that uses it, as in Redis: each dialect finds its own state again, and the
//! key lives as long as any of them does. Dialects that use their callers' clocks are kept apart from the others and
//! from each other, so that one caller's time does not affect another.
//!
//! `rolling.rs` decides calls with several keys, and `namespaces.rs` has the names that are derived from a key.

mod namespaces;
mod rolling;

use std::sync::Arc;

use tollgate_dialects::{Action, ApiCounterUsage, CallClock, DialectOutcome, DialectReply, ParsedCall};
use tollgate_kernel::{Cell, Decision, KeyState, Limit, Micros, Timestamp};

use crate::call::{DialectCall, ROLLING};
use crate::entry::{KeyEntry, KeyValue, LimiterState, ScopeState, state_bytes};
use crate::fault::{Fault, FaultCode};
use crate::overflow::SharedLimiterId;
use crate::{ClockReadings, Keyspace, check_name};

/// The most scopes that a key stores; a call that would add another one is refused.
pub(super) const MAX_SCOPES: usize = 64;

/// The changes of a call that matter later. A refusal leaves everything as it was, or as it would be found anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallEffect {
    /// It changed nothing.
    #[default]
    Nothing,
    /// The limiter state of its keys.
    States,
    /// Plain keys: those that the table reports as changed.
    Entries,
    /// A state that its keys share with others for lack of memory, and keys that know some of its limits: those that
    /// the table reports as changed.
    Shared(SharedLimiterId),
}

impl Keyspace {
    /// Decides a call at `now`.
    pub fn decide(&mut self, dialect_call: &DialectCall, now: impl Into<ClockReadings>) -> Result<DialectReply, Fault> {
        let now = now.into();
        self.effect = CallEffect::Nothing;
        dialect_call.keys.iter().map(Vec::as_slice).chain(dialect_call.places()).try_for_each(check_name)?;
        self.table.sweep(now);
        let decided = match (dialect_call.call.usage_key(), dialect_call.keys.as_slice()) {
            (Some(data), _) => {
                self.effect = CallEffect::Entries;
                self.count_minute(dialect_call.db, &dialect_call.call, data, now)?
            }
            (None, [key]) if dialect_call.dialect.name != ROLLING => {
                self.decide_one(dialect_call, dialect_call.call.state_name().unwrap_or(key), now)?
            }
            (None, keys) => self.decide_several(dialect_call, keys, now)?,
        };
        match decided {
            Some(reply) => Ok(reply),
            None => self.decide_shared(dialect_call, now),
        }
    }

    /// Decides a call on the state that keys share for lack of memory. Limits that the keys of the call know are
    /// decided on the keys' own state, so that a call with a new limit does not bypass it.
    fn decide_shared(&mut self, dialect_call: &DialectCall, times: ClockReadings) -> Result<DialectReply, Fault> {
        let mut own = self.take_cells(dialect_call, times)?;
        let outcome = self.overflow.decide(dialect_call, times.now, &mut own);
        let decision = outcome.as_ref().ok().and_then(|outcome| outcome.decision);
        self.put_cells_back(dialect_call, own, decision, times)?;
        if outcome.is_ok() {
            self.effect = CallEffect::Shared(self.overflow.bucket(dialect_call));
        }
        outcome.map(|outcome| outcome.reply)
    }

    /// Returns where the limits of a call are stored if its keys know them, one place for each limit.
    fn limit_locations<'a>(&self, dialect_call: &'a DialectCall) -> Result<Vec<LimitLocation<'a>>, Fault> {
        let limits = dialect_call.call.policy().limits();
        match dialect_call.keys.as_slice() {
            _ if dialect_call.call.usage_key().is_some() => Ok(Vec::new()),
            [key] if dialect_call.dialect.name != ROLLING => {
                let (scope, key) = (dialect_call.scope(), dialect_call.call.state_name().unwrap_or(key));
                let own = |limit: &Arc<Limit>| LimitLocation { key, scope: scope.clone(), limit: Arc::clone(limit) };
                Ok(limits.iter().map(own).collect())
            }
            keys => rolling::limit_locations(keys, limits),
        }
    }

    /// Takes out the cells that the keys store for the limits of a call, `None` for a limit that its key does not know.
    /// Until a cell is put back, a fresh one is in its place.
    fn take_cells(&mut self, dialect_call: &DialectCall, times: ClockReadings) -> Result<Vec<Option<Cell>>, Fault> {
        let mut taken = Vec::new();
        for LimitLocation { key, scope, limit } in self.limit_locations(dialect_call)? {
            let is_known = matches!(
                self.table.get(dialect_call.db, key, times).map(|entry| &entry.value),
                Some(KeyValue::Limiter(limiter)) if limiter.knows(&scope, &limit, times.now)
            );
            if !is_known {
                taken.push(None);
                continue;
            }
            let cell = self.table.change(dialect_call.db, key, times, |entry| {
                let KeyValue::Limiter(limiter) = &mut entry.value else { return None };
                let mut cell = std::mem::replace(limiter.part(&scope)?.state.find_mut(&limit)?, limit.fresh());
                if dialect_call.may_charge() {
                    cell.thin();
                }
                Some(cell)
            });
            taken.push(cell.flatten());
        }
        Ok(taken)
    }

    /// Puts back the cells that were taken; if they were charged, they live as long as the convention says.
    fn put_cells_back(
        &mut self,
        dialect_call: &DialectCall,
        taken: Vec<Option<Cell>>,
        decision: Option<Decision>,
        times: ClockReadings,
    ) -> Result<(), Fault> {
        let now = times.now;
        let ttl = decision.and_then(|decision| dialect_call.call.ttl(&decision, now));
        for (LimitLocation { key, scope, limit }, cell) in self.limit_locations(dialect_call)?.into_iter().zip(taken) {
            let Some(cell) = cell else { continue };
            self.table.change(dialect_call.db, key, times, |entry| {
                let KeyValue::Limiter(limiter) = &mut entry.value else { return };
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
    pub fn call_effect(&self) -> CallEffect {
        self.effect
    }

    /// Returns the same, once.
    pub fn take_call_effect(&mut self) -> CallEffect {
        std::mem::take(&mut self.effect)
    }

    /// Returns the states that a key of the first database stores for dialects, one for each scope.
    pub fn states(&self, key: &[u8], now: impl Into<ClockReadings>) -> Vec<KeyState> {
        match self.table.get(0, key, now.into()).map(|entry| &entry.value) {
            Some(KeyValue::Limiter(limiter)) => limiter.parts.iter().map(|part| part.state.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Decides a call on its one key. Returns `None` if there is no memory for new state.
    fn decide_one(
        &mut self,
        dialect_call: &DialectCall,
        key: &[u8],
        times: ClockReadings,
    ) -> Result<Option<DialectReply>, Fault> {
        let (db, scope, call, now) = (dialect_call.db, dialect_call.scope(), &dialect_call.call, times.now);
        let t = call.time(now)?;
        let known = self.knows(db, key, &scope, dialect_call, times)?;
        self.check_place(dialect_call, key, &scope, times, t)?;
        // The shared state may include what this key was charged.
        let shared = if known { KeyState::default() } else { self.overflow.state_of(dialect_call, now) };
        if !known && !self.table.has_room(dialect_call.new_bytes() + state_bytes(&shared), times) {
            return Ok(None);
        }
        if !known && self.table.get(db, key, times).is_none() {
            let mut part = ScopeState { scope: scope.into(), state: shared, until: now };
            let outcome = run(call, &mut part, now, t)?;
            if outcome.decision.is_some_and(|decision| decision.charged > 0) {
                self.effect = CallEffect::States;
                let until = part.until;
                let limiter = Box::new(LimiterState { parts: vec![part] });
                self.table.put(db, key, KeyEntry::new(KeyValue::Limiter(limiter), Some(until)));
                self.derive_name(dialect_call, key);
            }
            return Ok(Some(outcome.reply));
        }
        let tight = dialect_call.may_charge()
            && self.table.get(db, key, times).is_some_and(|entry| self.table.lacks(2 * entry.value.bytes()));
        let done = self.table.change(db, key, times, |entry| {
            let KeyValue::Limiter(limiter) = &mut entry.value else { return Err(not_limiter_state()) };
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
            let is_kept = |part: &ScopeState| {
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
            Ok((outcome.reply, limiter.parts.is_empty(), (is_written, is_other)))
        });
        let (reply, is_empty, (is_written, is_other)) = done.unwrap_or_else(|| Err(not_limiter_state()))?;
        if is_other {
            self.effect = CallEffect::States;
        }
        if is_empty {
            self.table.remove(db, key);
        } else if is_written && !known {
            self.derive_name(dialect_call, key);
        }
        Ok(Some(reply))
    }

    /// Returns whether the key stores the limits of a call, so that deciding it takes no more memory.
    pub(super) fn knows(
        &self,
        db: u8,
        key: &[u8],
        scope: &[u8],
        dialect_call: &DialectCall,
        now: ClockReadings,
    ) -> Result<bool, Fault> {
        let Some(entry) = self.table.get(db, key, now) else { return Ok(false) };
        let KeyValue::Limiter(limiter) = &entry.value else { return Err(not_limiter_state()) };
        Ok(dialect_call.call.policy().limits().iter().all(|limit| limiter.knows(scope, limit, now.now)))
    }

    /// Refuses a call for which its key has no room: a key drops no state for what callers bring.
    pub(super) fn check_place(
        &self,
        dialect_call: &DialectCall,
        key: &[u8],
        scope: &[u8],
        times: ClockReadings,
        t: Timestamp,
    ) -> Result<(), Fault> {
        let now = times.now;
        if !matches!(dialect_call.call.action(), Action::Check(_)) {
            return Ok(());
        }
        let limiter = match self.table.get(dialect_call.db, key, times).map(|entry| &entry.value) {
            Some(KeyValue::Limiter(limiter)) => Some(limiter),
            _ => None,
        };
        let mut parts = limiter.into_iter().flat_map(|limiter| &limiter.parts);
        if let Some(part) = parts.find(|part| *part.scope == *scope && now <= part.until) {
            return Ok(part.state.check_place_for(dialect_call.call.policy(), t)?);
        }
        self.check_namespaces(dialect_call, times)?;
        limiter.map_or(Ok(()), |limiter| limiter.check_place(scope, now))
    }
}

/// Returns the error for a key with too many namespaces and clocks.
fn crowded(found: usize) -> Fault {
    Fault::wrong(format!(
        "key: expected at most {MAX_SCOPES} namespaces and clocks remembered for a key, found {found}; use fewer on a key \
         or wait until they expire"
    ))
}

/// The place of a call's limit, if its key knows the limit.
pub(super) struct LimitLocation<'a> {
    pub(super) key: &'a [u8],
    pub(super) scope: Vec<u8>,
    pub(super) limit: Arc<Limit>,
}

/// Returns whether a state contains a time after `t`: then deciding may correct it, even if nothing is charged.
pub(super) fn is_ahead(state: &KeyState, t: Timestamp) -> bool {
    state.each().any(|(_, cell)| cell.latest() > t)
}

impl LimiterState {
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
        if others < MAX_SCOPES {
            return Ok(());
        }
        Err(crowded(others + 1))
    }

    /// Returns the state of a scope, which begins now if there was none.
    pub(super) fn open(&mut self, scope: &[u8], now: Timestamp) -> Result<&mut ScopeState, Fault> {
        let place = match self.parts.iter().position(|part| *part.scope == *scope) {
            Some(place) => place,
            None => {
                self.check_place(scope, now)?;
                self.parts.retain(|part| now <= part.until);
                self.parts.reserve_exact(1);
                self.parts.push(ScopeState { scope: scope.into(), state: KeyState::default(), until: now });
                self.parts.len() - 1
            }
        };
        Ok(&mut self.parts[place])
    }
}

/// Decides a call on the state of its scope, and keeps that state for as long as the convention says.
fn run(call: &ParsedCall, part: &mut ScopeState, now: Timestamp, t: Timestamp) -> Result<DialectOutcome, Fault> {
    if part.until < now {
        part.state = KeyState::default();
    }
    let policy = call.policy_of(&part.state, t);
    let outcome = call.run_under(&policy, part.state.cells_of(&policy, t), &mut ApiCounterUsage::default(), t);
    part.state.settle();
    let outcome = outcome?;
    let others = part.state.each().count() > policy.limits().len() || *policy != *call.policy();
    match (call.action(), &outcome.decision) {
        (Action::Reset, _) if part.state.expires_after(t) == Micros::ZERO => {
            (part.state, part.until) = (KeyState::default(), now);
        }
        (_, Some(decision)) => part.keep(call, decision, others, now, t),
        _ => {}
    }
    Ok(outcome)
}

impl ScopeState {
    /// Keeps the state for as long as the convention says, or longer if it holds the state of other calls.
    fn keep(&mut self, call: &ParsedCall, decision: &Decision, others: bool, now: Timestamp, t: Timestamp) {
        let Some(ttl) = call.ttl(decision, now) else { return };
        let own = now.plus(ttl);
        self.until = match call.clock() {
            _ if !others => own,
            CallClock::Home => own.max(now.plus(self.state.expires_after(t))),
            CallClock::Caller(_) => own.max(self.until),
        };
    }
}

/// Returns the error for a key whose value is not limiter state.
pub(super) fn not_limiter_state() -> Fault {
    let text = "Operation against a key holding the wrong kind of value: expected a state of tollgate";
    Fault::new(FaultCode::WrongType, text)
}
