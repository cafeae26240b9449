//! Random traces: the kernel, the script, the function and the server are asked the same, and must answer the
//! same; script and function leave the same state. One party switches between them on one key as it goes.

mod attack;

use std::sync::Arc;

use tollgate_kernel::{
    Cell, Cost, Decision, Detail, JointRequest, KeyState, Limit, Micros, Mode, Policy, Request, Timestamp, Wait,
    decide_all,
};

use super::home::decision;
use super::pool;
use super::value::{RecordLookup, cells, same_state};
use super::wire::{Packaging, Target, Wire};
use crate::home::Refusal;
use crate::server::{FrontEnd, ServerConnections, StoredServer};
use tollgate_random::Rng;

/// What to play.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Which server.
    pub target: Target,
    /// The seed of all chance.
    pub seed: u64,
    /// How many operations, at least.
    pub operations: u64,
    /// In one of how many episodes a server with a store plays too; 0 for none.
    pub stored: u64,
    /// A fault to put into the function: what to find in its text, and what to put there. Then the function
    /// alone is asked.
    pub fault: Option<(&'static str, &'static str)>,
}

/// What was played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFigures {
    /// Operations, each answered by the kernel, the script, the function and the switching party.
    pub operations: u64,
    /// Requests that were allowed.
    pub allowed: u64,
    /// States compared.
    pub states: u64,
    /// States with a log long enough for chunks.
    pub chunked: u64,
}

/// A difference, with how to see it again.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The seed of the episode.
    pub seed: u64,
    /// The last few things asked.
    pub asked: Vec<String>,
    /// Who differed, and how.
    pub what: String,
}

const EPISODE: u64 = 150;
const NAMES: [&str; 3] = ["", "a", "b"];
const KEYS: u64 = 2;
const START: u64 = 1_790_000_000_000_000;

/// Plays a trace, telling `progress` the operations done so far.
pub fn play(trace: &Trace, mut progress: impl FnMut(u64)) -> Result<TraceFigures, Box<Difference>> {
    let mut played = TraceFigures::default();
    let lost = |seed, error: Refusal| Box::new(Difference { seed, asked: Vec::new(), what: error.to_string() });
    let mut wire = Wire::open(&trace.target).map_err(|error| lost(trace.seed, error))?;
    if let Some((find, replace)) = trace.fault {
        wire.break_library(find, replace);
    }
    let mut stored = StoredServer::for_trace(trace).map_err(|error| lost(trace.seed, error))?;
    let mut episode = 0;
    while played.operations < trace.operations {
        let seed = trace.seed.wrapping_add(episode);
        let stored = stored.as_mut().filter(|_| episode % trace.stored == 0);
        let stored = stored.map(StoredServer::forgotten).transpose().map_err(|error| lost(seed, error))?;
        wire.forget().map_err(|error| lost(seed, error))?;
        // Its keys cannot be forgotten all at once, so each episode has another.
        let served = if trace.fault.is_none() {
            Some(ServerConnections::open().map_err(|error| lost(seed, error))?)
        } else {
            None
        };
        let mut run = Run::new(&mut wire, served, stored, seed);
        if trace.fault.is_some() {
            run.parties = &PARTIES[1..2];
            // Others ask in more episodes than by chance, and under more names of limits: some faults show by that alone.
            if episode % 2 == 0 {
                (run.changes, run.is_attacked) = (true, true);
                run.policies = NAMES.iter().map(|name| pool::with_named_limit(&mut run.random, name)).collect();
            }
        } else if run.stored.is_none() {
            run.parties = &PARTIES[..PARTIES.len() - 1];
        }
        if let Err(what) = run.episode() {
            let asked = run.asked.split_off(run.asked.len().saturating_sub(12));
            return Err(Box::new(Difference { seed, asked, what: what.to_string() }));
        }
        played.operations += run.played.operations;
        played.allowed += run.played.allowed;
        played.states += run.played.states;
        played.chunked += run.played.chunked;
        episode += 1;
        progress(played.operations);
    }
    Ok(played)
}

/// Who is asked besides the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Party {
    Redis(Packaging),
    /// Script and function in turn, on the same keys.
    Either,
    Server(FrontEnd),
    /// The server with a store.
    Stored,
}

