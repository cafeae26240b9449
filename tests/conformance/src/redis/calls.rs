//! Random calls of every dialect: the Rust, the script, the function and the server must reply the same, and
//! find the same argument wrong.

use std::collections::HashMap;

use tollgate_dialects::{ApiCounterUsage, DIALECTS, Dialect};
use tollgate_kernel::{KeyState, Timestamp};

use super::trace::{Difference, Trace, TraceFigures};
use super::wire::{Packaging, Wire};
use crate::home::Refusal;
use crate::server::{ServerConnections, StoredServer};
use tollgate_random::Rng;

const EPISODE: u64 = 200;
const START: u64 = 1_790_000_000_000_000;
/// What is no number, or one out of range.
const BAD: [&str; 12] = [
    "",
    "x",
    "-1",
    "0",
    "1.5",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775808",
    "1e3",
    "1e400",
    " 1",
    "0x10",
];

/// Plays random calls, telling `progress` the operations done so far.
pub fn play_dialects(trace: &Trace, mut progress: impl FnMut(u64)) -> Result<TraceFigures, Box<Difference>> {
    let mut played = TraceFigures::default();
    let lost = |seed, what: Refusal| Box::new(Difference { seed, asked: Vec::new(), what: what.to_string() });
    let mut wire = Wire::open(&trace.target).map_err(|error| lost(trace.seed, error))?;
    if let Some((find, replace)) = trace.fault {
        wire.break_library(find, replace);
    }
    let mut stored = StoredServer::for_trace(trace).map_err(|error| lost(trace.seed, error))?;
    let mut episode = 0;
    let spoken: Vec<&Dialect> = DIALECTS.iter().filter(|dialect| dialect.lua.is_some()).collect();
    while played.operations < trace.operations {
        let seed = trace.seed.wrapping_add(episode);
        wire.forget().map_err(|error| lost(seed, error))?;
        let stored = stored.as_mut().filter(|_| episode % trace.stored == 0);
        let stored = stored.map(StoredServer::forgotten).transpose().map_err(|error| lost(seed, error))?;
        let mut random = Rng::new(seed);
        let dialect = random.pick(&spoken);
        // A key of the server expires by its clock, and is forgotten then; keys in Redis by another one. A clock
        // set back would tell them apart, so that is for episodes without the server.
        let goes_back = trace.fault.is_some() || random.chance(50);
        let served =
            if !goes_back { Some(ServerConnections::open().map_err(|error| lost(seed, error))?) } else { None };
        let mut run = Run::new(&mut wire, served, stored, dialect, random);
        run.skip = usize::from(trace.fault.is_some());
        for _ in 0..EPISODE {
            if let Err(what) = run.step() {
                let asked = run.asked.split_off(run.asked.len().saturating_sub(12));
                return Err(Box::new(Difference { seed, asked, what: what.to_string() }));
            }
        }
        played.operations += EPISODE;
        played.allowed += run.answered;
        episode += 1;
        progress(played.operations);
    }
    Ok(played)
}

struct Run<'a> {
    wire: &'a mut Wire,
    served: Option<ServerConnections>,
    stored: Option<&'a mut StoredServer>,
    dialect: &'static Dialect,
    random: Rng,
    now: u64,
    /// The caller's unit in microseconds.
    unit: u64,
    /// Policies this episode asks for, as arguments.
    policies: Vec<Vec<String>>,
    states: HashMap<Vec<u8>, (KeyState, ApiCounterUsage)>,
    asked: Vec<String>,
    answered: u64,
    /// Parties that are not asked.
    skip: usize,
}

/// Who is asked besides the kernel.
const PARTIES: [(&str, Packaging); 2] = [("s", Packaging::Script), ("f", Packaging::Function)];

impl<'a> Run<'a> {
    fn new(
        wire: &'a mut Wire,
        served: Option<ServerConnections>,
        stored: Option<&'a mut StoredServer>,
        dialect: &'static Dialect,
        mut random: Rng,
    ) -> Self {
        let unit = random.pick(&[1, 1_000, 1_000_000]);
        let now = START + random.below(1_000_000_000);
        let mut policies: Vec<Vec<String>> = (0..2).map(|_| policy(dialect.name, &mut random)).collect();
        if dialect.name == "sliding_window" && served.is_some() {
            // A key of the server lives as long as the longest window of its last call, so all have the same.
            let longest = ["60000", random.pick(&["3", "20", "100"])].map(str::to_owned);
            policies.iter_mut().for_each(|args| drop(args.splice(0..0, longest.clone())));
        }
        let (states, asked) = (HashMap::new(), Vec::new());
        Self { wire, served, stored, dialect, random, now, unit, policies, states, asked, answered: 0, skip: 0 }
    }

