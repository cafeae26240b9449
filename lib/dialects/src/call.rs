//! A call: the result of parsing a dialect's arguments, and how it is decided in a process.

use std::borrow::Cow;
use std::fmt::Debug;

use tollgate_kernel::{
    Cell, Decision, Detail, EXACT, KeyState, Micros, Policy, Request, SharedWindows, Timestamp, decide_with,
};

use crate::api_counter::ApiCounterUsage;
use crate::error::DialectError;
use crate::reply::DialectReply;

/// The replies of one calling convention.
pub trait Convention: Debug + Send + Sync {
    /// Returns the reply to a decision. `details` are those of the limits in policy order.
    fn reply(&self, decision: &Decision, details: &[Detail], usage: &ApiCounterUsage) -> DialectReply;

    /// Returns the reply to a reset.
    fn forgotten(&self) -> DialectReply {
        DialectReply::Nil
    }

    /// Returns how long Redis keeps a state that this decision wrote at `home`, the time of the home's clock.
    fn life(&self, decision: &Decision, home: Timestamp) -> Micros {
        let _ = home;
        decision.reset_after
    }

    /// Selects the wording of the document or of the script, where they differ.
    fn speak(&mut self, wording: Wording) {
        let _ = wording;
    }
}

/// The wording of a reply where a limiter's document and its published script differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wording {
    /// The wording of the document.
    #[default]
    Document,
    /// The wording of the script, for its own clients.
    Script,
}

/// The action that a call requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Decide a request.
    Check(Request),
    /// Forget the key under the policy.
    Reset,
}

/// The clock by which a call is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClock {
    /// The home's clock, in microseconds.
    Home,
    /// The caller's clock, in the caller's unit; the policy's periods are in the same unit.
    Caller(Timestamp),
}

/// A parsed and valid call of a dialect.
#[derive(Debug)]
pub struct ParsedCall {
    state_key: Vec<u8>,
    state_name: Option<Vec<u8>>,
    policy: Policy,
    action: Action,
    clock: CallClock,
    /// The least time since the epoch that the home's clock must read.
    reach: Micros,
    /// Whether refused requests are counted in whole units.
    counts_refused: bool,
    usage_key: Option<Vec<u8>>,
    /// The windows of a call whose limits count the same events; the policy is then that of their keeper.
    windows: Option<SharedWindows>,
    convention: Box<dyn Convention>,
}

/// The result of a decided call.
#[derive(Clone, Debug, PartialEq)]
pub struct DialectOutcome {
    /// The reply to the caller.
    pub reply: DialectReply,
    /// The decision behind the reply; `None` if the call was a reset.
    pub decision: Option<Decision>,
}

impl ParsedCall {
    pub(crate) fn new(
        state_key: Vec<u8>,
        policy: Policy,
        action: Action,
        convention: impl Convention + 'static,
    ) -> Self {
        let convention = Box::new(convention);
        let (clock, reach) = (CallClock::Home, Micros::ZERO);
        let (state_name, usage_key, windows) = (None, None, None);
        Self {
            state_key,
            state_name,
            policy,
            action,
            clock,
            reach,
            counts_refused: false,
            usage_key,
            windows,
            convention,
        }
    }

    pub(crate) fn named(self, state_name: Option<Vec<u8>>) -> Self {
        Self { state_name, ..self }
    }

    pub(crate) fn by_clock(self, clock: CallClock) -> Self {
        Self { clock, ..self }
    }

    pub(crate) fn reaching_back(self, reach: Micros) -> Self {
        Self { reach, ..self }
    }

    pub(crate) fn counting_refused(self) -> Self {
        Self { counts_refused: true, ..self }
    }

    pub(crate) fn on_one_log(self, windows: SharedWindows) -> Self {
        Self { windows: Some(windows), ..self }
    }

    pub(crate) fn with_usage(self, key: Vec<u8>) -> Self {
        Self { usage_key: Some(key), ..self }
    }

    /// Returns the same call, decided under another policy with the same limits in number and kind.
    #[must_use]
    pub fn under(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Returns the same call, replying in another wording.
    #[must_use]
    pub fn speaking(mut self, wording: Wording) -> Self {
        self.convention.speak(wording);
        self
    }

    /// Returns the key under which the state is stored within its dialect. Homes keep dialects apart from each other
    /// and from their own policies.
    pub fn state_key(&self) -> &[u8] {
        &self.state_key
    }

    /// Returns the name at which homes with named keys store the state, if it is not the key of the call itself.
    pub fn state_name(&self) -> Option<&[u8]> {
        self.state_name.as_deref()
    }

    /// Returns the key under which an [`ApiCounterUsage`] is stored beside the state, if the convention has one.
    pub fn usage_key(&self) -> Option<&[u8]> {
        self.usage_key.as_deref()
    }

    /// Returns the policy under which the state is stored, by which most conventions decide.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the same for a key with this state: a log that several calls share is kept for the longest window of
    /// them all.
    pub fn policy_of(&self, state: &KeyState, t: Timestamp) -> Cow<'_, Policy> {
        self.windows.as_ref().map_or(Cow::Borrowed(&self.policy), |windows| windows.keeper_of(state, t))
    }

