//! Full logs of `sliding` in steady traffic: what a call costs by the number of events in the log.
//!
//! Steady means that as many events leave as come. By the caller's clock (the library that tests use) it
//! is exact: every call finds that one event has left, and takes its place.
//!
//! By the server's clock the period must suit the machine: all keys together are allowed three fifths of
//! what it can do, which is tried first. A log is filled for one period by calls of which three in five
//! charge, the others only look; its events are then evenly apart. From then on every call charges: three
//! in five find that an event has left and take its place, the others are refused. If the machine slowed
//! down or sped up meanwhile, more or less is allowed, and it is done again with what was learned.

use std::time::Duration;

use crate::RunOptions;
use crate::calls::empty;
use crate::flood::{Flood, FloodFigures, SteppedFlood};
use crate::home::{Failure, Home};
use crate::table::{Table, Value};

/// Events a log, and how many logs: in all, and quickly.
const LOGS: &[(u64, usize, usize)] = &[(100, 200, 100), (1_000, 50, 20), (10_000, 10, 4), (100_000, 3, 1)];
const CHARGING: usize = 3;
const SHARE: f64 = 0.6;
/// Shares that will do.
const FAIR: std::ops::Range<f64> = 0.5..0.7;
/// How often fair shares are tried for.
const TRIALS: (usize, usize) = (3, 1);
const TRIAL: Duration = Duration::from_millis(300);
const TARGET: f64 = 1.2;
const BYTES_AN_EVENT: f64 = 16.0;

/// What was found at one count.
struct LogFigures {
    seen: FloodFigures,
    micros: f64,
    /// Of a log as it was left, and the events in it.
    bytes: f64,
    events: f64,
}

pub(crate) fn measure(home: &mut Home, options: &RunOptions) -> Result<Table, Failure> {
    let mut table = Table::new(
        "logs",
        "sliding, the function, in steady traffic on full logs; `besides` is what is above 16 bytes an event",
        &[
            "count",
            "clock",
            "allowed",
            "full",
            "cpu us",
            "x empty",
            "over 100",
            "target",
            "met",
            "bytes/event",
            "besides",
        ],
    );
    for clock in ["caller", "server"] {
        let mut first = None;
        // The longest takes seconds to fill by the server's clock.
        let logs = if options.quick && clock == "server" { LOGS.len() - 1 } else { LOGS.len() };
        for &(count, keys, quick) in LOGS.iter().take(logs) {
            home.flush()?;
            let keys: Vec<String> = (0..options.size(keys, quick)).map(|key| format!("tg:{{u:{key:05}}}")).collect();
            let before = empty(home, options)?;
            let found = match clock {
                "caller" => by_callers_clock(home, options, count, &keys)?,
                _ => by_servers_clock(home, options, count, &keys)?,
            };
            let ratio = found.micros / ((before.micros + empty(home, options)?.micros) / 2.0);
            let over = ratio / *first.get_or_insert(ratio);
            eprintln!("sliding, {count} events, {clock}'s clock: {:.1} us, {over:.2} over 100", found.micros);
            table.row(row(count, clock, &found, ratio, over));
        }
    }
    home.flush()?;
    Ok(table)
}

fn row(count: u64, clock: &str, found: &LogFigures, ratio: f64, over: f64) -> Vec<Value> {
    let allowed = found.seen.allowed / found.seen.calls;
    // By shares that differ from those at 100, nothing is told.
    let comparable = clock == "caller" || FAIR.contains(&allowed);
    vec![
        Value::number(count as f64, 0),
        Value::text(clock),
        Value::number(allowed, 2),
        Value::number(found.seen.used / found.seen.calls / count as f64, 3),
        Value::number(found.micros, 2),
        Value::number(ratio, 2),
        Value::number(over, 2),
        Value::number(TARGET, 1),
        Value::met(comparable.then_some(over <= TARGET)),
        Value::number(found.bytes / found.events, 2),
        Value::number(found.bytes - BYTES_AN_EVENT * found.events, 0),
    ]
}

fn by_callers_clock(home: &mut Home, options: &RunOptions, count: u64, keys: &[String]) -> Result<LogFigures, Failure> {
    let mut stepped = SteppedFlood::new(home, keys, count)?;
    stepped.run(count * keys.len() as u64)?;
    let started = home.cpu()?;
    let seen = stepped.run(options.size(100_000, 25_000))?;
    let micros = (home.cpu()? - started) / seen.calls;
    let key = keys.first().ok_or("no key")?;
    Ok(LogFigures { seen, micros, bytes: home.memory_of(key)?, events: count as f64 })
}

fn by_servers_clock(home: &mut Home, options: &RunOptions, count: u64, keys: &[String]) -> Result<LogFigures, Failure> {
    let trial = Flood::new(keys, &format!("{count}/h"), count, CHARGING).run(home, TRIAL)?;
    let mut rate = trial.calls / trial.seconds;
    let mut trials = options.size(TRIALS.0, TRIALS.1);
    loop {
        let found = steady(home, options, count, keys, rate)?;
        trials -= 1;
        if trials == 0 || FAIR.contains(&(found.seen.allowed / found.seen.calls)) {
            return Ok(found);
        }
        rate = found.seen.calls / found.seen.seconds;
    }
}

/// Steady traffic on a machine that does so many calls a second.
fn steady(
    home: &mut Home,
    options: &RunOptions,
    count: u64,
    keys: &[String],
    rate: f64,
) -> Result<LogFigures, Failure> {
    home.flush()?;
    let period = count as f64 * keys.len() as f64 / (SHARE * rate);
    let policy = format!("{count}/{:.0}ms", period * 1_000.0);
    eprintln!("sliding, {policy}, {} keys: {period:.1} s to fill", keys.len());
    Flood::new(keys, &policy, count, CHARGING).run(home, Duration::from_secs_f64(period))?;
    let flood = Flood::new(keys, &policy, count, 5);
    // What was not filled is now.
    flood.run(home, TRIAL)?;
    let started = home.cpu()?;
    let seen = flood.run(home, options.size(Duration::from_secs(3), Duration::from_secs(1)))?;
    let micros = (home.cpu()? - started) / seen.calls;
    let key = keys.first().ok_or("no key")?;
    // The call drops what has left, so that the bytes are those of what is there.
    let reply: Vec<i64> = home.ask(&["FCALL", "tollgate", "1", key, &policy])?;
    let remaining = reply.get(2).copied().ok_or("a reply too short")?;
    Ok(LogFigures { seen, micros, bytes: home.memory_of(key)?, events: count as f64 - remaining as f64 })
}
