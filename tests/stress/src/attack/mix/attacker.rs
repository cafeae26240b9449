//! The attacker: whatever a token of scope check or read lets him send, as it comes to mind.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;

use super::honest;
use super::state::RoundState;
use super::subject::{POLICIES, STRICT, Subject};
use crate::attack::caller::{Caller, check, many_limits};
use crate::attack::checker::Trace;
use tollgate_random::Rng;

/// Honest callers, whose keys are tried.
const CALLERS: u64 = 2;
/// Keys of his own that are recorded.
const OWN: usize = 1_500;

/// One connection of the attacker's.
pub(super) struct Attacker {
    number: u64,
    rng: Rng,
    /// How many keys were invented so far.
    invented: u64,
    /// Keys of his own, to see whether one becomes unlimited.
    own: Vec<Subject>,
    /// Grants of keys that were asked for in pairs.
    pairs: HashMap<u64, Trace>,
}

/// What comes to mind, with how often.
type WeightedAttack = (u64, fn(&mut Attacker, &RoundState, &mut Caller) -> io::Result<u64>);

const TRICKS: &[WeightedAttack] = &[
    (4, Attacker::invent_packed),
    (4, Attacker::invent_records),
    (3, Attacker::invent_heavy),
    (3, Attacker::use_again),
    (2, Attacker::name),
    (8, Attacker::touch_honest),
    (4, Attacker::push_out),
    (3, Attacker::refund),
    (3, Attacker::pair),
    (3, Attacker::speak_dialects),
    (3, Attacker::plain),
    (2, Attacker::queue),
    (8, Attacker::ask_own),
];

impl Attacker {
    pub(super) fn new(seed: u64, number: u64) -> Self {
        Self { number, rng: Rng::of_part(seed, 200 + number), invented: 0, own: Vec::new(), pairs: HashMap::new() }
    }

    pub(super) fn run(&mut self, state: &RoundState, check: &str, read: &str) {
        let all: u64 = TRICKS.iter().map(|(weight, _)| weight).sum();
        while let Some(mut caller) = state.connect(check) {
            while !state.is_stopped() {
                if self.rng.below(12) == 0 {
                    let Some(mut reader) = state.connect(read) else { return };
                    let _ = self.explain(&mut reader);
                }
                let mut chosen = self.rng.below(all);
                let trick = TRICKS.iter().find(|(weight, _)| {
                    let found = chosen < *weight;
                    chosen = chosen.saturating_sub(*weight);
                    found
                });
                let Some((_, trick)) = trick else { continue };
                match trick(self, state, &mut caller) {
                    Ok(asked) => drop(state.attacks.fetch_add(asked, Ordering::Relaxed)),
                    Err(_) => break,
                }
            }
        }
    }

    /// What he got of his own keys is judged as that of honest callers.
    pub(super) fn judge(&self, state: &RoundState) {
        self.own.iter().for_each(|subject| subject.judge(state, "the attacker"));
        for (number, trace) in &self.pairs {
            if let Some(excess) = trace.excess(&STRICT) {
                state.found(format!(
                    "a key of TG.CHECKALL is over its bound: q:{}:{number} under 1/d: {excess}",
                    self.number
                ));
            }
        }
    }

    fn invent(&mut self, caller: &mut Caller, keys: u64, text: &str) -> io::Result<u64> {
        let (number, from) = (self.number, self.invented);
        self.invented += keys;
        caller.flood(from..from + keys, |key| check(format!("x:{number}:{key}"), text), |_, _| {})?;
        Ok(keys)
    }

    fn invent_packed(&mut self, _: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        self.invent(caller, 4_000, "1/w gcra")
    }

    fn invent_records(&mut self, _: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        self.invent(caller, 2_000, "1/h")
    }

    fn invent_heavy(&mut self, _: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        let text = many_limits(1 + self.rng.below(32), self.rng.below(3));
        self.invent(caller, 400, &text)
    }

    /// Invented keys under other texts: what was packed needs a record now.
    fn use_again(&mut self, _: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        let (number, keys) = (self.number, 3_000.min(self.invented));
        let from = self.rng.below(self.invented - keys + 1);
        let text = match self.rng.below(3) {
            0 => many_limits(32, self.rng.below(3)),
            1 => "1/h".to_owned(),
            _ => format!("3/{}h", 25 + self.rng.below(40)),
        };
        let few = if text.len() > 20 { keys / 8 } else { keys };
        caller.flood(from..from + few, |key| check(format!("x:{number}:{key}"), &text), |_, _| {})?;
        Ok(few)
    }

    /// Many policy names.
    fn name(&mut self, _: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        let (number, from) = (self.number, self.rng.below(5_000));
        let words = |name: u64| {
            let name = format!("n-{number}-{name}");
            ["TG.CHECK", "k", "1/h", "NAME", &name].map(str::to_owned).to_vec()
        };
        caller.flood(from..from + 100, words, |_, _| {})?;
        Ok(100)
    }

    fn honest_key(&mut self) -> String {
        honest::key(self.rng.below(CALLERS), self.rng.below(honest::known()) as usize)
    }

    /// A text that shares no limit with those of honest callers, unless by its name.
    fn other_text(&mut self) -> String {
        match self.rng.below(4) {
            0 => "1/s gcra name=api".to_owned(),
            1 => "3/90s bucket name=api".to_owned(),
            2 => format!("1/{}s gcra", 61 + self.rng.below(500)),
            _ => format!("2/{}min", 61 + self.rng.below(500)),
        }
    }

