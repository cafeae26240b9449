//! The operator: changes the policy file, stops and starts the server, sets its clock, has a disk that is full.

use std::time::{Duration, Instant};

use super::state::{RoundState, ServerAddress};
use super::subject;
use crate::attack::stage::Stage;
use crate::kills::{Shim, Trouble};
use crate::{Failure, Report};
use tollgate_random::Rng;

/// Between two of his deeds, in milliseconds.
const MIN_PAUSE: u64 = 300;
const MAX_PAUSE: u64 = 3_000;
const LOOK: Duration = Duration::from_millis(10);
/// How long a server may take to keep what it decides once there is room again: it tries every five seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// What disturbs the server in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// Reloads and restarts alone.
    Restarts,
    /// The wall clock is set while the server runs, and goes back over restarts: ahead would be refill.
    Clock,
    /// The disk is full over restarts.
    Disk,
}

impl Disturbance {
    pub(super) fn of(word: &str) -> Result<Self, Failure> {
        match word {
            "restarts" => Ok(Self::Restarts),
            "clock" => Ok(Self::Clock),
            "disk" => Ok(Self::Disk),
            _ => Err(Failure(format!("--luck {word}: expected restarts, clock or disk"))),
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OperatorFigures {
    pub(super) reloads: u64,
    pub(super) stops: u64,
    pub(super) kills: u64,
    pub(super) troubles: u64,
}

pub(super) struct Operator<'a> {
    pub(super) stage: &'a mut Stage,
    pub(super) state: &'a RoundState,
    pub(super) disturbance: Disturbance,
    pub(super) shim: Option<Shim>,
    pub(super) rng: Rng,
    pub(super) turn: u64,
    /// The least offset of the clock at a start so far, in seconds.
    pub(super) offset: i64,
    pub(super) done: OperatorFigures,
}

impl Operator<'_> {
    /// Until the round is over. The clock is left where the next start may find it: one that is ahead would be refill.
    pub(super) fn run(&mut self, until: Instant) -> Result<(), Failure> {
        let done = self.act(until);
        if self.disturbance == Disturbance::Clock {
            tollgate_kit::set_clock(self.stage.folder.path(), self.offset)?;
        }
        done
    }

    fn act(&mut self, until: Instant) -> Result<(), Failure> {
        // Every deed once, then as it comes.
        for number in 0.. {
            let pause = MIN_PAUSE + self.rng.below(MAX_PAUSE - MIN_PAUSE);
            let next = Instant::now() + Duration::from_millis(if number < 3 { MIN_PAUSE * 2 } else { pause });
            while Instant::now() < next.min(until) {
                std::thread::sleep(LOOK);
            }
            if Instant::now() >= until {
                return Ok(());
            }
            let deed = if number < 3 { number } else { self.rng.below(4) };
            let is_up = match deed {
                0 => self.reload()?,
                1 => self.restart(false)?,
                2 => self.restart(true)?,
                _ => self.disturb()?,
            };
            if !is_up {
                return Ok(());
            }
        }
        Ok(())
    }

    fn reload(&mut self) -> Result<bool, Failure> {
        self.turn += 1;
        self.done.reloads += 1;
        self.state.did("reload", self.state.now());
        if let Err(failure) = self.stage.reload(&subject::file(self.turn)) {
            self.state.found(format!("a reload was not taken: {failure}"));
        }
        Ok(true)
    }

    /// Stops and starts the server while all the others ask; answers whether it is up.
    pub(super) fn restart(&mut self, is_clean: bool) -> Result<bool, Failure> {
        *(if is_clean { &mut self.done.stops } else { &mut self.done.kills }) += 1;
        if self.disturbance == Disturbance::Clock {
            self.offset -= self.rng.below(600) as i64;
        }
        let from = self.state.now();
        // Whoever waits for an answer need not get one.
        self.state.move_to(None);
        let mut report = Report::default();
        self.stage.end(&mut report, is_clean)?;
        if self.disturbance == Disturbance::Clock {
            tollgate_kit::set_clock(self.stage.folder.path(), self.offset)?;
        }
        let is_up = self.stage.again(&mut report, if is_clean { "a clean stop" } else { "a kill -9" })?;
        self.state.judge(|found| *found = report);
        self.state.did(if is_clean { "stop" } else { "kill" }, from);
        if is_up {
            self.state.move_to(Some(place(self.stage)?));
        } else {
            self.state.stop();
        }
        Ok(is_up)
    }

    fn disturb(&mut self) -> Result<bool, Failure> {
        let is_clean = self.rng.below(2) == 0;
        match self.disturbance {
            Disturbance::Restarts => self.restart(is_clean),
            Disturbance::Clock => {
                self.done.troubles += 1;
                let days = self.rng.below(7) as i64 - 3;
                self.state.did(&format!("clock {days} d"), self.state.now());
                tollgate_kit::set_clock(self.stage.folder.path(), self.offset + days * 86_400)?;
                Ok(true)
            }
            Disturbance::Disk => self.full_disk(is_clean),
        }
    }

    /// Nobody asks while nothing is kept.
    fn full_disk(&mut self, is_clean: bool) -> Result<bool, Failure> {
        self.done.troubles += 1;
        let state = self.state;
        let _calm = state.calm.write();
        if let Some(shim) = &self.shim {
            shim.trouble(Trouble::Full)?;
        }
        let is_up = self.restart(is_clean)?;
        if let Some(shim) = &self.shim {
            shim.trouble(Trouble::None)?;
        }
        let until = Instant::now() + PATIENCE;
        while is_up && self.stage.metrics()?.series("tollgate_journal_health") != Some(0.0) {
            if Instant::now() > until {
                state.found(format!("nothing is kept {PATIENCE:?} after there is room on the disk again"));
                break;
            }
            std::thread::sleep(LOOK);
        }
        Ok(is_up)
    }
}

/// Where the server of a stage is.
pub(super) fn place(stage: &Stage) -> Result<ServerAddress, Failure> {
    Ok(ServerAddress { resp: stage.resp()?, http: stage.http()?, id: stage.server()?.id() })
}
