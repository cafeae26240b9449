//! The load: redis-benchmark with 50 connections, and what a call costs the server under it.

use std::process::Command;

use crate::home::{Failure, Home};

/// What redis-benchmark replaces by twelve digits, anew wherever it stands.
pub(crate) const RANDOM: &str = "__rand_int__";
pub(crate) const KEYS: u64 = 100_000;
const CONNECTIONS: &str = "50";

/// What a call costs under load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Requests a second.
    pub(crate) rate: f64,
    /// Microseconds of the server's processor time.
    pub(crate) micros: f64,
}

/// Makes so many calls of one command.
pub(crate) fn drive(home: &mut Home, pipeline: u32, calls: u64, command: &[String]) -> Result<Cost, Failure> {
    let before = home.cpu()?;
    let rate = benchmark(home.port(), pipeline, calls, command)?;
    Ok(Cost { rate, micros: (home.cpu()? - before) / calls as f64 })
}

/// Requests a second; an error reply to any of them is a failure.
fn benchmark(port: u16, pipeline: u32, calls: u64, command: &[String]) -> Result<f64, Failure> {
    let mut program = Command::new("redis-benchmark");
    program.args(["-h", "127.0.0.1", "-c", CONNECTIONS, "--csv", "-p", &port.to_string()]);
    program.args(["-n", &calls.to_string(), "-P", &pipeline.to_string(), "-r", &KEYS.to_string()]).args(command);
    let done = program.output().map_err(|error| format!("redis-benchmark: {error}"))?;
    let said = String::from_utf8_lossy(&done.stdout);
    // The command stands before the seven numbers, with commas of its own.
    let rate = said.lines().last().and_then(|line| line.rsplit(',').nth(6)?.trim_matches('"').parse().ok());
    match rate {
        Some(rate) if done.status.success() => Ok(rate),
        _ => Err(format!("{}: {}", command.join(" "), String::from_utf8_lossy(&done.stderr).trim()).into()),
    }
}
