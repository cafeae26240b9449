//! `bench-memory`: what the embedded store costs by algorithm, as a Markdown table of bytes a key and
//! nanoseconds a check.
//!
//! Bytes are those the store counts towards its cap: what more keys take more, for each. Checks
//! are made by one thread, on time that the benchmark sets, so that every one of them is allowed or
//! every one refused; the process's clock is read all the same, since a check costs that too.

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tollgate::{Clock, Decision, Error, Gate, Micros, MonotonicClock, Policy, Timestamp};
use tollgate_kernel::algorithms::{ALGORITHMS, AlgorithmInfo};
use tollgate_random::Rng;

/// Beside every algorithm: a longer log, and two limits.
const MORE: [&str; 2] = ["1000/h", "100/min, 1000/h"];
const START: u64 = 1_790_000_040_000_000;
/// More than any case takes.
const CAP: usize = 8 << 30;

/// Keys whose bytes are counted, and how often each was charged.
const KEYS: u64 = 100_000;
const FEW: u64 = 3;
/// Keys that are charged to their limit, which takes longer.
const FULL_KEYS: u64 = 10_000;

/// Checks a measurement, and measurements a figure; the median is told.
const CHECKS: u64 = 400_000;
const REPEATS: usize = 5;
const MANY_KEYS: u64 = 1_000_000;
/// Keys a call of `check_many`.
const BATCH: usize = 64;
/// Bytes of a key such as `user:00000012345`.
const KEY: usize = 16;

fn main() -> Result<(), Error> {
    println!(
        "| policy | bytes a key, 3 used | all used | one key, allowed | refused | 1M keys | 1M keys, in batches |"
    );
    println!("|---|---|---|---|---|---|---|");
    let named = ALGORITHMS.iter().filter(|listed| listed.takes.in_text).map(typical);
    for text in named.chain(MORE.map(str::to_owned)) {
        let (few, all) = bytes_a_key(&text)?;
        let (allowed, refused) = (Bench::new(&text)?.allowed()?, Bench::new(&text)?.refused()?);
        let (many, batches) = Bench::new(&text)?.many()?;
        println!("| `{text}` | {few:.0} | {all:.0} | {allowed:.0} | {refused:.0} | {many:.0} | {batches:.0} |");
    }
    Ok(())
}

/// A hundred a minute by this algorithm, with the options it needs.
fn typical(listed: &AlgorithmInfo) -> String {
    let name = listed.name;
    match listed.takes {
        _ if name == "sliding" => "100/min".to_owned(),
        takes if takes.factor => format!("100/10s {name} factor=2"),
        takes if takes.resolution => format!("100/min {name} resolution=1s"),
        takes if takes.burst => format!("100/min {name} burst=20"),
        _ => format!("100/min {name}"),
    }
}

/// Bytes a key that was charged a few times, and one that was charged to its limit.
fn bytes_a_key(text: &str) -> Result<(f64, f64), Error> {
    let taken = |keys, charges: Option<u64>| -> Result<f64, Error> {
        let bench = Bench::new(text)?;
        bench.charge(keys, charges.unwrap_or(bench.count))?;
        Ok(bench.gate.stats().bytes as f64)
    };
    // What the store takes without keys is in both, and so is the table it begins with.
    let few = (taken(2 * KEYS, Some(FEW))? - taken(KEYS, Some(FEW))?) / KEYS as f64;
    // The table grows in steps, so the rest is measured with one number of keys.
    let rest = (taken(FULL_KEYS, None)? - taken(FULL_KEYS, Some(FEW))?) / FULL_KEYS as f64;
    Ok((few, few + rest))
}

/// A clock that costs what the process's clock does, and shows the time it was set to.
#[derive(Clone)]
struct SettableClock {
    process: MonotonicClock,
    time: Arc<AtomicU64>,
}

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        black_box(self.process.now());
        Timestamp::saturating(self.time.load(Ordering::Relaxed))
    }

    fn is_monotonic(&self) -> bool {
        true
    }
}

/// A gate and its time.
struct Bench {
    gate: Gate,
    time: Arc<AtomicU64>,
    /// Of the policy's largest limit.
    count: u64,
    period: Micros,
}