    /// Honest keys in ways that charge nothing.
    fn touch_honest(&mut self, _: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        for _ in 0..20 {
            let (key, text) = (self.honest_key(), self.other_text());
            let named = POLICIES[self.rng.below(4) as usize].name;
            let mut words = match self.rng.below(3) {
                0 => vec!["TG.PEEK", &key, &text],
                1 => vec!["TG.CHECK", &key, &text, "COST", "0"],
                _ => vec!["TG.REFUND", &key, &text, "1", "1700000000000000"],
            };
            if self.rng.below(2) == 0 {
                words.extend(["NAME", named]);
            }
            caller.ask(&words)?;
        }
        Ok(20)
    }

    /// The same with the token of scope read.
    fn explain(&mut self, reader: &mut Caller) -> io::Result<()> {
        for _ in 0..10 {
            let (key, text) = (self.honest_key(), self.other_text());
            let named = POLICIES[self.rng.below(4) as usize].name;
            match self.rng.below(2) {
                0 => reader.ask(&["TG.EXPLAIN", &key, &text])?,
                _ => reader.ask(&["TG.EXPLAIN", &key, &text, "NAME", named])?,
            };
        }
        Ok(())
    }

    /// Longer-lived texts on an honest key; their periods are those of no honest limit.
    fn push_out(&mut self, _: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        let key = self.honest_key();
        let hours = (25..125).filter(|hours| hours % 24 != 0).collect::<Vec<u64>>();
        let named = (self.rng.below(2) == 0).then(|| POLICIES[self.rng.below(4) as usize].name);
        let words = |place: u64| {
            let text = format!("1/{}h", hours[place as usize % hours.len()]);
            let mut words = check(key.clone(), &text);
            words.extend(named.iter().flat_map(|name| ["NAME".to_owned(), (*name).to_owned()]));
            words
        };
        caller.flood(0..80, words, |_, _| {})?;
        Ok(80)
    }

    /// Refunds of everything. A server on which the scope check does not refund answers NOPERM.
    fn refund(&mut self, _: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        for _ in 0..10 {
            let (key, policy) = (self.honest_key(), &POLICIES[self.rng.index(POLICIES.len())]);
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros().to_string();
            caller.ask(&["TG.REFUND", &key, policy.name, "9", &now])?;
        }
        Ok(10)
    }

    /// Pairs of which one part allows nearly everything.
    fn pair(&mut self, state: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        for _ in 0..200 {
            let _calm = state.calm.read();
            // Few, so that some are asked for again.
            let number = self.rng.below(4_000);
            let (loose, strict) = (format!("p:{}", self.rng.below(4)), format!("q:{}:{number}", self.number));
            let sent = state.now();
            let reply = caller.ask(&["TG.CHECKALL", &loose, "100000/d", "AND", &strict, "1/d"])?;
            if reply.at(0).int() == Some(1) {
                self.pairs.entry(number).or_default().granted(sent, state.now(), 1);
            }
        }
        Ok(200)
    }

    fn speak_dialects(&mut self, _: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        for _ in 0..100 {
            let (key, seconds) = (format!("d:{}", self.rng.below(100_000)), (1 + self.rng.below(80)) * 86_400);
            let seconds = seconds.to_string();
            match self.rng.below(4) {
                0 => caller.ask(&["FCALL", "fixed_window", "1", &key, "5", &seconds])?,
                1 => caller.ask(&["FCALL", "sliding_window", "1", &key, "5", &seconds])?,
                2 => caller.ask(&["CL.THROTTLE", &key, "15", "30", &seconds, "1"])?,
                _ => caller.ask(&["FCALL", "token_bucket", "1", &key, "5", "1", &seconds, "1"])?,
            };
        }
        Ok(100)
    }

    fn plain(&mut self, _: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        let value = "v".repeat(self.rng.below(2_000) as usize);
        for _ in 0..100 {
            let key = format!("s:{}", self.rng.below(1_000_000));
            match self.rng.below(3) {
                0 => caller.ask(&["INCR", &format!("c:{key}")])?,
                1 => caller.ask(&["SET", &key, &value])?,
                _ => caller.ask(&["EXPIREAT", &key, &(1_700_000_000 + self.rng.below(200_000_000)).to_string()])?,
            };
        }
        Ok(100)
    }

    /// A transaction that is run, or left.
    fn queue(&mut self, _: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        caller.ask(&["MULTI"])?;
        let commands = self.rng.below(60);
        for _ in 0..commands {
            caller.ask(&["TG.CHECK", &format!("m:{}", self.rng.below(1_000)), "3/h"])?;
        }
        caller.ask(&[if self.rng.below(2) == 0 { "EXEC" } else { "DISCARD" }])?;
        Ok(commands + 2)
    }

    /// Keys of his own under the policies of honest callers, some of them used under other texts before.
    fn ask_own(&mut self, state: &RoundState, caller: &mut Caller) -> io::Result<u64> {
        for _ in 0..60 {
            let is_new = self.own.len() < OWN && self.rng.below(3) == 0;
            if is_new {
                let policy = &POLICIES[self.rng.index(POLICIES.len())];
                let key = format!("own:{}:{}", self.number, self.own.len());
                if self.rng.below(2) == 0 {
                    let text = many_limits(1 + self.rng.below(32), 9);
                    caller.ask(&["TG.CHECK", &key, &text])?;
                }
                self.own.push(Subject::new(key, policy));
            }
            let place = self.rng.index(self.own.len());
            if let Some(subject) = self.own.get_mut(place) {
                subject.ask(state, caller)?;
            }
        }
        Ok(60)
    }
}
