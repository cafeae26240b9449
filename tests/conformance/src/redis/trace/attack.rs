//! Somebody who may only ask, on the keys of a trace: peeks, costs and refunds of 0, refunds of nothing and refusals under
//! texts of the same names with other algorithms and periods, charges under other limits, and more texts than a key has
//! places for. The kernel sees nothing of it, and what is asked besides must be answered as if it had not been.

use std::sync::Arc;

use tollgate_kernel::{KeyState, Limit, Micros, Policy};

use super::{KEYS, NAMES, PARTIES, Party, READABLE, Run, pool};
use crate::home::Refusal;

/// More texts than a key has places for.
const CROWD: u64 = 70;
/// Longer than a test takes from one thing to the next.
const A_WHILE: Micros = Micros::new(60_000_000);
/// What a home says when a key has no place for one more.
const CROWDED: &str = "expected at most 64 other limits remembered for a key";

impl Run<'_> {
    /// Whether `changed` may follow while others ask too: a limit that keeps its name and algorithm keeps its period,
    /// since what has expired under a shorter one may be gone or not, which a longer one would show; and it has no limit
    /// that others have charged.
    pub(super) fn may_follow(&self, place: usize, changed: &Policy) -> bool {
        let known = [Some(&self.policies[place]), self.before[place].as_ref()];
        let mut known = known.into_iter().flatten().flat_map(Policy::limits);
        let is_same = |changed: &Policy, own: &Limit| {
            changed.limits().iter().all(|new| !new.finds(own, &own.fresh()) || new.period() == own.period())
        };
        let is_charged = |limit: &Arc<Limit>| {
            let mut others = self.charged_by_others.iter().filter(|(at, _)| *at == place);
            others.any(|(_, other)| limit.finds(other, &other.fresh()))
        };
        known.all(|own| is_same(changed, own)) && !changed.limits().iter().any(is_charged)
    }

    /// One thing that somebody else does.
    pub(super) fn attack(&mut self) -> Result<(), Refusal> {
        let (place, key) = (self.random.below(NAMES.len() as u64) as usize, self.random.below(KEYS));
        if self.random.chance(2) {
            return self.crowd(place, key);
        }
        let text = pool::beside(&mut self.random, &self.policies[place]);
        let own = [Some(&self.policies[place]), self.before[place].as_ref()];
        let is_own = |own: &&Policy| {
            own.limits().iter().any(|own| text.limits().iter().any(|limit| own.finds(limit, &limit.fresh())))
        };
        let is_apart = !own.iter().flatten().any(is_own);
        let past = self.now.saturating_sub(400_000_000_000_000).to_string();
        let now = self.now.to_string();
        let never = "9007199254740991";
        let cost = self.random.pick(&["0", "1", "5", never]);
        let mode = self.random.pick(&["binary", "nary", "uniform"]);
        let chosen = self.random.below(7);
        let (call, args): (&str, Vec<&str>) = match chosen {
            0 => ("tollgate_peek", vec!["COST", cost, "MODE", mode, "FULL"]),
            1 => ("tollgate", vec!["COST", "0", "MODE", mode, "FULL"]),
            2 => ("tollgate_refund", vec!["0", &now]),
            3 => ("tollgate_refund", vec!["5", &past]),
            4 => ("tollgate", vec!["COST", never, "MODE", "binary", "FULL"]),
            5 => ("tollgate_all", vec!["0"]),
            _ if is_apart && self.is_steady(place, key) => {
                self.charged_by_others.extend(text.limits().iter().map(|limit| (place, Arc::clone(limit))));
                ("tollgate", vec!["COST", cost, "MODE", mode, "FULL"])
            }
            _ => return Ok(()),
        };
        self.say(format!("somebody: {call} {text} {:?} {key} {args:?}", NAMES[place]));
        self.under(text, place, |run| {
            for party in run.parties.iter().copied() {
                let before = run.stored_value(party, place, key)?;
                run.let_in(party, call, place, key, &args)?;
                // All but the last charge nothing, and so write nothing.
                if chosen < 6 && before.is_some() && run.stored_value(party, place, key)? != before {
                    return Err(Refusal::new(format!("{party:?}: {call}, which charges nothing, wrote the key")));
                }
            }
            Ok(())
        })
    }

    /// The bytes at a key and the time it expires at, if a party in Redis keeps them for a while.
    fn stored_value(&mut self, party: Party, place: usize, key: u64) -> Result<Option<[redis::Value; 2]>, Refusal> {
        let Some(index) = PARTIES[..READABLE].iter().position(|other| *other == party) else { return Ok(None) };
        let name = self.key(index, place, key);
        let mut ask = |command| self.wire.ask(redis::cmd(command).arg(&name));
        let lasts = matches!(ask("PTTL")?, redis::Value::Int(left) if left > A_WHILE.get() as i64 / 1_000);
        if lasts { Ok(Some([ask("DUMP")?, ask("PEXPIRETIME")?])) } else { Ok(None) }
    }

    /// More texts than the key has places for, then what the key decides; after that the key is forgotten.
    fn crowd(&mut self, place: usize, key: u64) -> Result<(), Refusal> {
        self.check(place, key)?;
        if !self.is_steady(place, key) {
            return Ok(());
        }
        self.say(format!("somebody: {CROWD} texts {:?} {key}", NAMES[place]));
        let texts: Vec<Policy> = (0..CROWD).filter_map(|days| pool::of_days(20 + days, NAMES[place])).collect();
        let mut crowded = 0;
        for text in &texts {
            self.under(text.clone(), place, |run| {
                for party in run.parties.iter().copied() {
                    crowded += u64::from(!run.let_in(
                        party,
                        "tollgate",
                        place,
                        key,
                        &["COST", "1", "MODE", "binary", "FULL"],
                    )?);
                }
                Ok(())
            })?;
        }
        if crowded == 0 {
            return Err(Refusal::new(format!("{CROWD} texts on a key, and none was refused")));
        }
        // A policy that the key remembers wholly has its place.
        let state = &self.states[place * KEYS as usize + key as usize];
        let (policy, t) = (&self.policies[place], self.t());
        let live = state.clone().sorted(t);
        if policy.limits().iter().all(|own| live.each().any(|(limit, cell)| own.finds(limit, cell))) {
            self.check(place, key)?;
            self.peek(place, key)?;
        }
        self.states[place * KEYS as usize + key as usize] = KeyState::default();
        for party in 0..READABLE {
            let name = self.key(party, place, key);
            self.wire.ask(redis::cmd("DEL").arg(&name))?;
        }
        let servers: Vec<Party> =
            self.parties.iter().copied().filter(|party| matches!(party, Party::Server(_))).collect();
        self.forget_stored(place, key)?;
        let own = [Some(self.policies[place].clone()), self.before[place].clone()];
        for text in texts.into_iter().chain(own.into_iter().flatten()) {
            self.under(text, place, |run| {
                for party in &servers {
                    run.ask(*party, "tollgate_reset", &[(place, key)], &[])?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Whether what the key remembers lives for a while: Redis measures the life of what another policy leaves behind by
    /// its own clock, and not by the caller's as all else here.
    fn is_steady(&self, place: usize, key: u64) -> bool {
        let t = self.t();
        self.states[place * KEYS as usize + key as usize].each().all(|(limit, cell)| {
            let mut alone = KeyState::default();
            alone.keep(Arc::clone(limit), cell.clone());
            let life = alone.expires_after(t);
            life == Micros::ZERO || life > A_WHILE
        })
    }

    /// Asks under another policy than the key's.
    fn under(
        &mut self,
        text: Policy,
        place: usize,
        ask: impl FnOnce(&mut Self) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let own = std::mem::replace(&mut self.policies[place], text);
        let asked = ask(self);
        self.policies[place] = own;
        asked
    }

    /// Asks, whatever the answer is; returns whether the key had a place for it.
    fn let_in(&mut self, party: Party, call: &str, place: usize, key: u64, args: &[&str]) -> Result<bool, Refusal> {
        match self.ask(party, call, &[(place, key)], args) {
            // The server's store refuses for lack of room, and tells of no limit that did.
            Ok(answer) => Ok(!(answer.first() == Some(&0) && answer.get(5) == Some(&0))),
            Err(error) if error.to_string().contains(CROWDED) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
