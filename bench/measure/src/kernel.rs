//! `bench-kernel`: what one decision of the kernel costs, without a store around it.
//!
//! `bench-kernel time` prints a line a case: algorithm, count, traffic, nanoseconds a decision.
//! `bench-kernel run ALGORITHM COUNT TRAFFIC DECISIONS` makes that many decisions and prints
//! nothing, for a tool that counts instructions. `bench-kernel longest` times single calls.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use tollgate_kernel::algorithms::ALGORITHMS;
use tollgate_kernel::{Cell, Limit, Micros, Options, Policy, Request, Timestamp, decide};

const COUNTS: [u64; 3] = [100, 10_000, 1_000_000];
const HOUR: u64 = 3_600_000_000;
const START: u64 = 1_790_000_000_000_000;
/// Decisions a measurement, and measurements a case; the median is told.
const DECISIONS: u64 = 400_000;
const REPEATS: usize = 7;

/// What the key sees.
#[derive(Clone, Copy, PartialEq)]
enum Traffic {
    /// Requests at exactly the rate of the limit, on a full log: one event leaves, one comes.
    Steady,
    /// Requests to a limit that is used up.
    Refused,
    /// Looks at a full log of which half has expired since the last charge.
    HalfExpired,
}

const TRAFFIC: [(&str, Traffic); 3] =
    [("steady", Traffic::Steady), ("refused", Traffic::Refused), ("worst", Traffic::HalfExpired)];

/// One limit on one key, with its clock.
#[derive(Clone)]
struct Bench {
    policy: Policy,
    cells: Vec<Cell>,
    clock: u64,
    step: u64,
    request: Request,
}

impl Bench {
    /// A key that has used its whole limit at an even rate.
    fn full(algorithm: &str, count: u64, traffic: Traffic) -> Option<Self> {
        let options = Options {
            burst: match algorithm {
                "bucket" => Some(count / 2),
                _ => None,
            },
            resolution: Some(Micros::new(HOUR / 3_600)),
            factor: Some(2.0),
            ..Options::default()
        };
        let limit = Limit::build(algorithm, count, Micros::new(HOUR), &options).ok()?;
        let policy = Policy::new(vec![limit]).ok()?;
        let cells = policy.limits().iter().map(|limit| limit.fresh()).collect();
        let mut bench = Self { policy, cells, clock: START, step: HOUR / count, request: Request::ONE };
        for _ in 0..count {
            bench.decide();
        }
        match traffic {
            Traffic::Steady => {}
            Traffic::Refused => {
                bench.step = 0;
                bench.clock -= 1;
                // Algorithms that still have room at an even rate are used up first.
                for _ in 0..=count {
                    if !bench.decide() {
                        break;
                    }
                }
            }
            Traffic::HalfExpired => {
                bench.clock += HOUR / 2;
                bench.step = 0;
                bench.request = Request::ONE.peek();
            }
        }
        Some(bench)
    }

    fn decide(&mut self) -> bool {
        let t = Timestamp::saturating(self.clock);
        self.clock += self.step;
        decide(&self.policy, &mut self.cells, t, black_box(&self.request)).allowed
    }

    fn run(&mut self, decisions: u64) -> u64 {
        (0..decisions).map(|_| u64::from(self.decide())).sum()
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["time"] => time(),
        ["longest"] => longest(),
        ["run", algorithm, count, traffic, decisions] => {
            let traffic = TRAFFIC.iter().find(|(name, _)| name == traffic).map(|(_, traffic)| *traffic);
            let bench = match (count.parse(), traffic) {
                (Ok(count), Some(traffic)) => Bench::full(algorithm, count, traffic),
                _ => None,
            };
            let (Some(mut bench), Ok(decisions)) = (bench, decisions.parse()) else { return usage() };
            black_box(bench.run(decisions));
        }
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: bench-kernel time | longest | run ALGORITHM COUNT steady|refused|worst DECISIONS");
    ExitCode::from(2)
}

fn time() {
    for listed in ALGORITHMS {
        for count in COUNTS {
            for (name, traffic) in TRAFFIC {
                let Some(mut bench) = Bench::full(listed.name, count, traffic) else { continue };
                black_box(bench.run(DECISIONS / 10));
                let mut times: Vec<f64> = (0..REPEATS)
                    .map(|_| {
                        let started = Instant::now();
                        black_box(bench.run(DECISIONS));
                        started.elapsed().as_nanos() as f64 / DECISIONS as f64
                    })
                    .collect();
                times.sort_by(f64::total_cmp);
                println!("{} {count} {name} {:.1}", listed.name, times[REPEATS / 2]);
            }
        }
    }
}

/// The longest single call while a log of a million grows, in steady traffic, and after pauses.
fn longest() {
    let Some(full) = Bench::full("sliding", 1_000_000, Traffic::Steady) else { return };
    let mut growing = Bench { cells: full.policy.limits().iter().map(|limit| limit.fresh()).collect(), ..full.clone() };
    println!("growing {:.1}", longest_of(&mut growing, 1_000_000));
    let mut steady = full.clone();
    println!("steady {:.1}", longest_of(&mut steady, 1_000_000));
    for (name, pause) in [("half-expired", HOUR / 2), ("all-expired", 2 * HOUR)] {
        let mut most: f64 = 0.0;
        for _ in 0..5 {
            // What a pause leaves behind is freed by the calls after it, bit by bit.
            let mut paused = Bench { step: 1, ..full.clone() };
            paused.clock += pause;
            most = most.max(longest_of(&mut paused, 300));
        }
        println!("{name} {most:.1}");
    }
    let mut most: f64 = 0.0;
    for _ in 0..20 {
        let forgotten = full.clone();
        let started = Instant::now();
        drop(black_box(forgotten.cells));
        most = most.max(started.elapsed().as_nanos() as f64 / 1_000.0);
    }
    println!("forgotten-at-once {most:.1}");
}

/// The longest of `calls` single calls in microseconds.
fn longest_of(bench: &mut Bench, calls: u64) -> f64 {
    let mut longest = 0.0;
    for _ in 0..calls {
        let started = Instant::now();
        black_box(bench.decide());
        longest = f64::max(longest, started.elapsed().as_nanos() as f64 / 1_000.0);
    }
    longest
}
