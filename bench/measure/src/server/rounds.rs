//! Who is measured when: in every round each subject between two measurements of INCR, so that whatever the
//! machine does to one of them it does to its neighbours.
//!
//! Every visit starts the server anew, asks for every key once, and measures pipeline after pipeline; no
//! other server runs meanwhile.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::driver::{Driver, ExpectedReplies};
use crate::histogram::DurationHistogram;
use crate::probe::verify;
use crate::request::{Batch, Numbers};
use crate::subjects::{Home, INCR, KEYS, RunningServer, SUBJECTS, Subject};
use crate::{Failure, RunOptions, cpu};

pub(crate) const CONNECTIONS: usize = 50;
pub(crate) const PIPELINES: [usize; 2] = [1, 16];
/// Load before each measurement, which is not counted.
const WARM: Duration = Duration::from_millis(200);
/// The keys are asked for by this pipeline, for at most so long.
const FILL: (usize, Duration) = (16, Duration::from_secs(2));

/// One measurement; times in microseconds, a request's where they are processor time.
pub(crate) struct Figures {
    pub(crate) rate: f64,
    pub(crate) cpu: f64,
    pub(crate) driver_cpu: f64,
    /// Processors that were busy.
    pub(crate) busy: f64,
    pub(crate) driver_busy: f64,
    /// By anything else, which takes time from both.
    pub(crate) others_busy: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) allowed: f64,
    pub(crate) histogram: DurationHistogram,
}

/// A measurement over the mean of its two neighbours of INCR.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratios {
    pub(crate) rate: f64,
    pub(crate) cpu: f64,
    pub(crate) p99: f64,
}

/// All measurements of one subject at one pipeline.
pub(crate) struct SubjectFigures {
    pub(crate) subject: &'static Subject,
    pub(crate) pipeline: usize,
    pub(crate) figures: Vec<Figures>,
    /// One for each; none for INCR itself.
    pub(crate) ratios: Vec<Ratios>,
}

impl SubjectFigures {
    pub(crate) fn median(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        median(self.figures.iter().map(of).collect())
    }

    /// How many times the least the greatest is: what the machine does to a figure.
    pub(crate) fn spread(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        let all = || self.figures.iter().map(&of);
        all().fold(f64::NAN, f64::max) / all().fold(f64::NAN, f64::min)
    }

    pub(crate) fn ratio(&self, of: impl Fn(&Ratios) -> f64) -> Option<f64> {
        (!self.ratios.is_empty()).then(|| median(self.ratios.iter().map(of).collect()))
    }

    /// A share of the latencies of all measurements together, in microseconds.
    pub(crate) fn overall(&self, share: f64) -> f64 {
        let mut all = DurationHistogram::new();
        self.figures.iter().for_each(|figures| all.merge(&figures.histogram));
        micros(all.at(share))
    }
}

/// Everything that was asked for, INCR first.
pub(crate) fn run(options: &RunOptions) -> Result<Vec<SubjectFigures>, Failure> {
    let wanted: Vec<&'static Subject> = SUBJECTS.iter().filter(|subject| is_wanted(subject, options)).collect();
    let mut all: Vec<SubjectFigures> =
        std::iter::once(&INCR).chain(wanted.iter().copied()).flat_map(none_yet).collect();
    let mut progress = Progress::new(options.rounds, wanted.len());
    let mut before = visit(&INCR, options, &mut progress)?;
    for _ in 0..options.rounds {
        for subject in &wanted {
            let here = visit(subject, options, &mut progress)?;
            let after = visit(&INCR, options, &mut progress)?;
            let measured = all.iter_mut().filter(|measured| std::ptr::eq(measured.subject, *subject));
            for (measured, (here, (before, after))) in measured.zip(here.into_iter().zip(before.iter().zip(&after))) {
                measured.ratios.push(ratios(&here, before, after));
                measured.figures.push(here);
            }
            keep(&mut all, std::mem::replace(&mut before, after));
        }
        if wanted.is_empty() {
            let after = visit(&INCR, options, &mut progress)?;
            keep(&mut all, std::mem::replace(&mut before, after));
        }
    }
    keep(&mut all, before);
    progress.end();
    Ok(all)
}

fn is_wanted(subject: &Subject, options: &RunOptions) -> bool {
    options.wants(subject.name) && (subject.home != Home::ThrottlecrabForced || options.nodelay.is_some())
}

fn none_yet(subject: &'static Subject) -> impl Iterator<Item = SubjectFigures> {
    PIPELINES.into_iter().map(move |pipeline| SubjectFigures {
        subject,
        pipeline,
        figures: Vec::new(),
        ratios: Vec::new(),
    })
}