impl Party {
    /// Whether it is a server, which forgets by being asked.
    fn is_server(self) -> bool {
        matches!(self, Self::Server(_) | Self::Stored)
    }
}

static PARTIES: [Party; 6] = [
    Party::Redis(Packaging::Script),
    Party::Redis(Packaging::Function),
    Party::Either,
    Party::Server(FrontEnd::Resp),
    Party::Server(FrontEnd::Http),
    Party::Stored,
];
/// Of these, those whose states can be read.
const READABLE: usize = 3;

struct Run<'a> {
    wire: &'a mut Wire,
    served: Option<ServerConnections>,
    stored: Option<&'a mut StoredServer>,
    random: Rng,
    now: u64,
    policies: Vec<Policy>,
    /// What they were before they changed.
    before: [Option<Policy>; NAMES.len()],
    states: Vec<KeyState>,
    charges: Vec<(usize, u64, u64, Timestamp)>,
    asked: Vec<String>,
    /// Times at which decisions said that something would happen.
    edges: Vec<u64>,
    played: TraceFigures,
    parties: &'static [Party],
    /// Whether logs are to grow long.
    hurries: bool,
    /// Whether policies change, or else the clock may be set back. Not both: how long a key keeps what a
    /// policy left behind, once that has expired, is for the home to choose, and a clock set back shows it.
    changes: bool,
    /// Whether somebody else asks too, under texts of their own.
    is_attacked: bool,
    /// Limits that they have charged, of the policy at a place.
    charged_by_others: Vec<(usize, Arc<Limit>)>,
}

type Answers = Vec<i64>;

impl<'a> Run<'a> {
    fn new(
        wire: &'a mut Wire,
        served: Option<ServerConnections>,
        stored: Option<&'a mut StoredServer>,
        seed: u64,
    ) -> Self {
        let mut random = Rng::new(seed);
        let mut policies: Vec<Policy> = NAMES.iter().map(|name| pool::policy(&mut random, name)).collect();
        let (hurries, changes) = (random.chance(30), random.chance(50));
        // Only where the clock is not set back: who writes then is what tells them apart.
        let is_attacked = changes && random.chance(60);
        if hurries {
            policies[0] = pool::long(&mut random, NAMES[0]);
        }
        let states = vec![KeyState::default(); NAMES.len() * KEYS as usize];
        let now = START + random.below(100_000_000_000);
        let (charges, asked, edges, played) = (Vec::new(), Vec::new(), Vec::new(), TraceFigures::default());
        let before = [const { None }; NAMES.len()];
        Self {
            wire,
            served,
            stored,
            random,
            now,
            policies,
            before,
            states,
            charges,
            asked,
            edges,
            played,
            parties: &PARTIES,
            hurries,
            changes,
            is_attacked,
            charged_by_others: Vec::new(),
        }
    }

    fn episode(&mut self) -> Result<(), Refusal> {
        // Some episodes hurry, so that logs grow long; some pause, so that all expires.
        let pace = [1, 50, 3_000, 100_000, 2_000_000][self.random.below(5) as usize];
        let length = if self.hurries { 8 * EPISODE } else { EPISODE };
        while self.played.operations < length {
            self.pass_time(pace);
            let place = self.random.index(NAMES.len());
            let key = self.random.below(KEYS);
            if self.hurries && self.random.chance(10) {
                self.burst(0, 0, pace)?;
            }
            if self.is_attacked && self.random.chance(40) {
                self.attack()?;
            }
            match self.random.below(40) {
                0..24 => self.check(place, key)?,
                24..26 => self.burst(place, key, pace)?,
                26..29 => self.peek(place, key)?,
                29..32 => self.refund()?,
                32 => self.reset(place, key)?,
                33..36 => self.all()?,
                36..39 if self.changes => {
                    let changed = match self.before[place].take() {
                        Some(before) if self.random.chance(60) => before,
                        _ => pool::changed(&mut self.random, &self.policies[place]),
                    };
                    if self.is_attacked && !self.may_follow(place, &changed) {
                        continue;
                    }
                    self.asked.push(format!("{} is now {changed}", NAMES[place]));
                    self.before[place] = Some(std::mem::replace(&mut self.policies[place], changed));
                }
                39 => self.now += self.random.below(100_000_000_000),
                _ => {}
            }
        }
        Ok(())
    }

