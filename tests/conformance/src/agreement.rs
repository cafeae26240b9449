//! A store against the kernel: the same random questions to both, by one clock, must be answered
//! alike, with the same state behind them.

use std::collections::HashMap;

use tollgate_kernel::{
    Cell, Cost, Decision, JointRequest, KeyCheck, KeyState, Mode, Policy, Reply, Request, Store, StoreError, Timestamp,
    decide, decide_all,
};
use tollgate_memory::ManualClock;

use tollgate_random::Rng;

/// Policies of every algorithm, one limit and several, spaced, aligned and not. Those of one name
/// take turns on a key.
const POLICIES: &[(&str, &str)] = &[
    ("", "5/s"),
    ("", "7/s"),
    ("", "3/s gcra"),
    ("a", "10/s gcra burst=4"),
    ("a", "9/s gcra burst=20"),
    ("b", "4/s fixed"),
    ("c", "4/s fixed align=clock"),
    ("d", "15/10s bucket burst=3"),
    ("e", "6/s slots resolution=100ms"),
    ("f", "8/s estimate"),
    ("g", "5/s decay factor=2"),
    ("h", "20/s grain=10ms"),
    ("i", "2/100ms, 6/s, 30/min"),
    ("j", "1/5s, 5/h"),
    ("k", "10/s spacing=50ms"),
    ("l", "10/s gcra, 40/min fixed, 100/h estimate"),
    ("m", "9/10s bucket burst=2, 5/3s"),
    ("n", "1_000_000_000/d gcra"),
    ("o", "1/ms gcra burst=1"),
    ("p", "3/s fixed, 9/min fixed align=clock"),
];
const KEYS: u64 = 6;
const START: u64 = 1_700_000_000_000_000;

/// A disagreement, with all that was asked up to it.
#[derive(Debug)]
pub struct Disagreement {
    /// The seed of the run.
    pub seed: u64,
    /// What was asked, the last being answered differently.
    pub asked: Vec<String>,
    /// What the kernel and the store answered.
    pub answers: [String; 2],
}

/// Asks `store`, which reads `clock`, and the kernel `steps` random questions. The clock is set back now and then under
/// every second seed, and then a name has one policy: what has expired under another policy of its name may be forgotten
/// sooner or later, and only a clock that is set back can tell.
pub fn agree(store: &dyn Store, clock: &ManualClock, seed: u64, steps: u64) -> Result<(), Box<Disagreement>> {
    let (random, back) = (Rng::new(seed), seed.is_multiple_of(2));
    let mut run = Run { store, clock, random, back, states: HashMap::new(), asked: Vec::new(), charges: Vec::new() };
    let start = START + run.random.below(10_000_000);
    run.set(start);
    let parse = |(name, text): &(&str, &str)| -> Option<Policy> {
        let policy: Policy = text.parse().ok()?;
        if name.is_empty() { Some(policy) } else { policy.with_name(name).ok() }
    };
    let mut policies: Vec<Policy> = POLICIES.iter().filter_map(parse).collect();
    if back {
        policies.dedup_by(|second, first| second.name() == first.name());
    }
    for _ in 0..steps {
        run.pass_time();
        if let Err(answers) = run.step(&policies) {
            return Err(Box::new(Disagreement { seed, asked: run.asked, answers }));
        }
    }
    Ok(())
}

type Answers = [String; 2];
type NamedKey = (String, u64);

struct Run<'a> {
    store: &'a dyn Store,
    clock: &'a ManualClock,
    random: Rng,
    back: bool,
    states: HashMap<NamedKey, KeyState>,
    asked: Vec<String>,
    /// Charges that may be given back.
    charges: Vec<(usize, u64, u64, Timestamp)>,
}

