//! Many keys in one call: the access log of this repository, the requests of a second at a time.
//!
//! `cargo run --example batch`. It decides what `tollgate replay` decides, because the clock is the
//! log's own and both ask the same kernel.

use std::collections::BTreeMap;

use tollgate::{Gate, ManualClock, Timestamp};

const LOG: &str = include_str!("../../../examples/access_log.txt");

fn main() -> Result<(), tollgate::Error> {
    let clock = ManualClock::default();
    let gate = Gate::builder().policy("60/min").clock(clock.clone()).build()?;

    let lines: Vec<(u64, &str)> = LOG.lines().filter_map(second_and_address).collect();
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut allowed, mut calls) = (0, 0);
    // One vector for all answers, so that a call allocates nothing.
    let mut decisions = Vec::new();
    for batch in lines.chunk_by(|one, other| one.0 == other.0) {
        let keys: Vec<&str> = batch.iter().map(|(_, address)| *address).collect();
        clock.set(Timestamp::saturating(batch[0].0 * 1_000_000));
        gate.check_many_into(&keys, &mut decisions)?;
        calls += 1;
        for (key, decision) in keys.iter().zip(&decisions) {
            if decision.allowed {
                allowed += 1;
            } else {
                *refused.entry(key).or_default() += 1;
            }
        }
    }

    println!("{} requests in {calls} calls: {allowed} allowed", lines.len());
    for (address, times) in &refused {
        println!("{address} refused {times} times");
    }
    // What docs/replay.md shows for this log and policy.
    assert_eq!((allowed, refused.values().sum::<usize>()), (1_762, 192));
    Ok(())
}

/// The second of the day and the address of a line in the common log format:
/// `192.0.2.1 - - [02/Mar/2026:09:00:00 +0000] "GET …`. The log is of one day and in UTC.
fn second_and_address(line: &str) -> Option<(u64, &str)> {
    let (address, rest) = line.split_once(' ')?;
    let time = rest.split_once('[')?.1.split_once(' ')?.0;
    let mut parts = time.split(':').skip(1).map(|part| part.parse::<u64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    Some((hours * 3_600 + minutes * 60 + seconds, address))
}