    /// Returns the action to perform.
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// Returns the clock by which the call is decided.
    pub fn clock(&self) -> CallClock {
        self.clock
    }

    /// Returns the time to decide at when the home's clock reads `home`.
    pub fn time(&self, home: Timestamp) -> Result<Timestamp, DialectError> {
        if self.reach.get() > home.get() {
            let found = self.reach.get().to_string();
            let expected = "together at most the time since the epoch, in microseconds";
            return Err(DialectError::new("size 1 and extra_ttl", expected, found.as_bytes()));
        }
        Ok(match self.clock {
            CallClock::Home => home,
            CallClock::Caller(time) => time,
        })
    }

    /// Returns the reply to a decision of this call. `usage` is read only by conventions that have one.
    pub fn reply(&self, decision: &Decision, details: &[Detail], usage: &ApiCounterUsage) -> DialectReply {
        self.convention.reply(decision, details, usage)
    }

    /// Returns the reply to a reset.
    pub fn forgotten(&self) -> DialectReply {
        self.convention.forgotten()
    }

    /// Returns the convention's time to live for a state that this decision wrote; `None` if it wrote nothing and the
    /// expiry stays as it is.
    pub fn ttl(&self, decision: &Decision, home: Timestamp) -> Option<Micros> {
        (decision.charged > 0).then(|| self.convention.life(decision, home).max(Micros::new(1)))
    }

    /// Decides the call on a key's state and returns the reply.
    pub fn run(&self, state: &mut KeyState, home: Timestamp) -> Result<DialectReply, DialectError> {
        self.run_with(state, &mut ApiCounterUsage::default(), home).map(|outcome| outcome.reply)
    }

    /// As [`ParsedCall::run`], but also updates the usage that [`ParsedCall::usage_key`] names, and returns the
    /// decision.
    pub fn run_with(
        &self,
        state: &mut KeyState,
        usage: &mut ApiCounterUsage,
        home: Timestamp,
    ) -> Result<DialectOutcome, DialectError> {
        let t = self.time(home)?;
        let policy = self.policy_of(state, t);
        self.run_under(&policy, state.cells_of(&policy, t), usage, t)
    }

    /// As [`ParsedCall::run_with`], on the policy's cells in policy order, at [`ParsedCall::time`].
    pub fn run_on(
        &self,
        cells: &mut [Cell],
        usage: &mut ApiCounterUsage,
        t: Timestamp,
    ) -> Result<DialectOutcome, DialectError> {
        self.run_under(&self.policy, cells, usage, t)
    }

    /// As [`ParsedCall::run_on`], on the cells of the key's policy: see [`ParsedCall::policy_of`].
    pub fn run_under(
        &self,
        policy: &Policy,
        cells: &mut [Cell],
        usage: &mut ApiCounterUsage,
        t: Timestamp,
    ) -> Result<DialectOutcome, DialectError> {
        let Action::Check(request) = &self.action else {
            for (cell, limit) in cells.iter_mut().zip(self.policy.limits()) {
                *cell = limit.fresh();
            }
            return Ok(DialectOutcome { reply: self.forgotten(), decision: None });
        };
        self.refuse_inexact(cells, t, request)?;
        let mut details = Vec::with_capacity(cells.len());
        let decision = match (&self.windows, &mut *cells) {
            (Some(windows), [cell]) => windows.decide(policy, cell, t, request, |detail| details.push(detail)),
            (_, cells) => decide_with(policy, cells, t, request, |detail| details.push(detail)),
        };
        if self.usage_key.is_some() {
            let count = self.held(cells, t).map(|held| held as u64).max().unwrap_or_default();
            *usage = usage.after(&decision, count);
        }
        Ok(DialectOutcome { reply: self.reply(&decision, &details, usage), decision: Some(decision) })
    }

    /// Returns the units that each limit holds at `t`, in policy order.
    pub fn held(&self, cells: &[Cell], t: Timestamp) -> impl Iterator<Item = f64> {
        self.policy.limits().iter().zip(cells).map(move |(limit, cell)| limit.rule().held(cell.memory(), t))
    }

    /// Refuses a call that would bring a total above 2^53, up to which counters are exact. This may happen where
    /// refused requests count. The call is refused as a whole, because a wrong count would be worse.
    fn refuse_inexact(&self, cells: &[Cell], t: Timestamp, request: &Request) -> Result<(), DialectError> {
        let cost = request.cost.get();
        if !self.counts_refused || cost == 0 {
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
