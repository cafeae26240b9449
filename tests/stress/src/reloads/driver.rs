//! The changes, one after the other. Each is waited for, by the metrics: the generation rises by one for a file
//! that is right, and for one that is wrong it stays, and a counter rises.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::change::{PolicyFile, RIGHT, WAYS, WRONGS, WriteMethod};
use super::policies;
use super::traffic::{GrantCounts, generation, name};
use crate::serving::{Metrics, ServerProcess, post};
use crate::{Failure, Report};
use tollgate_random::Rng;

/// How long a server may take to see a change. It looks every ten seconds if nothing is told.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(1);
/// One in so many files is wrong.
const WRONG: u64 = 10;
/// One in so many changes is seen by the server itself, without a signal.
const UNTOLD: u64 = 4;
/// Signals at once, at most.
const STORM: u64 = 12;

pub(super) struct Driver<'a> {
    pub(super) server: &'a ServerProcess,
    pub(super) place: &'a PolicyFile,
    pub(super) granted: &'a GrantCounts,
    pub(super) seed: u64,
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct ChangeFigures {
    pub(super) renames: u64,
    pub(super) in_place: u64,
    pub(super) links: u64,
    pub(super) signals: u64,
    pub(super) right: u64,
    pub(super) wrong: u64,
    /// Ways in which files were wrong.
    pub(super) ways: usize,
    pub(super) generation: u64,
}

/// What the metrics say of the policy file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PolicyMetrics {
    pub(super) generation: f64,
    pub(super) ok: f64,
    pub(super) wrong: f64,
    pub(super) is_wrong: f64,
}

impl PolicyMetrics {
    pub(super) fn read(to: SocketAddr) -> Result<Self, Failure> {
        let metrics = Metrics::read(to)?;
        let value = |series: &str| {
            metrics
                .value(series)
                .ok_or_else(|| Failure(format!("{series} is not in /metrics: {}", metrics.family("tollgate_config"))))
        };
        Ok(Self {
            generation: value("tollgate_config_generation")?,
            ok: value("tollgate_config_reloads_total{result=\"ok\"}")?,
            wrong: value("tollgate_config_reloads_total{result=\"invalid\"}")?,
            is_wrong: value("tollgate_config_invalid")?,
        })
    }
}

impl Driver<'_> {
    pub(super) fn run(&self, report: &mut Report, reloads: u64) -> Result<ChangeFigures, Failure> {
        let http = self.http()?;
        let mut rng = Rng::of_part(self.seed, 77);
        let (mut driven, mut ways) = (ChangeFigures::default(), BTreeSet::new());
        for number in 1..=reloads {
            let before = PolicyMetrics::read(http)?;
            let text = policies::file(number, number);
            let wrong = (rng.below(WRONG) == 0).then(|| WRONGS[rng.below(WRONGS.len() as u64) as usize]);
            let (bytes, rights) = match wrong {
                Some((_, wrong)) => wrong(&text),
                None => (text.into_bytes(), RIGHT),
            };
            let way = rng.pick(&WAYS);
            self.place.change(way, number, &bytes, rights)?;
            driven.note(way);
            if rng.below(UNTOLD) > 0 {
                for _ in 0..1 + rng.below(STORM) {
                    self.server.signal("HUP")?;
                    driven.signals += 1;
                }
            }
            let told = match wrong {
                Some((name, _)) => {
                    driven.wrong += 1;
                    ways.insert(name);
                    self.wait(http, |state| state.wrong > before.wrong, || format!("change {number}, {way:?}, {name}"))?
                }
                None => {
                    driven.right += 1;
                    let name = || format!("change {number}, {way:?}");
                    self.wait(http, |state| state.generation > before.generation, name)?
                }
            };
            let expected = before.generation + if wrong.is_some() { 0.0 } else { 1.0 };
            report.demand(told.generation == expected, || {
                format!("change {number}, {way:?}, {wrong:?}: generation {}, expected {expected}", told.generation)
            });
            self.explain(report, http, told.generation)?;
            self.granted.changed();
        }
        driven.ways = ways.len();
        Ok(driven)
    }

    /// The last change, by which what is used of each key can be read. Nobody asks any more.
    pub(super) fn end(&self, driven: &mut ChangeFigures, reloads: u64) -> Result<(), Failure> {
        let http = self.http()?;
        let before = PolicyMetrics::read(http)?;
        self.place.change(WriteMethod::Rename, reloads + 1, policies::last(reloads + 1).as_bytes(), RIGHT)?;
        driven.right += 1;
        let last = || "the last change".to_owned();
        driven.generation = self.wait(http, |state| state.generation > before.generation, last)?.generation as u64;
        Ok(())
    }

    fn http(&self) -> Result<SocketAddr, Failure> {
        self.server.http.ok_or_else(|| Failure("the server has no HTTP".to_owned()))
    }

    /// Waits until the metrics say something.
    fn wait(
        &self,
        http: SocketAddr,
        is_it: impl Fn(&PolicyMetrics) -> bool,
        name: impl Fn() -> String,
    ) -> Result<PolicyMetrics, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let state = PolicyMetrics::read(http)?;
            if is_it(&state) {
                return Ok(state);
            }
            if Instant::now() > until {
                let said = self.server.said();
                let last = said.iter().rev().take(5).cloned().collect::<Vec<_>>().join(" | ");
                return Err(Failure(format!("{} was not seen within {PATIENCE:?}: {state:?}; {last}", name())));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// HTTP names the generation too.
    fn explain(&self, report: &mut Report, http: SocketAddr, expected: f64) -> Result<(), Failure> {
        let json = format!("{{\"key\":\"{}\",\"policy\":\"steady-fixed\"}}", name(0));
        let told = post(http, "/v1/explain", &json)?;
        let named = told.replace("\"generation\":", "generation ");
        report.demand(generation(&named) == Some(expected as u64), || {
            format!("expected generation {expected} in the explanation, found {told}")
        });
        Ok(())
    }
}

impl ChangeFigures {
    fn note(&mut self, way: WriteMethod) {
        match way {
            WriteMethod::Rename => self.renames += 1,
            WriteMethod::InPlace => self.in_place += 1,
            WriteMethod::Link | WriteMethod::Mount => self.links += 1,
        }
    }
}
