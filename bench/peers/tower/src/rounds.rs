//! Rounds: in each, every contender serves a slice, so that a busy moment of the machine hits all alike. Each round
//! begins with another one, so that nobody always follows the same one.

use std::time::Duration;

use crate::args::Options;
use crate::contenders::{Case, Contender};
use crate::driver::Driver;
use crate::process::Server;
use crate::{Failure, cpu};

/// What part of a slice runs before those that count: connections are accepted, limits used up.
const WARM_UP: u32 = 4;

/// What was measured of one contender in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// Requests a second.
    pub(crate) rate: f64,
    /// The server's processor time a request, in microseconds.
    pub(crate) cpu: f64,
    /// Processors that the server, the load and everybody else kept busy.
    pub(crate) busy: f64,
    pub(crate) driver_busy: f64,
    pub(crate) others_busy: f64,
}

/// One contender's slices, in the order of the rounds.
pub(crate) struct Measured {
    pub(crate) case: Case,
    pub(crate) contender: &'static Contender,
    pub(crate) slices: Vec<Slice>,
}

impl Measured {
    pub(crate) fn median(&self, of: fn(&Slice) -> f64) -> f64 {
        let mut all: Vec<f64> = self.slices.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// A contender that runs.
struct Subject {
    server: Server,
    driver: Driver,
    measured: Measured,
}

pub(crate) fn all(options: &Options) -> Result<Vec<Measured>, Failure> {
    let mut all = Vec::new();
    for case in Case::ALL {
        let mut subjects = Vec::new();
        for contender in case.contenders() {
            subjects.push(Subject::start(case, contender, options)?);
        }
        for round in 0..options.rounds {
            subjects.rotate_left(usize::from(round > 0));
            for subject in &mut subjects {
                subject.serve(options.slice)?;
            }
        }
        all.extend(case.contenders().iter().filter_map(|contender| {
            let at = subjects.iter().position(|subject| subject.measured.contender.name == contender.name)?;
            Some(subjects.swap_remove(at).measured)
        }));
    }
    Ok(all)
}

impl Subject {
    fn start(case: Case, contender: &'static Contender, options: &Options) -> Result<Self, Failure> {
        let server = Server::start(contender, case)?;
        let mut driver = Driver::connect(server.address, options.connections)?;
        driver.run(options.slice / WARM_UP, case.status())?;
        Ok(Self { server, driver, measured: Measured { case, contender, slices: Vec::new() } })
    }

    fn serve(&mut self, slice: Duration) -> Result<(), Failure> {
        let (name, status) = (self.measured.contender.name, self.measured.case.status());
        let before = self.used()?;
        let tally = self.driver.run(slice, status).map_err(|failure| format!("{name}: {failure}"))?;
        let after = self.used()?;
        if tally.expected < tally.responses {
            let others = tally.responses - tally.expected;
            return Err(format!("{name}: {others} of {} responses were not {status}", tally.responses).into());
        }
        let [server, driver, all] = [0, 1, 2].map(|at| after[at].saturating_sub(before[at]).as_secs_f64());
        let (seconds, requests) = (tally.elapsed.as_secs_f64(), tally.responses as f64);
        self.measured.slices.push(Slice {
            rate: requests / seconds,
            cpu: 1e6 * server / requests,
            busy: server / seconds,
            driver_busy: driver / seconds,
            others_busy: (all - server - driver).max(0.0) / seconds,
        });
        Ok(())
    }

    /// Processor time of the server, of this process, and of all there are.
    fn used(&self) -> Result<[Duration; 3], Failure> {
        Ok([cpu::used(self.server.pid())?, cpu::used(std::process::id())?, cpu::used_by_all()?])
    }
}