    fn pass_time(&mut self, pace: u64) {
        if self.random.chance(25)
            && let Some(edge) = self.edges.get(self.random.index(1 + self.edges.len()))
            && *edge >= self.now
        {
            // Exactly when something was said to happen, or a microsecond off.
            self.now = edge + self.random.below(3) - 1;
            return;
        }
        self.now = match self.random.below(30) {
            0..8 => self.now,
            8..26 => self.now + self.random.below(2 * pace),
            26..28 => self.now + self.random.below(200 * pace),
            _ if self.changes => self.now,
            28 => self.now.saturating_sub(self.random.below(3 * pace)),
            _ => self.now.saturating_sub(self.random.below(20_000_000)),
        };
    }

    fn t(&self) -> Timestamp {
        Timestamp::saturating(self.now)
    }

    fn request(&mut self) -> (u64, Mode) {
        let cost = match self.random.below(8) {
            0..5 => 1,
            5 => self.random.below(4),
            6 => self.random.below(50),
            _ => self.random.spread(1, 1 << 40),
        };
        (cost, [Mode::Binary, Mode::Binary, Mode::Binary, Mode::Nary, Mode::Uniform][self.random.below(5) as usize])
    }

    fn check(&mut self, place: usize, key: u64) -> Result<(), Refusal> {
        let (cost, mode) = self.request();
        self.decide(place, key, cost, mode, "tollgate", true)
    }

    fn peek(&mut self, place: usize, key: u64) -> Result<(), Refusal> {
        let (cost, mode) = self.request();
        self.decide(place, key, cost, mode, "tollgate_peek", true)
    }

    /// Many single units, a little time between them: a log grows.
    fn burst(&mut self, place: usize, key: u64, pace: u64) -> Result<(), Refusal> {
        for step in 0..self.random.below(140) {
            self.now += 1 + self.random.below(pace.min(500));
            self.decide(place, key, 1, Mode::Binary, "tollgate", step % 16 == 0)?;
        }
        self.compare(place, key)
    }

    fn decide(
        &mut self,
        place: usize,
        key: u64,
        cost: u64,
        mode: Mode,
        call: &str,
        compare: bool,
    ) -> Result<(), Refusal> {
        let (policy, t) = (self.policies[place].clone(), self.t());
        let mut request = Request::cost(Cost::new(cost).unwrap_or(Cost::ONE)).mode(mode);
        request.peek = call == "tollgate_peek";
        self.say(format!("{call} {policy} {:?} {key} {cost} {}", NAMES[place], mode.name()));
        let state = &mut self.states[place * KEYS as usize + key as usize];
        // A peek writes nothing there, so it must not correct the clock here either.
        let (expected, details) = if request.peek {
            state.clone().decide_full(&policy, t, &request)
        } else {
            state.decide_full(&policy, t, &request)
        };
        if expected.charged > 0 {
            self.charges.push((place, key, expected.charged, t));
        }
        self.played.allowed += u64::from(expected.allowed);
        if self.edges.len() > 8 {
            self.edges.remove(0);
        }
        let ends = [expected.next_after.span(), Some(expected.reset_after)];
        self.edges.extend(ends.into_iter().flatten().map(|span| t.plus(span).get().max(1)));
        let cost = cost.to_string();
        let args: Vec<&str> = vec!["COST", &cost, "MODE", mode.name(), "FULL"];
        for party in self.parties.iter().copied() {
            let found = self.ask(party, call, &[(place, key)], &args)?;
            same(party, &full(&expected, &details), &found)?;
        }
        self.played.operations += 1;
        if compare && !request.peek { self.compare(place, key) } else { Ok(()) }
    }

