//! Nanoseconds a check: every contender of a workload on the same sequence of keys.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crate::contenders::{Contender, Limiter};
use crate::keys::{Keys, every};
use crate::workload::Workload;

/// A measurement runs on one thread, then on two.
pub(crate) const THREADS: usize = 2;
/// What part of the checks runs before the clock does. It also uses up the limit of a hot key.
const WARM_UP: usize = 8;

/// The measurements of one contender on one workload.
pub(crate) struct Times {
    pub(crate) contender: &'static Contender,
    /// Nanoseconds a check and thread, on one thread and on two; sorted.
    pub(crate) nanos: [Vec<f64>; THREADS],
    /// The part of all timed checks that was allowed: who decides otherwise than the rest is not
    /// doing the same work.
    pub(crate) allowed: f64,
}

impl Times {
    pub(crate) fn median(&self, threads: usize) -> f64 {
        let nanos = &self.nanos[threads - 1];
        nanos[nanos.len() / 2]
    }
}

/// Nanoseconds a check, and the part allowed, of one measurement.
struct Sample(f64, f64);

pub(crate) fn measure(workload: &Workload, contenders: &[&'static Contender], repeats: usize) -> Vec<Times> {
    let texts: Vec<Keys> = (0..THREADS).map(|thread| workload.sequence(thread)).collect();
    let sequences: Vec<Vec<&str>> = texts.iter().map(Keys::list).collect();
    let mut limiters: Vec<Box<dyn Limiter>> = contenders
        .iter()
        .map(|contender| {
            let mut limiter = (contender.build)(workload.limit, workload.keys);
            every(workload.keys, |key| limiter.insert(key));
            limiter
        })
        .collect();
    let mut samples: Vec<[Vec<Sample>; THREADS]> = contenders.iter().map(|_| Default::default()).collect();
    // Contenders take turns, so that a busy moment of the machine hits all alike, and start
    // elsewhere each time, so that nobody always follows the same one.
    for repeat in 0..repeats {
        for turn in 0..contenders.len() {
            let at = (turn + repeat) % contenders.len();
            let checks = workload.checks as usize / contenders[at].slow;
            samples[at][0].push(alone(limiters[at].as_mut(), &sequences[0], checks));
            samples[at][1].push(together(limiters[at].as_ref(), &sequences, checks));
        }
    }
    contenders.iter().zip(samples).map(|(contender, samples)| times(contender, samples)).collect()
}

fn times(contender: &'static Contender, samples: [Vec<Sample>; THREADS]) -> Times {
    let all: Vec<f64> = samples.iter().flatten().map(|sample| sample.1).collect();
    let nanos = samples.map(|samples| {
        let mut nanos: Vec<f64> = samples.iter().map(|sample| sample.0).collect();
        nanos.sort_by(f64::total_cmp);
        nanos
    });
    Times { contender, nanos, allowed: all.iter().sum::<f64>() / all.len() as f64 }
}

fn alone(limiter: &mut dyn Limiter, keys: &[&str], checks: usize) -> Sample {
    sample(keys, checks, || (), |keys| limiter.check_alone(keys))
}

/// The mean of the threads, which start together.
fn together(limiter: &dyn Limiter, sequences: &[Vec<&str>], checks: usize) -> Sample {
    let barrier = Barrier::new(sequences.len());
    let run = |keys| sample(keys, checks, || _ = barrier.wait(), |keys| limiter.check_many(keys));
    let samples: Vec<Sample> = thread::scope(|scope| {
        let threads: Vec<_> = sequences.iter().map(|keys| scope.spawn(|| run(keys))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a contender panicked")).collect()
    });
    let mean = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
    Sample(mean(|sample| sample.0), mean(|sample| sample.1))
}

/// The warm-up, which ends with `ready`, and the measurement.
fn sample(keys: &[&str], checks: usize, ready: impl FnOnce(), mut ask: impl FnMut(&[&str]) -> usize) -> Sample {
    // From the end of the sequence: what is measured first must not be what was asked just before.
    let warm_up = checks / WARM_UP;
    repeat(&keys[keys.len().saturating_sub(warm_up)..], warm_up, &mut ask);
    ready();
    let started = Instant::now();
    let allowed = repeat(keys, checks, &mut ask);
    let nanos = started.elapsed().as_nanos() as f64;
    Sample(nanos / checks as f64, allowed as f64 / checks as f64)
}

/// Asks for `keys` from the start, again and again, until there were so many `checks`.
fn repeat(keys: &[&str], checks: usize, ask: &mut impl FnMut(&[&str]) -> usize) -> usize {
    let (mut left, mut allowed) = (checks, 0);
    while left > 0 {
        let part = &keys[..left.min(keys.len())];
        allowed += black_box(ask(black_box(part)));
        left -= part.len();
    }
    allowed
}
