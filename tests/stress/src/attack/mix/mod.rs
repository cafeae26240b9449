//! All roles at once, in rounds: honest callers, the attacker, the operator, and a watch on the server.
//!
//! | file | what it is |
//! |---|---|
//! | `floor.rs` | what the roles share |
//! | `subject.rs` | keys whose every grant is recorded, and their policies |
//! | `honest.rs`, `attacker.rs`, `holder.rs`, `operator.rs`, `watcher.rs` | the roles |

mod attacker;
mod floor;
mod holder;
mod honest;
mod operator;
mod subject;
mod watcher;

use std::time::{Duration, Instant};

use super::Caps;
use super::plays::clock_variables;
use super::stage::Stage;
use crate::args::Args;
use crate::kills::Shim;
use crate::rng::Rng;
use crate::{Failure, Report};
use attacker::Attacker;
use floor::Floor;
use honest::Honest;
use operator::{Done, Luck, Operator};
use watcher::{Memory, Seen};

const HONEST: u64 = 2;

/// One round.
#[derive(Clone, Copy, Debug)]
struct Round {
    number: u64,
    caps: Caps,
    luck: Luck,
    lasts: Duration,
    attackers: u64,
    seed: u64,
}

/// Rounds for so many minutes since `started`, at least one.
pub(super) fn rounds(report: &mut Report, args: &Args, memory: &[u64], started: Instant) -> Result<(), Failure> {
    let lasts = Duration::from_secs(args.some("seconds"));
    let all = Duration::from_secs(60 * args.get("minutes"));
    let lucks = match args.words("luck").first() {
        None => vec![Luck::Restarts, Luck::Clock, Luck::Restarts, Luck::Disk],
        Some(word) => vec![Luck::of(word)?],
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
        let luck = lucks[(number / memory.len() as u64) as usize % lucks.len()];
        let seed = Rng::of_part(args.get("seed"), 1_000 + number).next();
        let round = Round { number, caps, luck, lasts, attackers: args.get("attackers"), seed };
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
        match self.luck {
            Luck::Restarts => {}
            Luck::Clock => stage.set = clock_variables(&stage)?,
            Luck::Disk => {
                let built = Shim::build(stage.folder.path())?;
                built.watch(stage.data.path())?;
                stage.set = built.set(stage.data.path());
                shim = Some(built);
            }
        }
        stage.begin()?;
        let floor = Floor::new(operator::place(&stage)?);
        let mut honest: Vec<Honest> = (0..HONEST).map(|number| Honest::new(self.seed, number)).collect();
        let mut attackers: Vec<Attacker> = (0..self.attackers).map(|number| Attacker::new(self.seed, number)).collect();
        honest.iter_mut().for_each(|honest| honest.introduce(&floor, &stage.tokens.honest));

        let (done, seen) = self.all_at_once(&mut stage, &floor, shim, &mut honest, &mut attackers)?;

        // Once more over a restart, without anybody else; then all that was granted is judged.
        if floor.place().is_some() {
            let mut last = Report::default();
            stage.end(&mut last, true)?;
            if stage.again(&mut last, "the last clean stop")? {
                let mut caller = stage.honest()?;
                honest.iter_mut().try_for_each(|honest| honest.ask_again(&floor, &mut caller))?;
                stage.end(&mut last, false)?;
            }
            floor.judge(|found| *found = last);
        }
        honest.iter().for_each(|honest| honest.judge(&floor));
        attackers.iter().for_each(|attacker| attacker.judge(&floor));
        Ok(self.told(floor, &honest, done, seen, stage.idle()))
    }

    /// All roles, until the time is over.
    fn all_at_once(
        &self,
        stage: &mut Stage,
        floor: &Floor,
        shim: Option<Shim>,
        honest: &mut [Honest],
        attackers: &mut [Attacker],
    ) -> Result<(Done, Seen), Failure> {
        let tokens = stage.tokens.clone();
        let memory = Memory { idle: stage.idle(), most: stage.memory()?.1 };
        let until = Instant::now() + self.lasts;
        let mut operator = Operator {
            stage,
            floor,
            luck: self.luck,
            shim,
            rng: Rng::of_part(self.seed, 400),
            turn: 0,
            offset: 0,
            done: Done::default(),
        };
        std::thread::scope(|scope| {
            let tokens = &tokens;
            for honest in honest {
                scope.spawn(move || honest.run(floor, &tokens.honest));
            }
            for attacker in attackers {
                scope.spawn(move || attacker.run(floor, &tokens.check, &tokens.read));
            }
            if self.attackers > 0 {
                scope.spawn(move || holder::run(floor, &tokens.check, self.seed));
            }
            let watcher = scope.spawn(move || watcher::run(floor, tokens, self.caps, memory));
            let ended = operator.run(until);
            floor.stop();
            let seen = watcher.join().map_err(|_| Failure("the watch on the server panicked".to_owned()))?;
            ended.map(|()| (operator.done, seen))
        })
    }

    /// The line of a round, and its findings with what is needed to play it again.
    fn told(&self, floor: Floor, honest: &[Honest], done: Done, seen: Seen, idle: u64) -> Report {
        let attacks = floor.attacks.load(std::sync::atomic::Ordering::Relaxed);
        let deeds = floor.deeds();
        let (all, found) = floor.into_found();
        let asked: u64 = honest.iter().map(|honest| honest.asked).sum();
        let (keys, spent) = honest
            .iter()
            .map(Honest::figures)
            .fold((0, 0), |(keys, spent), (more, _, used)| (keys + more, spent + used));
        let mut report = Report::default();
        report.say(format!(
            "{:<6}{:>6}M {:<9}{attacks:>9}{asked:>9}{keys:>7}{spent:>7}{:>9}{:>8}{:>6}{:>6}{:>9}{:>7} ms{:>6} MiB{:>9}",
            self.number,
            self.caps.memory,
            format!("{:?}", self.luck).to_lowercase(),
            done.reloads,
            done.stops,
            done.kills,
            done.troubles,
            seen.asked,
            seen.slowest.as_millis(),
            seen.most.saturating_sub(idle) / 1024,
            all,
        ));
        let place = format!("round {}, --memory {}M, {:?}", self.number, self.caps.memory, self.luck);
        if !found.is_empty() {
            report.say(format!("  the operator's deeds, in ms of the round: {deeds}"));
        }
        found.iter().for_each(|what| report.violated(format!("{place}: {what}")));
        report
    }
}