    fn refund(&mut self) -> Result<(), Refusal> {
        if self.charges.is_empty() {
            return Ok(());
        }
        let (place, key, mut units, mut at) = self.charges.swap_remove(self.random.index(self.charges.len()));
        if self.random.below(4) == 0 {
            (units, at) =
                (self.random.below(1 + 2 * units), Timestamp::saturating(self.now + 10 - self.random.below(2_000_000)));
        }
        let (policy, t) = (self.policies[place].clone(), self.t());
        self.say(format!("refund {policy} {:?} {key} {units} {}", NAMES[place], at.get()));
        let state = &mut self.states[place * KEYS as usize + key as usize];
        let expected = state.refund(&policy, t, units, at);
        let (units, at) = (units.to_string(), at.get().to_string());
        for party in self.parties.iter().copied() {
            let found = self.ask(party, "tollgate_refund", &[(place, key)], &[&units, &at])?;
            same(party, &[i64::try_from(expected).unwrap_or_default()], &found)?;
        }
        self.played.operations += 1;
        self.compare(place, key)
    }

    fn reset(&mut self, place: usize, key: u64) -> Result<(), Refusal> {
        let (policy, t) = (self.policies[place].clone(), self.t());
        self.say(format!("reset {policy} {:?} {key}", NAMES[place]));
        self.states[place * KEYS as usize + key as usize].reset(&policy, t);
        for party in self.parties.iter().copied() {
            self.ask(party, "tollgate_reset", &[(place, key)], &[])?;
        }
        self.played.operations += 1;
        self.compare(place, key)
    }

    fn all(&mut self) -> Result<(), Refusal> {
        let t = self.t();
        let mut chosen: Vec<(usize, u64)> = Vec::new();
        for place in 0..NAMES.len() {
            for key in 0..KEYS {
                if self.random.below(2) == 0 {
                    chosen.push((place, key));
                }
            }
        }
        if chosen.is_empty() {
            return Ok(());
        }
        let costs: Vec<u64> = chosen.iter().map(|_| self.random.below(4)).collect();
        self.say(format!("all {chosen:?} {costs:?}"));
        let policies = self.policies.clone();
        let mut held: Vec<Vec<Cell>> = chosen
            .iter()
            .map(|(place, key)| {
                self.states[place * KEYS as usize + *key as usize].cells_of(&policies[*place], t).to_vec()
            })
            .collect();
        let mut parts: Vec<JointRequest<'_>> = chosen
            .iter()
            .zip(&mut held)
            .zip(&costs)
            .map(|(((place, _), cells), cost)| JointRequest {
                policy: &policies[*place],
                cells,
                cost: Cost::new(*cost).unwrap_or(Cost::ONE),
                t,
            })
            .collect();
        let expected = decide_all(&mut parts);
        for ((place, key), cells) in chosen.iter().zip(held) {
            let state = &mut self.states[place * KEYS as usize + *key as usize];
            state.cells_of(&policies[*place], t).clone_from_slice(&cells);
        }
        let mut flat = vec![i64::from(expected.allowed), expected.retry_after.as_flat()];
        expected.decisions.iter().for_each(|part| {
            flat.extend(part.flat());
            flat.extend(part.flat_rest());
        });
        let costs: Vec<String> = costs.iter().map(u64::to_string).collect();
        let args: Vec<&str> = costs.iter().map(String::as_str).collect();
        for party in self.parties.iter().copied() {
            let found = self.ask(party, "tollgate_all", &chosen, &args)?;
            same(party, &flat, &found)?;
        }
        self.played.operations += 1;
        chosen.into_iter().try_for_each(|(place, key)| self.compare(place, key))
    }

    fn say(&mut self, question: String) {
        self.asked.push(format!("{} {question}", self.now));
    }

    fn key(&self, party: usize, place: usize, key: u64) -> Vec<u8> {
        self.wire.key(format!("tg:{{{party}{key}}}{}", NAMES[place]).as_bytes())
    }

    fn ask(&mut self, party: Party, call: &str, on: &[(usize, u64)], args: &[&str]) -> Result<Answers, Refusal> {
        if party.is_server() {
            return self.ask_server(party, call, on, args);
        }
        let index = PARTIES.iter().position(|other| *other == party).unwrap_or_default();
        let either = [Packaging::Script, Packaging::Function][self.random.below(2) as usize];
        let keys: Vec<Vec<u8>> = on.iter().map(|(place, key)| self.key(index, *place, *key)).collect();
        let policies: Vec<Policy> = on.iter().map(|(place, _)| self.policies[*place].clone()).collect();
        let mut rest = args.iter().map(|arg| arg.as_bytes().to_vec());
        let mut words: Vec<Vec<u8>> = Vec::new();
        for policy in &policies {
            // A function takes the text as well.
            let text = party == Party::Redis(Packaging::Function) && self.random.below(2) == 0;
            words.push(if text { policy.to_string().into_bytes() } else { Wire::policy(policy) });
            if call == "tollgate_all" {
                words.extend(rest.next());
            }
        }
        words.extend(rest);
        let policies: Vec<&Policy> = policies.iter().collect();
        let packaging = if let Party::Redis(packaging) = party { packaging } else { either };
        self.wire.native(packaging, call, &keys, &policies, &words, Timestamp::saturating(self.now))
    }

