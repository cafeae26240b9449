//! A key whose every grant is recorded, and the policies that keys are asked for under.

use std::io;

use super::state::RoundState;
use crate::attack::caller::{Caller, CheckReply};
use crate::attack::checker::{Bound, Kind, Trace};

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// A policy that keys are asked for under: its name or text, its limits, and whether it stays as it is.
pub(super) struct PolicyBounds {
    pub(super) name: &'static str,
    pub(super) bounds: &'static [Bound],
    /// A reload changes it, or its limits come back within a round: then nobody can say when a refusal is wrong.
    pub(super) is_steady: bool,
}

const fn steady(name: &'static str, bounds: &'static [Bound]) -> PolicyBounds {
    PolicyBounds { name, bounds, is_steady: true }
}

const fn moving(name: &'static str, bounds: &'static [Bound]) -> PolicyBounds {
    PolicyBounds { name, bounds, is_steady: false }
}

/// Of the policy file, then bare texts.
pub(super) static POLICIES: &[PolicyBounds] = &[
    steady("steady-gcra", &[Bound::new(Kind::Gcra, 7, WEEK)]),
    steady("steady-sliding", &[Bound::new(Kind::Sliding, 6, DAY)]),
    steady("steady-fixed", &[Bound::new(Kind::Fixed, 5, DAY)]),
    steady("steady-two", &[Bound::new(Kind::Gcra, 9, WEEK), Bound::new(Kind::Sliding, 6, DAY)]),
    moving("swing", &[Bound::new(Kind::Gcra, 5, WEEK)]),
    moving("swing-count", &[Bound::new(Kind::Sliding, 8, DAY)]),
    moving("short", &[Bound::new(Kind::Sliding, 20, SECOND)]),
    moving("short-gcra", &[Bound::new(Kind::Gcra, 10, SECOND)]),
    steady("6/d", &[Bound::new(Kind::Sliding, 6, DAY)]),
    steady("7/w gcra", &[Bound::new(Kind::Gcra, 7, WEEK)]),
    steady("5/h fixed", &[Bound::new(Kind::Fixed, 5, HOUR)]),
    steady("5/h name=api", &[Bound::new(Kind::Sliding, 5, HOUR)]),
    steady("9/d, 6/h", &[Bound::new(Kind::Sliding, 9, DAY), Bound::new(Kind::Sliding, 6, HOUR)]),
];

/// The stricter part of pairs.
pub(super) const STRICT: Bound = Bound::new(Kind::Sliding, 1, DAY);

/// The policy file of a turn.
pub(super) fn file(turn: u64) -> String {
    let (swing, count) = if turn.is_multiple_of(2) { ("5/w gcra", "8/d") } else { ("5/w gcra, 2/d", "4/d") };
    format!(
        "  gate: 1000000/s gcra\n  steady-gcra: 7/w gcra\n  steady-sliding: 6/d\n  steady-fixed: 5/d fixed\n  \
         steady-two: 9/w gcra, 6/d\n  swing: {swing}\n  swing-count: {count}\n  short: 20/s\n  short-gcra: 10/s gcra\n  \
         turn-{turn}: 5/h\n"
    )
}

/// A key under a policy.
pub(super) struct Subject {
    pub(super) key: String,
    pub(super) policy: &'static PolicyBounds,
    trace: Trace,
    /// It was granted something before memory was full: it is never refused while there is room.
    is_known: bool,
    is_spent: bool,
}

impl Subject {
    pub(super) fn new(key: String, policy: &'static PolicyBounds) -> Self {
        Self { key, policy, trace: Trace::default(), is_known: false, is_spent: false }
    }

    /// Marks what was granted something as known.
    pub(super) fn know(&mut self) {
        self.is_known = self.trace.units() > 0;
    }

    /// Whether it was refused after grants, so that it must be refused for the rest of the round.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent
    }

    pub(super) fn units(&self) -> u64 {
        self.trace.units()
    }

    /// Asks for one unit.
    pub(super) fn ask(&mut self, state: &RoundState, caller: &mut Caller) -> io::Result<()> {
        let _calm = state.calm.read();
        let sent = state.now();
        match caller.check(&self.key, self.policy.name) {
            Ok(CheckReply::Granted(units)) => self.trace.granted(sent, state.now(), units),
            Ok(answer) => self.refused(state, &answer),
            Err(error) => {
                self.trace.unknown(1);
                return Err(error);
            }
        }
        Ok(())
    }

    fn refused(&mut self, state: &RoundState, answer: &CheckReply) {
        self.is_spent |= *answer == CheckReply::Refused && self.trace.units() > 0;
        let fits = self.policy.bounds.iter().all(|bound| self.trace.surely_fits(bound, 1));
        if self.is_known && self.policy.is_steady && fits {
            state.found(format!(
                "a known honest key is refused: {} under {} has {} units granted, and is answered {answer:?}",
                self.key,
                self.policy.name,
                self.trace.units()
            ));
        }
    }

    /// No interval may hold more than the limits admit.
    pub(super) fn judge(&self, state: &RoundState, who: &str) {
        for excess in self.policy.bounds.iter().filter_map(|bound| self.trace.excess(bound)) {
            let spent = if self.is_spent { "fresh before its time" } else { "over its bound" };
            state.found(format!("a key of {who} is {spent}: {} under {}: {excess}", self.key, self.policy.name));
        }
    }
}