    fn step(&mut self) -> Result<(), Refusal> {
        let moved = self.random.below(if self.served.is_some() { 18 } else { 20 });
        self.now = match moved {
            // Counters of a minute outlive it here, so it comes once.
            16..18 | 19 if self.dialect.name == "api_counter" => self.now + self.random.below(15_000_000),
            0..4 => self.now,
            4..14 => self.now + self.random.below(3_000_000),
            14..16 => self.now + self.random.below(30_000),
            // Exactly as long as something lasts.
            16 => self.now + self.random.pick(&[1, 100, 500, 1_000, 100_000, 1_000_000, 10_000_000, 60_000_000]),
            17 => self.now + self.random.below(300_000_000),
            18 => self.now.saturating_sub(self.random.below(2_000_000)),
            _ => self.now.saturating_sub(self.random.below(200_000_000)),
        };
        if self.served.is_some() {
            // What callers say of the time is true there, since their keys expire by the server's clock.
            self.now -= self.now % self.unit;
        }
        let (mut keys, mut args) = self.command();
        let right = args.clone();
        if self.random.chance(8) && !args.is_empty() {
            let place = self.random.index(args.len());
            args[place] = self.random.pick(&BAD).to_owned();
        } else if self.random.chance(2) {
            args.pop();
        }
        if right != args && self.dialect.name != "api_counter" {
            // It may be another policy now, and so needs other keys.
            let chosen = self.random.next_u64();
            keys.iter_mut().for_each(|key| *key += &format!("-{chosen}"));
        }
        if matches!(self.dialect.name, "slot_window" | "ar1") && self.random.chance(20) {
            self.look_beside(&keys);
        }
        self.asked.push(format!("{} {} {keys:?} {args:?}", self.now, self.dialect.name));
        let args: Vec<Vec<u8>> = args.into_iter().map(String::into_bytes).collect();
        let expected = self.expected(&keys, &args);
        for (party, packaging) in PARTIES.iter().skip(self.skip).copied() {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| self.wire.key(&own(key, party))).collect();
            let t = Timestamp::saturating(self.now);
            let found = self.wire.dialect(packaging, self.dialect.name, &keys, &args, t);
            let found = found.map_or_else(|error| complaint(&error.to_string()), |reply| reply.to_string());
            if expected != found {
                return Err(Refusal::new(format!("{packaging:?}: expected {expected}, found {found}")));
            }
        }
        if let Some(served) = &mut self.served {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.clone().into_bytes()).collect();
            let found = served.dialect(self.dialect.name, &keys, &args, Timestamp::saturating(self.now));
            let found = found.map_or_else(|error| complaint(&error.to_string()), |reply| reply.to_string());
            if expected != found {
                return Err(Refusal::new(format!("server: expected {expected}, found {found}")));
            }
        }
        if let Some(stored) = &mut self.stored {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.clone().into_bytes()).collect();
            let found = stored.dialect(self.dialect.name, &keys, &args, Timestamp::saturating(self.now));
            let found = found.map_or_else(|error| complaint(&error.to_string()), |reply| reply.to_string());
            if expected != found {
                return Err(Refusal::new(format!("server with a store: expected {expected}, found {found}")));
            }
        }
        self.answered += u64::from(!expected.starts_with("error"));
        Ok(())
    }

    /// Somebody else counts nothing on the same keys, in other namespaces and under other limits: the kernel sees
    /// nothing of it, and nothing may come of it.
    fn look_beside(&mut self, keys: &[String]) {
        let namespace = self.random.pick(&["ns", "other", "third"]);
        let limits = policy(self.dialect.name, &mut self.random).swap_remove(0);
        let t = Timestamp::saturating(self.now);
        let words = ["0", namespace, &limits, &(self.now / self.unit).to_string(), "1"];
        self.asked.push(format!("{} somebody: {} {keys:?} {words:?}", self.now, self.dialect.name));
        let args: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        for (party, packaging) in PARTIES.iter().skip(self.skip).copied() {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| self.wire.key(&own(key, party))).collect();
            // Some limits are wrong, which is found elsewhere.
            let _ = self.wire.dialect(packaging, self.dialect.name, &keys, &args, t);
        }
        if let Some(served) = &mut self.served {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.clone().into_bytes()).collect();
            let _ = served.dialect(self.dialect.name, &keys, &args, t);
        }
        if let Some(stored) = &mut self.stored {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.clone().into_bytes()).collect();
            let _ = stored.dialect(self.dialect.name, &keys, &args, t);
        }
    }

    /// What the kernel answers, or the argument it finds wrong.
    fn expected(&mut self, keys: &[String], args: &[Vec<u8>]) -> String {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let wrong = |argument: &str| format!("error: {argument}");
        let call = match (self.dialect.parse)(&keys, &args) {
            Ok(call) => call,
            Err(error) => return wrong(error.argument()),
        };
        let (state, usage) = self.states.entry(call.state_key().to_vec()).or_default();
        let done = call.run_with(state, usage, Timestamp::saturating(self.now));
        done.map_or_else(|error| wrong(error.argument()), |outcome| outcome.reply.to_string())
    }

    fn command(&mut self) -> (Vec<String>, Vec<String>) {
        let place = self.random.below(2) as usize;
        // Each policy has keys of its own: what a key keeps of another policy, and for how long once it has
        // expired, is for the home to choose. But windows of one key count the same events, whichever they are.
        let owner = if self.dialect.name == "sliding_window" { 0 } else { place };
        let key = format!("k{owner}-{}", self.random.below(2));
        let policy = self.policies[place].clone();
        match self.dialect.name {
            "slot_window" | "ar1" => {
                let count = self.random.pick(&["1", "1", "1", "0", "2", "7", "-1", "100"]);
                let now = self.now / self.unit;
                let now = if self.unit == 1_000_000 && self.served.is_none() && self.random.chance(30) {
                    format!("{now}.{}", self.random.below(1_000))
                } else {
                    now.to_string()
                };
                let wait = self.random.pick(&["0", "1", ""]);
                (vec![key], vec![count.to_owned(), "ns".to_owned(), policy[0].clone(), now, wait.to_owned()])
            }
            "rolling" => {
                let each = policy.len() / 4;
                let keys = (0..each).map(|index| format!("{key}-{index}")).collect();
                let mode = self.random.pick(&["0", "1", "1", "2"]);
                let n = self.random.pick(&["1", "1", "2", "5", "30"]);
                let mut args = vec![mode.to_owned(), n.to_owned(), self.now.to_string()];
                args.extend(policy);
                (keys, args)
            }
            "api_counter" => (vec![format!("{{api:{key}}}")], policy),
            _ => (vec![key], policy),
        }
    }
}

