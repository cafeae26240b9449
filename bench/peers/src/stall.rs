//! Stalls: the longest single call while keys come one by one, such as the one that doubles a table.
//!
//! The machine stalls too. So the same loop then runs with nothing in it but the reading of the
//! clock, at least as long as the calls took: what it shows is not the limiter's.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::contenders::Contender;
use crate::keys::every;
use crate::workload::REMEMBERED;

pub(crate) const LONGEST_FIELD: &str = "longest_us";
pub(crate) const OVER: &str = "calls_over_1ms";
pub(crate) const CLOCK_LONGEST: &str = "clock_longest_us";
pub(crate) const CLOCK_OVER: &str = "clock_over_1ms";

#[derive(Default)]
struct Calls {
    longest: Duration,
    over: u64,
}

impl Calls {
    fn time(&mut self, call: impl FnOnce()) {
        let started = Instant::now();
        call();
        let took = started.elapsed();
        self.longest = self.longest.max(took);
        self.over += u64::from(took > Duration::from_millis(1));
    }

    fn micros(&self) -> f64 {
        self.longest.as_nanos() as f64 / 1_000.0
    }
}

pub(crate) fn print(contender: &Contender, keys: u64) -> Result<(), String> {
    let mut limiter = (contender.build)(REMEMBERED, keys);
    let (mut calls, mut clock) = (Calls::default(), Calls::default());
    let started = Instant::now();
    every(keys, |key| calls.time(|| limiter.insert(key)));
    let took = started.elapsed();
    let started = Instant::now();
    while started.elapsed() < took {
        every(keys, |key| clock.time(|| _ = black_box(key)));
    }
    println!("{LONGEST_FIELD} {:.1}\n{OVER} {}", calls.micros(), calls.over);
    println!("{CLOCK_LONGEST} {:.1}\n{CLOCK_OVER} {}", clock.micros(), clock.over);
    Ok(())
}