impl Bench {
    fn new(text: &str) -> Result<Self, Error> {
        let policy: Policy = text.parse()?;
        let largest = policy.limits().iter().max_by_key(|limit| limit.count());
        let (count, period) = largest.map_or((1, Micros::ZERO), |limit| (limit.count(), limit.period()));
        let time = Arc::new(AtomicU64::new(START));
        let clock = SettableClock { process: MonotonicClock::new(), time: Arc::clone(&time) };
        let gate = Gate::builder().value(policy).memory_cap(CAP).clock(clock).build()?;
        Ok(Self { gate, time, count, period })
    }

    /// The time in which `units` come back at the rate of the limit.
    fn time_of(&self, units: u64) -> Micros {
        Micros::new(units * self.period.get() / self.count)
    }

    fn pass(&self, span: Micros) {
        // One thread sets it; an addition that others may see would cost as much as a check.
        self.time.store(self.time.load(Ordering::Relaxed) + span.get(), Ordering::Relaxed);
    }

    /// Charges each of `keys` so often, at the rate of the limit.
    fn charge(&self, keys: u64, charges: u64) -> Result<(), Error> {
        let text = text_of(0..keys);
        for _ in 0..charges {
            // All at one time would share an entry of a log.
            self.pass(self.time_of(1));
            for key in list(&text) {
                let _ = self.gate.check(key)?;
            }
        }
        let stats = self.gate.stats();
        assert_eq!((stats.keys as u64, stats.overflow_decisions), (keys, 0), "every key has a place of its own");
        Ok(())
    }

    /// One key at half the rate of its limit.
    fn allowed(&self) -> Result<f64, Error> {
        let pace = self.time_of(2);
        let check = || {
            self.pass(pace);
            self.gate.check("user:00000012345")
        };
        for _ in 0..2 * self.count {
            let _ = check()?;
        }
        nanos(CHECKS, || {
            let mut allowed = 0;
            for _ in 0..CHECKS {
                allowed += u64::from(black_box(check()?).allowed);
            }
            assert_eq!(allowed, CHECKS, "{} at half its rate", self.gate.current());
            Ok(())
        })
    }

    /// One key that has used all its units.
    fn refused(&self) -> Result<f64, Error> {
        let check = || self.gate.check("user:00000012345");
        while check()?.allowed {}
        nanos(CHECKS, || {
            let mut allowed = 0;
            for _ in 0..CHECKS {
                allowed += u64::from(black_box(check()?).allowed);
            }
            assert_eq!(allowed, 0, "{} used up", self.gate.current());
            Ok(())
        })
    }

    /// A million keys in no order, one by one and in batches. Little time passes, so that none is as new
    /// and forgotten.
    fn many(&self) -> Result<(f64, f64), Error> {
        let all = text_of(0..MANY_KEYS);
        for key in list(&all) {
            let _ = self.gate.check(key)?;
        }
        let mut rng = Rng::new(1);
        let order = text_of((0..MANY_KEYS / 2).map(|_| rng.below(MANY_KEYS)));
        let keys: Vec<&[u8]> = list(&order).collect();
        let one_by_one = nanos(keys.len() as u64, || {
            for batch in keys.chunks(BATCH) {
                self.pass(Micros::new(1));
                for key in batch {
                    let _ = black_box(self.gate.check(key)?);
                }
            }
            Ok(())
        })?;
        let mut decisions: Vec<Decision> = Vec::with_capacity(BATCH);
        let in_batches = nanos(keys.len() as u64, || {
            for batch in keys.chunks(BATCH) {
                self.pass(Micros::new(1));
                self.gate.check_many_into(batch, &mut decisions)?;
                black_box(&decisions);
            }
            Ok(())
        })?;
        assert_eq!(self.gate.stats().keys as u64, MANY_KEYS, "every key has kept its place");
        Ok((one_by_one, in_batches))
    }
}

/// Nanoseconds a check of `run`, which makes so many `checks`.
fn nanos(checks: u64, mut run: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut times = Vec::with_capacity(REPEATS);
    for _ in 0..REPEATS {
        let started = Instant::now();
        run()?;
        times.push(started.elapsed().as_nanos() as f64 / checks as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[REPEATS / 2])
}

/// Keys one after the other in one text, so that reading the next one costs no cache miss.
fn text_of(numbers: impl Iterator<Item = u64>) -> String {
    let mut text = String::new();
    for number in numbers {
        // A String takes all that is written.
        let _ = write!(text, "user:{number:011}");
    }
    text
}

fn list(text: &str) -> impl Iterator<Item = &[u8]> {
    text.as_bytes().chunks(KEY)
}
