//! Honest callers: keys of their own, asked for again and again, also when they have used everything.

use std::time::Duration;

use super::floor::Floor;
use super::subject::{KEPT, Subject};
use crate::attack::caller::Caller;
use crate::rng::Rng;

/// Keys of each policy that are known before the attack.
const KNOWN: usize = 12;
/// One in so many questions is about a key that was never seen.
const NEW: u64 = 50;
/// Keys of one caller at most.
const MAX: usize = 2_000;
/// Between two questions, so that the attacker is heard too.
const PAUSE: Duration = Duration::from_micros(300);

/// One honest caller.
pub(super) struct Honest {
    number: u64,
    subjects: Vec<Subject>,
    rng: Rng,
    pub(super) asked: u64,
}

impl Honest {
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let names = (0..KNOWN).flat_map(|place| KEPT.iter().map(move |kept| (place, kept)));
        let subjects = names.enumerate().map(|(place, (_, kept))| Subject::new(key(number, place), kept)).collect();
        Self { number, subjects, rng: Rng::of_part(seed, 100 + number), asked: 0 }
    }

    /// Before the attack: every key is asked for, and known from then on; some have used everything.
    pub(super) fn introduce(&mut self, floor: &Floor, token: &str) {
        let Some(mut caller) = floor.connect(token) else { return };
        for subject in &mut self.subjects {
            for _ in 0..1 + self.rng.below(10) {
                self.asked += 1;
                if subject.ask(floor, &mut caller).is_err() {
                    return floor.found("an honest caller was cut off before anybody attacked".to_owned());
                }
            }
            subject.know();
        }
    }

    /// Asks until the round is over.
    pub(super) fn run(&mut self, floor: &Floor, token: &str) {
        while let Some(mut caller) = floor.connect(token) {
            while !floor.is_stopped() && self.ask(floor, &mut caller).is_ok() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn ask(&mut self, floor: &Floor, caller: &mut Caller) -> std::io::Result<()> {
        if self.rng.below(NEW) == 0 && self.subjects.len() < MAX {
            let kept = &KEPT[self.rng.below(KEPT.len() as u64) as usize];
            self.subjects.push(Subject::new(key(self.number, self.subjects.len()), kept));
        }
        let place = self.rng.below(self.subjects.len() as u64) as usize;
        self.asked += 1;
        self.subjects[place].ask(floor, caller)
    }

    /// After the last restart: every key once more.
    pub(super) fn ask_again(&mut self, floor: &Floor, caller: &mut Caller) -> std::io::Result<()> {
        for subject in &mut self.subjects {
            self.asked += 1;
            subject.ask(floor, caller)?;
        }
        Ok(())
    }

    /// All that was granted is judged.
    pub(super) fn judge(&self, floor: &Floor) {
        self.subjects.iter().for_each(|subject| subject.judge(floor, "an honest caller"));
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
    (KNOWN * KEPT.len()) as u64
}
