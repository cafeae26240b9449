//! Honest callers: keys of their own, asked for again and again, also when they have used everything.

use std::time::Duration;

use super::state::RoundState;
use super::subject::{POLICIES, Subject};
use crate::attack::caller::Caller;
use tollgate_random::Rng;

/// Keys of each policy that are known before the attack.
const KNOWN: usize = 12;
/// One in so many questions is about a key that was never seen.
const NEW: u64 = 50;
/// Keys of one caller at most.
const MAX: usize = 2_000;
/// Between two questions, so that the attacker is heard too.
const PAUSE: Duration = Duration::from_micros(300);

/// One honest caller.
pub(super) struct HonestCaller {
    number: u64,
    subjects: Vec<Subject>,
    rng: Rng,
    pub(super) asked: u64,
}

impl HonestCaller {
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let names = (0..KNOWN).flat_map(|place| POLICIES.iter().map(move |policy| (place, policy)));
        let subjects = names.enumerate().map(|(place, (_, policy))| Subject::new(key(number, place), policy)).collect();
        Self { number, subjects, rng: Rng::of_part(seed, 100 + number), asked: 0 }
    }

    /// Before the attack: every key is asked for, and known from then on; some have used everything.
    pub(super) fn introduce(&mut self, state: &RoundState, token: &str) {
        let Some(mut caller) = state.connect(token) else { return };
        for subject in &mut self.subjects {
            for _ in 0..1 + self.rng.below(10) {
                self.asked += 1;
                if subject.ask(state, &mut caller).is_err() {
                    return state.found("an honest caller was cut off before anybody attacked".to_owned());
                }
            }
            subject.know();
        }
    }

    /// Asks until the round is over.
    pub(super) fn run(&mut self, state: &RoundState, token: &str) {
        while let Some(mut caller) = state.connect(token) {
            while !state.is_stopped() && self.ask(state, &mut caller).is_ok() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn ask(&mut self, state: &RoundState, caller: &mut Caller) -> std::io::Result<()> {
        if self.rng.below(NEW) == 0 && self.subjects.len() < MAX {
            let policy = &POLICIES[self.rng.index(POLICIES.len())];
            self.subjects.push(Subject::new(key(self.number, self.subjects.len()), policy));
        }
        let place = self.rng.index(self.subjects.len());
        self.asked += 1;
        self.subjects[place].ask(state, caller)
    }

    /// After the last restart: every key once more.
    pub(super) fn ask_again(&mut self, state: &RoundState, caller: &mut Caller) -> std::io::Result<()> {
        for subject in &mut self.subjects {
            self.asked += 1;
            subject.ask(state, caller)?;
        }
        Ok(())
    }

    /// All that was granted is judged.
    pub(super) fn judge(&self, state: &RoundState) {
        self.subjects.iter().for_each(|subject| subject.judge(state, "an honest caller"));
    }

    /// Keys, units granted, and keys that have used everything.
    pub(super) fn figures(&self) -> (usize, u64, usize) {
        let units = self.subjects.iter().map(Subject::units).sum();
        (self.subjects.len(), units, self.subjects.iter().filter(|subject| subject.is_spent()).count())
    }
}

/// A key of an honest caller; the attacker knows them.
pub(super) fn key(caller: u64, place: usize) -> String {
    format!("honest:{caller}:{place}")
}

/// Keys of a caller that the attacker tries.
pub(super) fn known() -> u64 {
    (KNOWN * POLICIES.len()) as u64
}
