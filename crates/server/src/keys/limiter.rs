//! Calls of the dialects, decided on the keys they name.
//!
//! A key remembers what every dialect that uses it needs, as in Redis: each finds its own again, and the key
//! lives as long as any of it does. Dialects that go by their callers' clocks are kept apart from the others
//! and from each other, so that one caller's time is not another's.

use tollgate_core::{Decision, KeyState, LimitId, Micros, Timestamp};
use tollgate_dialects::{Action, Call, Clock, Dialect, Outcome, Reply, Usage, Wording};

use super::entry::{Entry, Limiter, Part, Value};
use super::overflow::Bucket;
use super::table::entry_bytes;
use super::{Keys, Times, check_name};
use crate::fault::{Code, Fault};

/// The most scopes that a key remembers; of more, the soonest to expire go.
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
    /// A state that its keys share with others, for lack of memory.
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
            None => {
                self.wrote = Wrote::Shared(self.overflow.bucket(spoken));
                self.overflow.decide(spoken, now.now)
            }
        }
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
        if !known && !self.table.has_room(spoken.new_bytes(), times) {
            return Ok(None);
        }
        if !known && self.table.get(db, key, times).is_none() {
            let shared = self.overflow.state_of(spoken, now);
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
        let tight = self.table.get(db, key, times).is_some_and(|entry| self.table.lacks(2 * entry.value.bytes()));
        let done = self.table.change(db, key, times, |entry| {
            let Value::Limiter(limiter) = &mut entry.value else { return Err(wrong_state()) };
            let before = (entry.expires, limiter.outline(&scope));
            let part = limiter.open(&scope, now);
            let was_ahead = is_ahead(&part.state, t);
            if tight {
                part.state.thin();
            }
            let outcome = run(call, part, now, t)?;
            limiter.parts.retain(|part| now <= part.until && part.state.each().next().is_some());
            // What somebody made to live longer or shorter stays so, until it is written.
            let is_written = outcome.decision.is_none_or(|decision| decision.charged > 0);
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
        let part = limiter.parts.iter().find(|part| *part.scope == *scope);
        let limits = spoken.call.policy().limits();
        Ok(part.is_some_and(|part| holds(&part.state, limits.iter().map(|limit| limit.id()))))
    }
}

/// Whether a state has a cell for each of the limits.
pub(super) fn holds<'a>(state: &KeyState, mut ids: impl Iterator<Item = &'a LimitId>) -> bool {
    ids.all(|id| state.each().any(|(limit, _)| limit.id() == id))
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

    /// What is remembered of a scope, from now on if nothing was.
    pub(super) fn open(&mut self, scope: &[u8], now: Timestamp) -> &mut Part {
        let place = self.parts.iter().position(|part| *part.scope == *scope).unwrap_or_else(|| {
            self.parts.retain(|part| now <= part.until);
            if self.parts.len() >= MOST_PARTS {
                let soonest = self.parts.iter().enumerate().min_by_key(|(_, part)| part.until);
                let soonest = soonest.map_or(0, |(place, _)| place);
                self.parts.swap_remove(soonest);
            }
            self.parts.push(Part { scope: scope.into(), state: KeyState::default(), until: now });
            self.parts.len() - 1
        });
        &mut self.parts[place]
    }
}

/// Decides a call on what its scope remembers, and keeps that for as long as the convention says.
fn run(call: &Call, part: &mut Part, now: Timestamp, t: Timestamp) -> Result<Outcome, Fault> {
    if part.until < now {
        part.state = KeyState::default();
    }
    let cells = part.state.cells_of(call.policy(), t);
    let outcome = call.run_on(cells, &mut Usage::default(), t)?;
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
