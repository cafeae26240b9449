//! Calls of the dialects, decided on the keys they name.
//!
//! A key remembers what every dialect that uses it needs, as in Redis: each finds its own again, and the key
//! lives as long as any of it does. Dialects that go by their callers' clocks are kept apart from the others
//! and from each other, so that one caller's time is not another's.

use std::sync::Arc;

use tollgate_core::{Cell, Decision, KeyState, Limit, Micros, Timestamp};
use tollgate_dialects::{Action, Call, Clock, Dialect, Outcome, Reply, Usage, Wording};

use super::entry::{Entry, Limiter, Part, Value, state_bytes};
use super::overflow::Bucket;
use super::table::entry_bytes;
use super::{Keys, Times, check_name};
use crate::fault::{Code, Fault};

/// The most scopes that a key remembers; a call that would bring one more is refused.
pub(super) const MOST_PARTS: usize = 64;

/// The dialect that takes several keys, each with a limit of its own.
pub(super) const ROLLING: &str = "rolling";

/// What a call changed, if anything that matters later: a refusal leaves all as it was, or as it would be
/// found anyhow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wrote {
    #[default]
    Nothing,
    /// What its keys remember of limiters.
    States,
    /// Keys that are plain: those that the table says were changed.
    Entries,
    /// A state that its keys share with others, for lack of memory, and keys that know some of its limits: those that
    /// the table says were changed.
    Shared(Bucket),
}

/// A call of a dialect, read and valid.
#[derive(Debug)]
pub(crate) struct Spoken {
    pub(crate) dialect: &'static Dialect,
    pub(crate) call: Call,
    pub(crate) db: u8,
    /// The keys and arguments as they came, for a home elsewhere.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) wording: Wording,
}

impl Spoken {
    /// What its state is kept apart by, within its key.
    pub(super) fn scope(&self) -> Vec<u8> {
        match self.call.clock() {
            Clock::Home => Vec::new(),
            // The key itself, if the dialect has no namespaces.
            Clock::Caller(_) if self.keys.iter().any(|key| key == self.call.state_key()) => {
                self.dialect.name.as_bytes().to_vec()
            }
            Clock::Caller(_) => [self.dialect.name.as_bytes(), b" ", self.call.state_key()].concat(),
        }
    }

    /// About what the state of a key takes that is new, and not less.
    pub(super) fn new_bytes(&self) -> usize {
        let names = self.keys.iter().map(|key| 2 * entry_bytes(key.len()) + self.call.state_key().len());
        names.sum::<usize>() + 1_024 + 768 * self.call.policy().limits().len()
    }

    /// Whether it may charge: a look never takes memory.
    pub(super) fn may_charge(&self) -> bool {
        matches!(self.call.action(), Action::Check(request) if request.cost.get() > 0 && !request.peek)
    }
}

