//! What came of a campaign: a line an algorithm, and every complaint with what it takes to try again.

use std::fmt;

use tollgate_kernel::algorithms::ALGORITHMS;

use super::scene::Scene;
use super::{together, traffic};

/// Complaints kept; one mistake often makes many.
const MAX_COMPLAINTS: usize = 20;

/// Units admitted of those that one thread alone would have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Units admitted.
    pub units: u64,
    /// Units admitted to one thread alone.
    pub alone: u64,
}

impl Share {
    /// Whether the two differ by at most one in a thousand.
    pub fn is_near(&self) -> bool {
        u128::from(self.units.abs_diff(self.alone)) * 1_000 <= u128::from(self.alone)
    }

    /// In percent.
    pub fn percent(&self) -> f64 {
        if self.alone == 0 { 100.0 } else { self.units as f64 * 100.0 / self.alone as f64 }
    }

    fn least(self, other: Option<Self>) -> Self {
        other.filter(|other| other.percent() < self.percent()).unwrap_or(self)
    }
}

/// Something that is wrong.
#[derive(Clone, Debug)]
pub struct Complaint {
    /// The seed of the run.
    pub seed: u64,
    /// Its algorithm.
    pub algorithm: &'static str,
    /// Its policy and clock.
    pub scene: String,
    /// The key, if it is about one.
    pub key: Option<String>,
    /// What is wrong with it: for an interval, the limit, where it is, and its units.
    pub what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} ({}): {}", self.seed, self.algorithm, self.scene)?;
        if let Some(key) = &self.key {
            write!(f, ", key {key}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// The runs of one algorithm.
#[derive(Clone, Debug)]
pub struct Line {
    /// The algorithm of the first limit.
    pub algorithm: &'static str,
    /// Runs.
    pub seeds: u64,
    /// Decisions.
    pub operations: u64,
    /// Units admitted, of all keys.
    pub admitted: u64,
    /// The least full hot key where the clock was advanced.
    pub advanced: Option<Share>,
    /// All hot keys by the process's clock, where one by itself may be a few units off: see `fullness.rs`.
    pub own: Share,
    /// Decisions made together, and those allowed.
    pub together: (u64, u64),
}

/// What came of a campaign.
#[derive(Clone, Debug)]
pub struct Summary {
    /// A line an algorithm, in the order of the registry.
    pub lines: Vec<Line>,
    /// What is wrong; the first of it.
    pub complaints: Vec<Complaint>,
    /// What else is wrong.
    pub more_complaints: u64,
    /// The operations of each seed.
    each: u64,
}

impl Summary {
    pub(super) fn new(each: u64) -> Self {
        let line = |algorithm| Line {
            algorithm,
            seeds: 0,
            operations: 0,
            admitted: 0,
            advanced: None,
            own: Share::default(),
            together: (0, 0),
        };
        let lines = ALGORITHMS.iter().map(|listed| line(listed.name)).collect();
        Self { lines, complaints: Vec::new(), more_complaints: 0, each }
    }

    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.complaints.is_empty()
    }

    /// Decisions in all.
    pub fn operations(&self) -> u64 {
        self.lines.iter().map(|line| line.operations).sum()
    }

    pub(super) fn add_traffic(&mut self, scene: &Scene, outcome: &traffic::Outcome) {
        if let Some(line) = self.line(scene) {
            line.seeds += 1;
            line.operations += outcome.operations;
            line.admitted += outcome.admitted;
            if scene.pace.is_some() {
                line.advanced = Some(outcome.hot.least(line.advanced));
            } else {
                line.own.units += outcome.hot.units;
                line.own.alone += outcome.hot.alone;
            }
        }
        self.complain(scene, scene.clock(), &outcome.wrong);
    }

    pub(super) fn add_together(&mut self, scene: &Scene, outcome: &together::Outcome) {
        if let Some(line) = self.line(scene) {
            line.operations += outcome.operations;
            line.together.0 += outcome.asked;
            line.together.1 += outcome.allowed;
        }
        self.complain(scene, "together", &outcome.wrong);
    }

    fn line(&mut self, scene: &Scene) -> Option<&mut Line> {
        self.lines.iter_mut().find(|line| line.algorithm == scene.algorithm)
    }

    fn complain(&mut self, scene: &Scene, how: &str, wrong: &[(Option<String>, String)]) {
        for (key, what) in wrong {
            if self.complaints.len() >= MAX_COMPLAINTS {
                self.more_complaints += 1;
                continue;
            }
            let (seed, algorithm) = (scene.seed, scene.algorithm);
            let scene = format!("\"{}\", {how}", scene.policy);
            self.complaints.push(Complaint { seed, algorithm, scene, key: key.clone(), what: what.clone() });
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: Option<Share>| share.map_or("-".to_owned(), |share| format!("{:.3} %", share.percent()));
        writeln!(
            f,
            "{:<10}{:>6}{:>13}{:>13}{:>16}{:>16}{:>12}{:>12}",
            "algorithm", "seeds", "operations", "admitted", "full (steps)", "full (real)", "together", "allowed"
        )?;
        for line in self.lines.iter().filter(|line| line.seeds > 0) {
            writeln!(
                f,
                "{:<10}{:>6}{:>13}{:>13}{:>16}{:>16}{:>12}{:>12}",
                line.algorithm,
                line.seeds,
                line.operations,
                line.admitted,
                percent(line.advanced),
                percent(Some(line.own).filter(|share| share.alone > 0)),
                line.together.0,
                line.together.1
            )?;
        }
        for complaint in &self.complaints {
            writeln!(f, "{complaint}")?;
        }
        if self.more_complaints > 0 {
            writeln!(f, "and {} more", self.more_complaints)?;
        }
        match self.complaints.first() {
            Some(Complaint { seed, .. }) => write!(
                f,
                "the same traffic again, though threads will not interleave the same: \
                 campaign --seed {seed} --seeds 1 --operations {}",
                self.each
            ),
            None => write!(
                f,
                "{} operations: no interval over the bound, hot keys full, nothing charged in part",
                self.operations()
            ),
        }
    }
}
