//! A call: what a dialect makes of its arguments, and how it is decided in a process.

use std::fmt::Debug;

use tollgate_core::{Cell, Decision, Detail, EXACT, KeyState, Micros, Policy, Request, Timestamp, decide_with};

use crate::api_counter::Usage;
use crate::error::DialectError;
use crate::reply::Reply;

/// What one convention says, once a call is decided.
pub trait Convention: Debug + Send + Sync {
    /// The reply to a decision. `details` are the limits' in policy order.
    fn reply(&self, decision: &Decision, details: &[Detail], usage: &Usage) -> Reply;

    /// The reply to a reset.
    fn forgotten(&self) -> Reply {
        Reply::Nil
    }

    /// How long Redis keeps a state that this decision wrote at `home`, its clock's time.
    fn life(&self, decision: &Decision, home: Timestamp) -> Micros {
        let _ = home;
        decision.reset_after
    }

    /// Takes the words of the document or of the script, where they differ.
    fn speak(&mut self, wording: Wording) {
        let _ = wording;
    }
}

/// Whose words a reply uses where a limiter's document and its published script differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wording {
    /// The document's.
    #[default]
    Document,
    /// The script's, for its own clients.
    Script,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To decide a request.
    Check(Request),
    /// To forget the key under the policy.
    Reset,
}

/// Whose clock a call goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The home's, in microseconds.
    Home,
    /// The caller's, in the caller's unit; the policy's periods are in the same.
    Caller(Timestamp),
}

/// A call of a dialect, read and valid.
#[derive(Debug)]
pub struct Call {
    state_key: Vec<u8>,
    policy: Policy,
    action: Action,
    clock: Clock,
    /// The home's clock must have run this long since the epoch.
    reach: Micros,
    /// Whether refused requests are counted in whole units.
    counts_on: bool,
    usage_key: Option<Vec<u8>>,
    convention: Box<dyn Convention>,
}

/// A decided call.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What the caller is told.
    pub reply: Reply,
    /// The decision behind it; none if the call was a reset.
    pub decision: Option<Decision>,
}

impl Call {
    pub(crate) fn new(
        state_key: Vec<u8>,
        policy: Policy,
        action: Action,
        convention: impl Convention + 'static,
    ) -> Self {
        let convention = Box::new(convention);
        let (clock, reach) = (Clock::Home, Micros::ZERO);
        Self { state_key, policy, action, clock, reach, counts_on: false, usage_key: None, convention }
    }

    pub(crate) fn by_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    pub(crate) fn reaching_back(self, reach: Micros) -> Self {
        Self { reach, ..self }
    }

    pub(crate) fn counting_on(self) -> Self {
        Self { counts_on: true, ..self }
    }

    pub(crate) fn with_usage(self, key: Vec<u8>) -> Self {
        Self { usage_key: Some(key), ..self }
    }

    /// The same, answering in other words.
    #[must_use]
    pub fn speaking(mut self, wording: Wording) -> Self {
        self.convention.speak(wording);
        self
    }

    /// What the state is filed under within its dialect. Homes file dialects apart from each other
    /// and from policies of their own.
    pub fn state_key(&self) -> &[u8] {
        &self.state_key
    }

    /// Where a [`Usage`] beside the state is filed, if the convention has one.
    pub fn usage_key(&self) -> Option<&[u8]> {
        self.usage_key.as_deref()
    }

    /// The policy to decide by.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What to do.
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// Whose clock counts.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The time to decide at when the home's clock reads `home`.
    pub fn time(&self, home: Timestamp) -> Result<Timestamp, DialectError> {
        if self.reach.get() > home.get() {
            let found = self.reach.get().to_string();
            let expected = "together at most the time since the epoch, in microseconds";
            return Err(DialectError::new("size 1 and extra_ttl", expected, found.as_bytes()));
        }
        Ok(match self.clock {
            Clock::Home => home,
            Clock::Caller(time) => time,
        })
    }

    /// The reply to a decision of this call. `usage` is read only by conventions that have one.
    pub fn reply(&self, decision: &Decision, details: &[Detail], usage: &Usage) -> Reply {
        self.convention.reply(decision, details, usage)
    }

    /// The reply to a reset.
    pub fn forgotten(&self) -> Reply {
        self.convention.forgotten()
    }

    /// The convention's time to live for a state this decision wrote; none if it wrote nothing and
    /// the expiry stays as it is.
    pub fn ttl(&self, decision: &Decision, home: Timestamp) -> Option<Micros> {
        (decision.charged > 0).then(|| self.convention.life(decision, home).max(Micros::new(1)))
    }

    /// Decides the call on a key's state and words the reply.
    pub fn run(&self, state: &mut KeyState, home: Timestamp) -> Result<Reply, DialectError> {
        self.run_with(state, &mut Usage::default(), home).map(|outcome| outcome.reply)
    }

    /// As [`Call::run`], keeping the usage that [`Call::usage_key`] names, and telling the decision.
    pub fn run_with(&self, state: &mut KeyState, usage: &mut Usage, home: Timestamp) -> Result<Outcome, DialectError> {
        let t = self.time(home)?;
        self.run_on(state.cells_of(&self.policy, t), usage, t)
    }

    /// As [`Call::run_with`], on the policy's cells in its order, at [`Call::time`].
    pub fn run_on(&self, cells: &mut [Cell], usage: &mut Usage, t: Timestamp) -> Result<Outcome, DialectError> {
        let Action::Check(request) = &self.action else {
            for (cell, limit) in cells.iter_mut().zip(self.policy.limits()) {
                *cell = limit.fresh();
            }
            return Ok(Outcome { reply: self.forgotten(), decision: None });
        };
        self.refuse_inexact(cells, t, request)?;
        let mut details = Vec::with_capacity(cells.len());
        let decision = decide_with(&self.policy, cells, t, request, |detail| details.push(detail));
        if self.usage_key.is_some() {
            let count = self.held(cells, t).map(|held| held as u64).max().unwrap_or_default();
            *usage = usage.after(&decision, count);
        }
        Ok(Outcome { reply: self.reply(&decision, &details, usage), decision: Some(decision) })
    }

    /// The units each limit holds at `t`, in policy order.
    pub fn held(&self, cells: &[Cell], t: Timestamp) -> impl Iterator<Item = f64> {
        self.policy.limits().iter().zip(cells).map(move |(limit, cell)| limit.rule().held(cell.memory(), t))
    }

    /// Where refused requests count, a total may pass 2^53, up to which counters are exact. The
    /// call that would do it is refused as a whole: a wrong count would be worse.
    fn refuse_inexact(&self, cells: &[Cell], t: Timestamp, request: &Request) -> Result<(), DialectError> {
        let cost = request.cost.get();
        if !self.counts_on || cost == 0 {
            return Ok(());
        }
        let most = self.held(cells, t).map(|held| held as u64).max().unwrap_or_default();
        if most.saturating_add(cost) > EXACT {
            let expected = format!("at most {} more than the {most} counted, 2^53 in all", EXACT.saturating_sub(most));
            return Err(DialectError::new("count", expected, cost.to_string().as_bytes()));
        }
        Ok(())
    }
}