impl Run<'_> {
    fn set(&self, t: u64) {
        self.clock.set(Timestamp::saturating(t));
    }

    fn now(&self) -> Timestamp {
        tollgate_memory::Clock::now(self.clock)
    }

    /// Mostly a little, sometimes nothing, long, or back.
    fn pass_time(&mut self) {
        let now = self.now().get();
        let moved = match self.random.below(20) {
            0..5 => now,
            5..15 => now + self.random.below(200_000),
            15..17 => now + self.random.below(5_000_000),
            17 => now + self.random.below(100_000_000_000),
            18 if self.back => now.saturating_sub(self.random.below(300_000)),
            19 if self.back => now.saturating_sub(self.random.below(20_000_000)),
            _ => now,
        };
        self.set(moved);
    }

    fn step(&mut self, policies: &[Policy]) -> Result<(), Answers> {
        let place = self.random.index(policies.len());
        let (policy, key) = (&policies[place], self.random.below(KEYS));
        let cost = if self.random.below(3) > 0 { 1 } else { self.random.below(9) };
        let mut request = Request::cost(Cost::new(cost).unwrap_or(Cost::ONE));
        request.mode = match self.random.below(8) {
            0 => Some(Mode::Nary),
            1 => Some(Mode::Uniform),
            _ => None,
        };
        match self.random.below(20) {
            0..11 => self.check(policies, place, key, request),
            11..13 => self.check(policies, place, key, request.peek()),
            13..15 => self.check_full(policy, key, request),
            15..17 => self.check_many(policy, request),
            17 => self.check_all(policies),
            18 => self.reset(policy, key),
            _ => self.refund(policies),
        }
    }

    fn check(&mut self, policies: &[Policy], place: usize, key: u64, request: Request) -> Result<(), Answers> {
        let (policy, t) = (&policies[place], self.now());
        self.say(format!("check {policy} {:?} {key} {request:?}", policy.name()));
        let state = self.state(policy, key);
        // A peek writes nothing, so it does not correct the clock either.
        let expected = if request.peek {
            decide(policy, &mut state.cells_of(policy, t).to_vec(), t, &request)
        } else {
            state.decide(policy, t, &request)
        };
        if expected.charged > 0 {
            self.charges.push((place, key, expected.charged, t));
        }
        same(&expected, known(self.store.check(policy, &bytes(key), request)))
    }

    fn check_full(&mut self, policy: &Policy, key: u64, request: Request) -> Result<(), Answers> {
        let t = self.now();
        self.say(format!("full {policy} {:?} {key} {request:?}", policy.name()));
        let expected = self.state(policy, key).decide_full(policy, t, &request);
        same(&expected, known(self.store.check_full(policy, &bytes(key), request)))
    }

    fn check_many(&mut self, policy: &Policy, request: Request) -> Result<(), Answers> {
        let t = self.now();
        let keys: Vec<u64> = (0..self.random.below(40)).map(|_| self.random.below(KEYS)).collect();
        self.say(format!("many {policy} {:?} {keys:?} {request:?}", policy.name()));
        let expected: Vec<Decision> =
            keys.iter().map(|key| self.state(policy, *key).decide(policy, t, &request)).collect();
        let keys: Vec<[u8; 8]> = keys.into_iter().map(bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        same(&expected, known(self.store.check_many(policy, &keys, request)))
    }

    fn check_all(&mut self, policies: &[Policy]) -> Result<(), Answers> {
        let t = self.now();
        let mut chosen: Vec<(usize, u64, Cost)> = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            let place = self.random.index(policies.len());
            let (key, cost) = (self.random.below(KEYS), Cost::new(1 + self.random.below(3)).unwrap_or(Cost::ONE));
            if chosen.iter().all(|(other, same, _)| policies[*other].name() != policies[place].name() || *same != key) {
                chosen.push((place, key, cost));
            }
        }
        self.say(format!("all {chosen:?}"));
        let mut cells: Vec<Vec<Cell>> = chosen
            .iter()
            .map(|(place, key, _)| self.state(&policies[*place], *key).cells_of(&policies[*place], t).to_vec())
            .collect();
        let parts = chosen.iter().zip(&mut cells);
        let mut parts: Vec<JointRequest<'_>> = parts
            .map(|((place, _, cost), cells)| JointRequest { policy: &policies[*place], cells, cost: *cost, t })
            .collect();
        let expected = decide_all(&mut parts);
        for ((place, key, _), cells) in chosen.iter().zip(cells) {
            self.state(&policies[*place], *key).cells_of(&policies[*place], t).clone_from_slice(&cells);
        }
        let keys: Vec<[u8; 8]> = chosen.iter().map(|(_, key, _)| bytes(*key)).collect();
        let items = chosen.iter().zip(&keys);
        let items: Vec<KeyCheck<'_>> =
            items.map(|((place, _, cost), key)| KeyCheck { policy: &policies[*place], key, cost: *cost }).collect();
        same(&expected, known(self.store.check_all(&items)))
    }

    fn reset(&mut self, policy: &Policy, key: u64) -> Result<(), Answers> {
        let t = self.now();
        self.say(format!("reset {policy} {:?} {key}", policy.name()));
        self.state(policy, key).reset(policy, t);
        same(&(), known(self.store.reset(policy, &bytes(key))))
    }

    fn refund(&mut self, policies: &[Policy]) -> Result<(), Answers> {
        if self.charges.is_empty() {
            return Ok(());
        }
        let chosen = self.random.index(self.charges.len());
        let (place, key, units, at) = self.charges.swap_remove(chosen);
        let (policy, t) = (&policies[place], self.now());
        self.say(format!("refund {policy} {:?} {key} {units} of {}", policy.name(), at.get()));
        let expected = self.state(policy, key).refund(policy, t, units, at);
        same(&expected, known(self.store.refund(policy, &bytes(key), Cost::new(units).unwrap_or(Cost::ONE), at)))
    }

    fn say(&mut self, question: String) {
        self.asked.push(format!("{} {question}", self.now().get()));
    }

    fn state(&mut self, policy: &Policy, key: u64) -> &mut KeyState {
        self.states.entry((policy.name().to_owned(), key)).or_default()
    }
}

fn bytes(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// The answer of a store that knows it at once.
fn known<T>(reply: Reply<'_, T>) -> Result<T, String> {
    match reply.ready() {
        Ok(answer) => answer.map_err(|error: StoreError| error.to_string()),
        Err(_) => Err("an answer that comes later".to_owned()),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(expected: &T, found: Result<T, String>) -> Result<(), Answers> {
    if found.as_ref() == Ok(expected) { Ok(()) } else { Err([format!("{expected:?}"), format!("{found:?}")]) }
}