/// Files a visit of INCR, which stands first.
fn keep(all: &mut [SubjectFigures], visit: Vec<Figures>) {
    all.iter_mut().zip(visit).for_each(|(measured, figures)| measured.figures.push(figures));
}

fn ratios(here: &Figures, before: &Figures, after: &Figures) -> Ratios {
    let ratio = |of: fn(&Figures) -> f64| of(here) / ((of(before) + of(after)) / 2.0);
    Ratios { rate: ratio(|figures| figures.rate), cpu: ratio(|figures| figures.cpu), p99: ratio(|figures| figures.p99) }
}

/// Starts a server, measures it at every pipeline, and ends it.
fn visit(subject: &Subject, options: &RunOptions, progress: &mut Progress) -> Result<Vec<Figures>, Failure> {
    progress.next(subject.name);
    let measure = || -> Result<Vec<Figures>, Failure> {
        let server = RunningServer::start(subject.home, options)?;
        verify(server.addr(), subject)?;
        fill(&server, subject)?;
        PIPELINES.into_iter().map(|pipeline| measure(&server, subject, pipeline, options.time)).collect()
    };
    measure().map_err(|failure| format!("{}: {failure}", subject.name).into())
}

fn fill(server: &RunningServer, subject: &Subject) -> Result<(), Failure> {
    let (pipeline, bound) = FILL;
    let mut driver = drive(server, subject, pipeline, Numbers::in_turn(KEYS))?;
    driver.run(KEYS.into(), bound)?;
    driver.finish()
}

fn measure(server: &RunningServer, subject: &Subject, pipeline: usize, time: Duration) -> Result<Figures, Failure> {
    let mut driver = drive(server, subject, pipeline, Numbers::random(KEYS))?;
    driver.run(u64::MAX, WARM)?;
    let used = || Ok::<_, Failure>((cpu::used(server.pid())?, cpu::used(std::process::id())?, cpu::used_by_all()?));
    let before = used()?;
    let tally = driver.run(u64::MAX, time)?;
    let after = used()?;
    driver.finish()?;
    if tally.replies == 0 {
        return Err(format!("no reply in {time:?}").into());
    }
    let (replies, elapsed) = (tally.replies as f64, tally.elapsed.as_secs_f64());
    let seconds = |after: Duration, before: Duration| after.saturating_sub(before).as_secs_f64();
    let (used, driver_used) = (seconds(after.0, before.0), seconds(after.1, before.1));
    let others = (seconds(after.2, before.2) - used - driver_used).max(0.0);
    Ok(Figures {
        rate: replies / elapsed,
        cpu: used * 1e6 / replies,
        driver_cpu: driver_used * 1e6 / replies,
        busy: used / elapsed,
        driver_busy: driver_used / elapsed,
        others_busy: others / elapsed,
        p50: micros(tally.histogram.at(0.5)),
        p99: micros(tally.histogram.at(0.99)),
        allowed: tally.allowed as f64 / replies,
        histogram: tally.histogram,
    })
}

fn drive(server: &RunningServer, subject: &Subject, pipeline: usize, numbers: Numbers) -> Result<Driver, Failure> {
    let batch = Batch::new(subject.words, pipeline);
    Driver::start(
        server.addr(),
        CONNECTIONS,
        &batch,
        ExpectedReplies { form: subject.form, replies: pipeline },
        numbers,
    )
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// Of an even number the mean of the two in the middle.
fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    let at = |place: usize| all.get(place).copied().unwrap_or(f64::NAN);
    (at(all.len().saturating_sub(1) / 2) + at(all.len() / 2)) / 2.0
}

/// A line for those who wait: one that is written over on a terminal, else one a visit.
struct Progress {
    began: Instant,
    visits: usize,
    done: usize,
}

impl Progress {
    fn new(rounds: usize, subjects: usize) -> Self {
        Self { began: Instant::now(), visits: 1 + rounds * (2 * subjects).max(1), done: 0 }
    }

    fn next(&mut self, name: &str) {
        let left = match self.done {
            0 => String::new(),
            done => {
                let one = self.began.elapsed().as_secs_f64() / done as f64;
                format!(", about {:.0} s left", one * (self.visits - self.done) as f64)
            }
        };
        self.done += 1;
        let line = format!("{:>3} of {}: {name}{left}", self.done, self.visits);
        if std::io::stderr().is_terminal() {
            eprint!("\r{line:<70}");
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    fn end(&self) {
        if std::io::stderr().is_terminal() {
            eprint!("\r{:<70}\r", "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