    fn ask_server(&mut self, party: Party, call: &str, on: &[(usize, u64)], args: &[&str]) -> Result<Answers, Refusal> {
        let t = self.t();
        let front = if let Party::Server(front) = party { front } else { FrontEnd::Resp };
        let keys: Vec<String> = on.iter().map(|(_, key)| format!("{front:?}{key}")).collect();
        let on: Vec<(&[u8], &Policy)> =
            keys.iter().zip(on).map(|(key, (place, _))| (key.as_bytes(), &self.policies[*place])).collect();
        let none = || Refusal::new("no server was started");
        if party == Party::Stored {
            return self.stored.as_mut().ok_or_else(none)?.native(front, call, &on, args, t);
        }
        let served = self.served.as_mut().ok_or_else(none)?;
        served.native(front, call, &on, args, t)
    }

    /// Forgets a key of the server with a store, if there is one.
    fn forget_stored(&mut self, place: usize, key: u64) -> Result<(), Refusal> {
        let name = format!("{:?}{key}", FrontEnd::Resp);
        self.stored.as_mut().map_or(Ok(()), |stored| stored.forget_key(name.as_bytes(), NAMES[place]))
    }

    /// The states behind the key, of one party each time. What has expired is forgotten by all: when Redis
    /// lets go of it is its own affair.
    fn compare(&mut self, place: usize, key: u64) -> Result<(), Refusal> {
        let (policy, t) = (self.policies[place].clone(), self.t());
        let state = &mut self.states[place * KEYS as usize + key as usize];
        if state.expires_after(t) == Micros::ZERO {
            *state = KeyState::default();
            for party in 0..READABLE {
                let name = self.key(party, place, key);
                self.wire.ask(redis::cmd("DEL").arg(&name))?;
            }
            for party in self.parties.iter().copied().filter(|party| matches!(party, Party::Server(_))) {
                self.ask(party, "tollgate_reset", &[(place, key)], &[])?;
            }
            return self.forget_stored(place, key);
        }
        let readable: Vec<Party> =
            self.parties.iter().copied().filter(|party| PARTIES[..READABLE].contains(party)).collect();
        let party = self.random.pick(&readable);
        let party = PARTIES.iter().position(|other| *other == party).unwrap_or_default();
        let name = self.key(party, place, key);
        if self.wire.ask(redis::cmd("TYPE").arg(&name))? == redis::Value::SimpleString("hash".to_owned()) {
            self.played.chunked += 1;
        }
        let state = self.states[place * KEYS as usize + key as usize].cells_of(&policy, t).to_vec();
        let found = cells(self.wire, &name, &policy, RecordLookup::Tag)?;
        for ((limit, mine), theirs) in policy.limits().iter().zip(&state).zip(&found) {
            if !same_state(limit, mine, theirs, t) {
                return Err(Refusal::new(format!("{limit} of party {party}: kernel {mine:?}, there {theirs:?}")));
            }
        }
        self.played.states += 1;
        Ok(())
    }
}

fn full(decision: &Decision, details: &[Detail]) -> Answers {
    let mut flat: Answers = decision.flat().into();
    flat.extend(decision.flat_rest());
    details.iter().for_each(|detail| flat.extend(detail.flat()));
    flat
}

fn same(party: Party, expected: &[i64], found: &[i64]) -> Result<(), Refusal> {
    if expected == found {
        return Ok(());
    }
    let words =
        |flat: &[i64]| format!("{flat:?} {:?}", decision(flat).map(|decision| decision.retry_after == Wait::Never));
    Err(Refusal::new(format!("{party:?}: expected {}, found {}", words(expected), words(found))))
}
