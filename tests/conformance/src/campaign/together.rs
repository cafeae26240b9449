//! All or none: keys of two policies decided together by all threads, until many are used up.
//!
//! The clock stands, so nothing comes back: what a key has left tells all that it was ever charged, and
//! that must be what callers were told. A decision that charged one key and then found another full would
//! leave less than they know of.

use std::sync::atomic::AtomicU64;

use tollgate::{Error, Gate, GateRequest, JointDecision, ManualClock, Timestamp};

use super::caller::take;
use super::scene::Scene;
use super::{BATCH, on_threads};
use tollgate_random::Rng;

const USERS: usize = 100;
const TEAMS: usize = 5;
/// Operations in which keys are used up; then others take their place, since only while some have room
/// left and some have not is there anything to see.
const ROUND: u64 = 10_000;
/// A time at no edge of any window.
const NOW: u64 = 1_700_000_000_000_007;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) operations: u64,
    pub(super) asked: u64,
    pub(super) allowed: u64,
    pub(super) wrong: Vec<(Option<String>, String)>,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.asked += other.asked;
        self.allowed += other.allowed;
        self.wrong.extend(other.wrong);
    }
}

/// What a thread was told.
struct ThreadFigures {
    outcome: Outcome,
    /// Units charged to each key.
    charged: Vec<u64>,
}

/// Keys under two policies: users first, then teams.
struct GatePair {
    seed: u64,
    users: Gate,
    teams: Gate,
    names: Vec<String>,
    left: AtomicU64,
}

/// Runs a scene's policy, and another for the teams, for so many operations.
pub(super) fn run(scene: &Scene, operations: u64) -> Outcome {
    let mut all = Outcome::default();
    for round in 0..operations.div_ceil(ROUND) {
        match try_run(scene, round, ROUND.min(operations - round * ROUND)) {
            Ok(outcome) => all.add(outcome),
            Err(error) => all.wrong.push((None, error.to_string())),
        }
    }
    all
}

fn try_run(scene: &Scene, round: u64, operations: u64) -> Result<Outcome, Error> {
    let mut rng = Rng::of_part(scene.seed, u64::MAX - 1 - round);
    let users = Gate::builder()
        .value(scene.policy.clone().with_name("user")?)
        .value(scene.other_policy(&mut rng).with_name("team")?)
        .clock(ManualClock::at(Timestamp::saturating(NOW)))
        .build()?;
    let teams = users.policy("team").ok_or(Error::NoPolicy)?;
    let names = (0..USERS).map(|user| format!("user:{user}")).chain((0..TEAMS).map(|team| format!("team:{team}")));
    let (seed, left) = (rng.next_u64(), AtomicU64::new(operations));
    let gates = GatePair { seed, users, teams, names: names.collect(), left };
    let (mut all, mut charged) = (Outcome::default(), vec![0; USERS + TEAMS]);
    for told in on_threads(|thread| gates.work(thread)) {
        all.add(told.outcome);
        charged.iter_mut().zip(told.charged).for_each(|(sum, more)| *sum += more);
    }
    for (key, told) in charged.into_iter().enumerate() {
        let held = gates.held(key)?;
        if held != i128::from(told) {
            let name = gates.names[key].clone();
            all.wrong.push((Some(name), format!("{held} units charged, {told} told; {}", gates.policies())));
        }
    }
    Ok(all)
}

impl GatePair {
    fn policies(&self) -> String {
        format!("users \"{}\", teams \"{}\"", self.users.current(), self.teams.current())
    }

    fn gate(&self, key: usize) -> &Gate {
        if key < USERS { &self.users } else { &self.teams }
    }

    fn ask(&self, key: usize, cost: u64) -> GateRequest<'_> {
        self.gate(key).ask(&self.names[key]).cost(cost)
    }

    /// Units a key was charged: what a key never seen has left, less what it has left.
    fn held(&self, key: usize) -> Result<i128, Error> {
        let fresh = self.gate(key).peek("nobody")?.remaining;
        Ok(i128::from(fresh) - i128::from(self.gate(key).peek(&self.names[key])?.remaining))
    }

    fn work(&self, thread: u64) -> ThreadFigures {
        let mut told = ThreadFigures { outcome: Outcome::default(), charged: vec![0; self.names.len()] };
        let mut rng = Rng::of_part(self.seed, thread);
        while take(&self.left) {
            let until = told.outcome.operations + BATCH;
            while told.outcome.operations < until {
                self.act(&mut rng, &mut told);
            }
            std::thread::yield_now();
        }
        told
    }

    /// Mostly a user and a team, sometimes one alone or two users and a team, in any order.
    fn act(&self, rng: &mut Rng, told: &mut ThreadFigures) {
        let user = if rng.chance(30) { 0 } else { rng.index(USERS) };
        let mut keys = vec![user, USERS + rng.index(TEAMS)];
        match rng.below(10) {
            0 => keys.truncate(1),
            1 => keys.push((user + 1) % USERS),
            _ => {}
        }
        let first = rng.index(keys.len());
        keys.rotate_left(first);
        let items: Vec<(usize, u64)> = keys.into_iter().map(|key| (key, rng.within(1, 3))).collect();
        told.outcome.operations += items.len() as u64;
        told.outcome.asked += 1;
        let asks: Vec<GateRequest<'_>> = items.iter().map(|(key, cost)| self.ask(*key, *cost)).collect();
        // One key alone goes the usual way, which takes no lock, between the others.
        let done = match asks.as_slice() {
            [ask] => ask.check().map(|decision| JointDecision {
                allowed: decision.allowed,
                retry_after: decision.retry_after,
                decisions: vec![decision],
            }),
            asks => self.users.check_all(asks),
        };
        match done {
            Ok(together) => hear(&items, &together, told),
            Err(error) => told.outcome.wrong.push((None, error.to_string())),
        }
    }
}

fn hear(items: &[(usize, u64)], together: &JointDecision, told: &mut ThreadFigures) {
    told.outcome.allowed += u64::from(together.allowed);
    for ((key, cost), decision) in items.iter().zip(&together.decisions) {
        let right = if together.allowed { *cost } else { 0 };
        if decision.granted != right || decision.charged != right {
            told.outcome.wrong.push((None, format!("{cost} units of {}: {together:?}", items.len())));
        }
        told.charged[*key] += decision.charged;
    }
}
