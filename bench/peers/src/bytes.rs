//! Bytes a key: what the process grows by while keys are inserted. The allocator's own overhead
//! counts, and so do tables that have doubled: the figure depends on the number of keys.

use std::fs;
use std::hint::black_box;

use crate::contenders::Contender;
use crate::keys::every;
use crate::workload::REMEMBERED;

pub(crate) const NOW: &str = "bytes_a_key";
/// While a table doubles, the old and the new one are there.
pub(crate) const PEAK: &str = "peak_bytes_a_key";

pub(crate) fn print(contender: &Contender, keys: u64) -> Result<(), String> {
    let before = resident("VmRSS:")?;
    let mut limiter = (contender.build)(REMEMBERED, keys);
    every(keys, |key| limiter.insert(key));
    let (after, peak) = (resident("VmRSS:")?, resident("VmHWM:")?);
    black_box(limiter);
    for (name, bytes) in [(NOW, after), (PEAK, peak)] {
        println!("{name} {:.1}", bytes.saturating_sub(before) as f64 / keys as f64);
    }
    Ok(())
}

/// A line of the process's own status, in bytes.
fn resident(name: &str) -> Result<u64, String> {
    let file = "/proc/self/status";
    let status = fs::read_to_string(file).map_err(|problem| format!("{file}: {problem}"))?;
    let line = status.lines().find(|line| line.starts_with(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|word| word.parse::<u64>().ok());
    kilobytes.map(|kilobytes| kilobytes * 1_024).ok_or_else(|| format!("{file} has no {name}"))
}