/// A party's own key.
fn own(key: &str, party: &str) -> Vec<u8> {
    match key.strip_prefix("{api:") {
        Some(token) => format!("{{api:{party}{token}").into_bytes(),
        None => format!("{party}{key}").into_bytes(),
    }
}

/// The argument an error reply finds wrong.
fn complaint(error: &str) -> String {
    let text = error.trim_start_matches("ResponseError: ").trim_start_matches("ERR ");
    let argument = text.split_once(": expected").map_or(text, |(argument, _)| argument);
    format!("error: {argument}")
}

fn policy(dialect: &str, random: &mut Rng) -> Vec<String> {
    let text = |choices: &[&str], random: &mut Rng| random.pick(choices).to_owned();
    match dialect {
        "fixed_window" => vec![text(&["1", "3", "10", "0"], random), text(&["1", "2", "60"], random)],
        "token_bucket" => {
            let (limit, burst) = random.pick(&[("15", "3"), ("1", "1"), ("20", "20"), ("7", "2"), ("1000", "1")]);
            vec![limit.to_owned(), text(&["1", "4", "60"], random), burst.to_owned()]
        }
        "sliding_window" => {
            let mut args = Vec::new();
            for _ in 0..1 + random.below(3) {
                args.push(text(&["1000", "100", "10000", "0.5", "60000", "0", "1e-7", "1e-7"], random));
                args.push(text(&["1", "2", "5", "100", "0", "-3", "2.5", "1e-7"], random));
            }
            if random.chance(30) {
                args.push(text(&["0", "1000"], random));
            }
            args
        }
        "slot_window" => vec![text(
            &[
                "[[1,5,1]]",
                "[[3,60,10],[10,3600,60]]",
                "[[2,5,1],[2,5,1],[1,5,1]]",
                "[[5,2500,1000]]",
                "[[2.5,7,2]]",
                r#"[{"maxOcurrences":4,"limitDuration":50,"durationResolution":5}]"#,
                "[[1,0.5,0.1]]",
                "[[1,60,100]]",
                "[[0,5,1]]",
                "{}",
            ],
            random,
        )],
        "ar1" => vec![text(
            &[
                "[[1.6,2,1]]",
                "[[5,2,1],[100,1.5,60]]",
                "[[2,10,0.5]]",
                "[[1000,1.0002,1000]]",
                "[[0.5,2,1]]",
                "[[3,1,1]]",
            ],
            random,
        )],
        "rolling" => {
            let each = 1 + random.below(2);
            let numbers = [&["0", "0", "50000"][..], &["1", "5", "40"], &["100", "0.1", "1000"], &["10000", "10", "7"]];
            numbers.iter().flat_map(|choices| (0..each).map(|_| text(choices, random)).collect::<Vec<_>>()).collect()
        }
        _ => vec![text(&["0", "1", "5", "1000"], random)],
    }
}
