//! `hostile [--keys N] [--cap BYTES]`: many distinct keys against a capped store.
//!
//! First 10,000 keys are exhausted. Then N keys come that were never seen before. At the end resident
//! memory must be within the cap and a tenth, none of the exhausted keys may have got a fresh quota,
//! and the newcomers must have been limited together. It also tells how long checks of known keys
//! take before and during the flood; that is for a person to read.

use std::process::ExitCode;
use std::time::Instant;

use tollgate::Gate;

const HELP: &str = "\
hostile [--keys N] [--cap BYTES]

  --keys N      distinct keys that come once (default 50_000_000)
  --cap BYTES   the store's cap (default 268_435_456)
";
const EXHAUSTED: u64 = 10_000;
const COUNT: u64 = 10;
const POLICY: &str = "10/h gcra";
/// Newcomers between two looks at known keys.
const ROUND: u64 = 500;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (mut keys, mut cap) = (50_000_000, 256 << 20);
    while let Some(word) = words.next() {
        let number = words.next().and_then(|number| number.replace('_', "").parse().ok());
        match (word.as_str(), number) {
            ("--keys", Some(number)) => keys = number,
            ("--cap", Some(number)) => cap = number as usize,
            _ => {
                eprint!("{HELP}");
                return ExitCode::from(2);
            }
        }
    }
    match flood(keys, cap) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("hostile: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn flood(keys: u64, cap: usize) -> Result<(), String> {
    let empty = resident()?;
    let gate = Gate::builder().policy(POLICY).memory_cap(cap).build().map_err(|error| error.to_string())?;
    let allowed = |key: &str| gate.check(key).map(|decision| decision.allowed).map_err(|error| error.to_string());
    for number in 0..EXHAUSTED {
        for _ in 0..COUNT {
            if !allowed(&known(number))? {
                return Err(format!("key {number} was refused before it was exhausted"));
            }
        }
    }
    // The same looks at known keys among customers who are known too, and among newcomers.
    let customers = (cap / 100) as u64;
    for number in 0..customers {
        allowed(&customer(number))?;
    }
    let timed = |number: u64| -> Result<u64, String> {
        let key = known(number / ROUND % EXHAUSTED);
        let started = Instant::now();
        fresh_quota(allowed(&key)?, number)?;
        Ok(started.elapsed().as_nanos() as u64)
    };
    let (mut before, mut during) = (Vec::new(), Vec::new());
    for number in 0..keys.min(5_000_000) {
        allowed(&customer(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % customers))?;
        if number % ROUND == 0 {
            before.push(timed(number)?);
        }
    }
    let (mut admitted, mut peak) = (0, 0);
    for number in 0..keys {
        admitted += u64::from(allowed(&format!("hostile:{number:x}"))?);
        if number % ROUND == 0 {
            during.push(timed(number)?);
        }
        if number % (200 * ROUND) == 0 {
            peak = peak.max(resident()?);
        }
    }
    for number in 0..EXHAUSTED {
        fresh_quota(allowed(&known(number))?, number)?;
    }
    let stats = gate.stats();
    let taken = peak.max(resident()?) - empty;
    let placed = (stats.keys as u64).saturating_sub(EXHAUSTED + customers);
    println!("keys that came: {keys}, of which {admitted} were admitted and {placed} have a place");
    println!("decided in {} shared buckets: {}", stats.overflow_buckets, stats.overflow_decisions);
    println!("cap {cap}, counted {}, resident at most {taken} ({:.1} % of the cap)", stats.bytes, percent(taken, cap));
    println!("known keys, p99 of a check: {} ns before, {} ns during the flood", p99(before), p99(during));
    if taken > cap as u64 + cap as u64 / 10 {
        return Err(format!("{taken} bytes are more than the cap of {cap} and a tenth"));
    }
    // Whoever has no place shares what the buckets hold.
    let most = placed + COUNT * stats.overflow_buckets as u64;
    if admitted > most + most / 100 {
        return Err(format!("{admitted} newcomers were admitted, more than {most}"));
    }
    println!("none of {EXHAUSTED} exhausted keys got a fresh quota");
    Ok(())
}

fn known(number: u64) -> String {
    format!("known:{number}")
}

fn customer(number: u64) -> String {
    format!("customer:{number}")
}

fn fresh_quota(allowed: bool, number: u64) -> Result<(), String> {
    if allowed { Err(format!("an exhausted key got a fresh quota after {number} others")) } else { Ok(()) }
}

fn p99(mut nanos: Vec<u64>) -> u64 {
    nanos.sort_unstable();
    nanos.get(nanos.len() * 99 / 100).copied().unwrap_or_default()
}

fn percent(part: u64, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// Bytes of this process that are in memory.
fn resident() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map(|kilobytes| kilobytes * 1_024).ok_or_else(|| "no VmRSS in /proc/self/status".to_owned())
}