impl Keys {
    /// Decides a call at `now`.
    pub(crate) fn decide(&mut self, spoken: &Spoken, now: impl Into<Times>) -> Result<Reply, Fault> {
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

    /// Decides on the state that keys share for lack of memory. Limits that the keys of the call know are decided on
    /// what the keys remember: a limit that is new does not make them forget it.
    fn decide_shared(&mut self, spoken: &Spoken, times: Times) -> Result<Reply, Fault> {
        let mut own = self.take_own(spoken, times)?;
        let outcome = self.overflow.decide(spoken, times.now, &mut own);
        let decision = outcome.as_ref().ok().and_then(|outcome| outcome.decision);
        self.put_own(spoken, own, decision, times)?;
        if outcome.is_ok() {
            self.wrote = Wrote::Shared(self.overflow.bucket(spoken));
        }
        outcome.map(|outcome| outcome.reply)
    }

    /// Where the limits of a call are kept if its keys know them, one a limit.
    fn places<'a>(&self, spoken: &'a Spoken) -> Result<Vec<Own<'a>>, Fault> {
        let limits = spoken.call.policy().limits();
        match spoken.keys.as_slice() {
            _ if spoken.call.usage_key().is_some() => Ok(Vec::new()),
            [key] if spoken.dialect.name != ROLLING => {
                let scope = spoken.scope();
                let own = |limit: &Arc<Limit>| Own { key, scope: scope.clone(), limit: Arc::clone(limit) };
                Ok(limits.iter().map(own).collect())
            }
            keys => super::rolling::places(keys, limits),
        }
    }

    /// Takes out what the keys remember of the limits of a call, none for a limit that its key does not know. Until it
    /// is put back its place is as new.
    fn take_own(&mut self, spoken: &Spoken, times: Times) -> Result<Vec<Option<Cell>>, Fault> {
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

    /// Puts back what was taken, which lives as the convention says if it was charged.
    fn put_own(
        &mut self,
        spoken: &Spoken,
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

    /// What the latest call changed.
    pub(crate) fn wrote(&self) -> Wrote {
        self.wrote
    }

    /// What a key of the first database remembers for dialects, scope by scope.
    pub(crate) fn states(&self, key: &[u8], now: impl Into<Times>) -> Vec<KeyState> {
        match self.table.get(0, key, now.into()).map(|entry| &entry.value) {
            Some(Value::Limiter(limiter)) => limiter.parts.iter().map(|part| part.state.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Decides on the one key; nothing if there is no memory for what is new.
    fn decide_one(&mut self, spoken: &Spoken, key: &[u8], times: Times) -> Result<Option<Reply>, Fault> {
        let (db, scope, call, now) = (spoken.db, spoken.scope(), &spoken.call, times.now);
        let t = call.time(now)?;
        let known = self.knows(db, key, &scope, spoken, times)?;
        self.check_place(spoken, key, &scope, times, t)?;
        // What is shared may be the key's own.
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
            // What somebody made to live longer or shorter stays so, until it is written.
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

    /// Whether the key remembers the limits of a call, so that deciding it takes no more memory.
    pub(super) fn knows(&self, db: u8, key: &[u8], scope: &[u8], spoken: &Spoken, now: Times) -> Result<bool, Fault> {
        let Some(entry) = self.table.get(db, key, now) else { return Ok(false) };
        let Value::Limiter(limiter) = &entry.value else { return Err(wrong_state()) };
        Ok(spoken.call.policy().limits().iter().all(|limit| limiter.knows(scope, limit, now.now)))
    }

    /// Refuses a call for which its key has no place: a key gives up nothing for what callers bring.
    pub(super) fn check_place(
        &self,
        spoken: &Spoken,
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

/// Where a limit of a call is kept, if its key knows it.
pub(super) struct Own<'a> {
    pub(super) key: &'a [u8],
    pub(super) scope: Vec<u8>,
    pub(super) limit: Arc<Limit>,
}

/// Whether a state tells of a time after `t`: then deciding may correct it, even if nothing is charged.
pub(super) fn is_ahead(state: &KeyState, t: Timestamp) -> bool {
    state.each().any(|(_, cell)| cell.latest() > t)
}

impl Limiter {
    /// What a call that charges nothing may change all the same: how many scopes there are, how long one lives
    /// and how many limits it remembers.
    fn outline(&self, scope: &[u8]) -> (usize, Option<(Timestamp, usize)>) {
        let part = self.parts.iter().find(|part| *part.scope == *scope);
        (self.parts.len(), part.map(|part| (part.until, part.state.each().count())))
    }

    /// Whether a scope remembers a limit.
    pub(super) fn knows(&self, scope: &[u8], limit: &Limit, now: Timestamp) -> bool {
        let mut parts = self.parts.iter().filter(|part| *part.scope == *scope && now <= part.until);
        parts.any(|part| part.state.find(limit).is_some())
    }

    /// Whether there is a place for a scope.
    pub(super) fn check_place(&self, scope: &[u8], now: Timestamp) -> Result<(), Fault> {
        let others = self.parts.iter().filter(|part| now <= part.until && *part.scope != *scope).count();
        if others < MOST_PARTS {
            return Ok(());
        }
        Err(Fault::wrong(format!(
            "key: expected at most {MOST_PARTS} namespaces and clocks remembered for a key, found {}; use fewer on a key \
             or wait until they expire",
            others + 1
        )))
    }

    /// What is remembered of a scope, from now on if nothing was.
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

/// Decides a call on what its scope remembers, and keeps that for as long as the convention says.
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
    /// Lives as the convention says, or longer if it holds what other calls left.
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

/// The key holds something that is no limiter's.
pub(super) fn wrong_state() -> Fault {
    let text = "Operation against a key holding the wrong kind of value: expected a state of tollgate";
    Fault::new(Code::WrongType, text)
}
