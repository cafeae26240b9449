//! One policy through all processes of the crowd.

use std::time::{Duration, Instant};

use tollgate_kernel::{Policy, Timestamp};
use tollgate_kit::Server;

use super::PROCESSES;
use super::process::{Process, ProcessFigures};
use crate::{Failure, machine};

/// How long a round may take.
const MAX_TIME: Duration = Duration::from_secs(300);

/// What to do.
pub(super) struct Round {
    pub(super) url: String,
    pub(super) packaging: &'static str,
    pub(super) policy: String,
    pub(super) key: String,
    pub(super) connections: u64,
    pub(super) operations: u64,
}

/// What came of it.
pub(super) struct Outcome {
    pub(super) done: Vec<ProcessFigures>,
    pub(super) took: Duration,
    /// Connections of the processes as the server counted them.
    pub(super) connected: u64,
}

impl Round {
    pub(super) fn policy(&self) -> Result<Policy, Failure> {
        Ok(self.policy.parse()?)
    }

    pub(super) fn run(&self, server: &Server) -> Result<Outcome, Failure> {
        let before = machine::info(server, "clients", "connected_clients")?;
        let mut processes = Vec::new();
        for _ in 0..PROCESSES {
            processes.push(Process::start(self)?);
        }
        for process in &mut processes {
            process.wait_until_ready()?;
        }
        let connected = machine::info(server, "clients", "connected_clients")?.saturating_sub(before);
        let started = Instant::now();
        for process in &mut processes {
            process.go()?;
        }
        let mut done = Vec::new();
        for process in processes {
            done.push(process.finish(MAX_TIME.saturating_sub(started.elapsed()))?);
        }
        Ok(Outcome { done, took: started.elapsed(), connected })
    }

    /// The words that start a process; `work.rs` reads them.
    pub(super) fn words(&self) -> [String; 6] {
        let each = self.operations.div_ceil(PROCESSES);
        [
            self.url.clone(),
            self.packaging.to_owned(),
            self.policy.clone(),
            self.key.clone(),
            self.connections.to_string(),
            each.to_string(),
        ]
    }
}

impl Outcome {
    /// Decisions a second.
    pub(super) fn pace(&self) -> u64 {
        let operations: usize = self.done.iter().map(|done| done.events.len()).sum();
        (operations as f64 / self.took.as_secs_f64().max(0.001)) as u64
    }

    /// When what was decided, in the order of the server's clock.
    pub(super) fn events(&self) -> Vec<(Timestamp, bool)> {
        let mut events: Vec<_> = self.done.iter().flat_map(|done| done.events.iter().copied()).collect();
        events.sort_unstable();
        events
    }

    /// The sum of a figure over the processes.
    pub(super) fn sum(&self, figure: impl Fn(&ProcessFigures) -> u64) -> u64 {
        self.done.iter().map(figure).sum()
    }
}
