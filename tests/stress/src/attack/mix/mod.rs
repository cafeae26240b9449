//! All roles at once, in rounds: honest callers, the attacker, the operator, and a watch on the server.
//!
//! | file | what it is |
//! |---|---|
//! | `state.rs` | what the roles share |
//! | `subject.rs` | keys whose every grant is recorded, and their policies |
//! | `honest.rs`, `attacker.rs`, `holder.rs`, `operator.rs`, `watcher.rs` | the roles |

mod attacker;
mod holder;
mod honest;
mod operator;
mod state;
mod subject;
mod watcher;

use std::time::{Duration, Instant};

use super::Caps;
use super::plays::clock_variables;
use super::stage::Stage;
use crate::args::Args;
use crate::kills::Shim;
use crate::{Failure, Report};
use attacker::Attacker;
use honest::HonestCaller;
use operator::{Disturbance, Operator, OperatorFigures};
use state::RoundState;
use tollgate_random::Rng;
use watcher::{MemoryBounds, WatchFigures};

const HONEST: u64 = 2;

/// One round.
#[derive(Clone, Copy, Debug)]
struct Round {
    number: u64,
    caps: Caps,
    disturbance: Disturbance,
    lasts: Duration,
    attackers: u64,
    seed: u64,
}

/// Rounds for so many minutes since `started`, at least one.
pub(super) fn rounds(report: &mut Report, args: &Args, memory: &[u64], started: Instant) -> Result<(), Failure> {
    let lasts = Duration::from_secs(args.some("seconds"));
    let all = Duration::from_secs(60 * args.get("minutes"));
    let disturbances = match args.words("luck").first() {
        None => vec![Disturbance::Restarts, Disturbance::Clock, Disturbance::Restarts, Disturbance::Disk],
        Some(word) => vec![Disturbance::of(word)?],
    };
    report.say(format!(
        "{:<6}{:>7} {:<9}{:>9}{:>9}{:>7}{:>7}{:>9}{:>8}{:>6}{:>6}{:>9}{:>10}{:>10}{:>9}",
        "round",
        "memory",
        "luck",
        "attacks",
        "honest",
        "keys",
        "spent",
        "reloads",
        "stops",
        "kills",
        "ill",
        "watched",
        "slowest",
        "grown",
        "findings"
    ));
    for number in 0.. {
        let caps = Caps { memory: memory[number as usize % memory.len()], buffers: args.some("buffers") };
        let disturbance = disturbances[(number / memory.len() as u64) as usize % disturbances.len()];
        let seed = Rng::of_part(args.get("seed"), 1_000 + number).next_u64();
        let round = Round { number, caps, disturbance, lasts, attackers: args.get("attackers"), seed };
        report.absorb(round.play()?);
        if started.elapsed() >= all {
            break;
        }
    }
    Ok(())
}

impl Round {
    fn play(&self) -> Result<Report, Failure> {
        let mut stage = Stage::new(self.caps, &subject::file(0))?;
        let mut shim = None;
        match self.disturbance {
            Disturbance::Restarts => {}
            Disturbance::Clock => stage.set = clock_variables(&stage)?,
            Disturbance::Disk => {
                let built = Shim::build(stage.folder.path())?;
                built.watch(stage.data.path())?;
                stage.set = built.set(stage.data.path());
                shim = Some(built);
            }
        }
        stage.begin()?;
        let state = RoundState::new(operator::place(&stage)?);
        let mut honest: Vec<HonestCaller> = (0..HONEST).map(|number| HonestCaller::new(self.seed, number)).collect();
        let mut attackers: Vec<Attacker> = (0..self.attackers).map(|number| Attacker::new(self.seed, number)).collect();
        honest.iter_mut().for_each(|honest| honest.introduce(&state, &stage.tokens.honest));

        let (done, seen) = self.all_at_once(&mut stage, &state, shim, &mut honest, &mut attackers)?;

        // Once more over a restart, without anybody else; then all that was granted is judged.
        if state.place().is_some() {
            let mut last = Report::default();
            stage.end(&mut last, true)?;
            if stage.again(&mut last, "the last clean stop")? {
                let mut caller = stage.honest()?;
                honest.iter_mut().try_for_each(|honest| honest.ask_again(&state, &mut caller))?;
                stage.end(&mut last, false)?;
            }
            state.judge(|found| *found = last);
        }
        honest.iter().for_each(|honest| honest.judge(&state));
        attackers.iter().for_each(|attacker| attacker.judge(&state));
        Ok(self.told(state, &honest, done, seen, stage.idle()))
    }

    /// All roles, until the time is over.
    fn all_at_once(
        &self,
        stage: &mut Stage,
        state: &RoundState,
        shim: Option<Shim>,
        honest: &mut [HonestCaller],
        attackers: &mut [Attacker],
    ) -> Result<(OperatorFigures, WatchFigures), Failure> {
        let tokens = stage.tokens.clone();
        let memory = MemoryBounds { idle: stage.idle(), most: stage.memory()?.1 };
        let until = Instant::now() + self.lasts;
        let mut operator = Operator {
            stage,
            state,
            disturbance: self.disturbance,
            shim,
            rng: Rng::of_part(self.seed, 400),
            turn: 0,
            offset: 0,
            done: OperatorFigures::default(),
        };
        std::thread::scope(|scope| {
            let tokens = &tokens;
            for honest in honest {
                scope.spawn(move || honest.run(state, &tokens.honest));
            }
            for attacker in attackers {
                scope.spawn(move || attacker.run(state, &tokens.check, &tokens.read));
            }
            if self.attackers > 0 {
                scope.spawn(move || holder::run(state, &tokens.check, self.seed));
            }
            let watcher = scope.spawn(move || watcher::run(state, tokens, self.caps, memory));
            let ended = operator.run(until);
            state.stop();
            let seen = watcher.join().map_err(|_| Failure("the watch on the server panicked".to_owned()))?;
            ended.map(|()| (operator.done, seen))
        })
    }

    /// The line of a round, and its findings with what is needed to play it again.
    fn told(
        &self,
        state: RoundState,
        honest: &[HonestCaller],
        done: OperatorFigures,
        seen: WatchFigures,
        idle: u64,
    ) -> Report {
        let attacks = state.attacks.load(std::sync::atomic::Ordering::Relaxed);
        let deeds = state.deeds();
        let (all, found) = state.into_found();
        let asked: u64 = honest.iter().map(|honest| honest.asked).sum();
        let (keys, spent) = honest
            .iter()
            .map(HonestCaller::figures)
            .fold((0, 0), |(keys, spent), (more, _, used)| (keys + more, spent + used));
        let mut report = Report::default();
        report.say(format!(
            "{:<6}{:>6}M {:<9}{attacks:>9}{asked:>9}{keys:>7}{spent:>7}{:>9}{:>8}{:>6}{:>6}{:>9}{:>7} ms{:>6} MiB{:>9}",
            self.number,
            self.caps.memory,
            format!("{:?}", self.disturbance).to_lowercase(),
            done.reloads,
            done.stops,
            done.kills,
            done.troubles,
            seen.asked,
            seen.slowest.as_millis(),
            seen.most.saturating_sub(idle) / 1024,
            all,
        ));
        let place = format!("round {}, --memory {}M, {:?}", self.number, self.caps.memory, self.disturbance);
        if !found.is_empty() {
            report.say(format!("  the operator's deeds, in ms of the round: {deeds}"));
        }
        found.iter().for_each(|what| report.violated(format!("{place}: {what}")));
        report
    }
}
