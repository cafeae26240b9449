//! The longest of many calls, as SLOWLOG tells it.
//!
//! A server that the system puts aside for a moment shows a long call, too. So the same calls are made in
//! several rounds, block by block, each block under a client's name of its own: a block's longest call
//! is the least of its rounds, and the longest of all blocks is what the server itself needs.

use std::collections::BTreeMap;

use redis::{Connection, Pipeline, Value};

use crate::home::{Failure, Home};

/// Microseconds; shorter calls are not noted.
const MIN_MICROS: u64 = 50;

/// Microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongestCalls {
    /// Of calls that were so long in every round; at most [`MIN_MICROS`] if nothing was.
    pub(crate) always: u64,
    /// Of all calls.
    pub(crate) once: u64,
    /// The block of the first.
    pub(crate) block: usize,
}

/// An entry of SLOWLOG: number, time, microseconds, command, address, client's name.
type Entry = (u64, u64, u64, Vec<Value>, String, String);

/// Makes `blocks` blocks of calls in so many rounds; `fill` adds those of a round and a block. The shorter
/// a block, the less likely is it put aside in every round.
pub(crate) fn longest(
    home: &mut Home,
    rounds: usize,
    blocks: usize,
    fill: impl Fn(&mut Pipeline, usize, usize),
) -> Result<LongestCalls, Failure> {
    noting(home, &MIN_MICROS.to_string())?;
    let mut connection = home.connect()?;
    let mut least: BTreeMap<usize, u64> = BTreeMap::new();
    let mut once = MIN_MICROS;
    for round in 0..rounds {
        let _: String = home.ask(&["SLOWLOG", "RESET"])?;
        send(&mut connection, blocks, |pipe, block| fill(pipe, round, block))?;
        let of_round = of_blocks(home)?;
        once = of_round.values().copied().fold(once, u64::max);
        if round == 0 {
            least = of_round;
        } else {
            let both = |(block, micros)| of_round.get(&block).map(|&again| (block, again.min(micros)));
            least = least.into_iter().filter_map(both).collect();
        }
    }
    noting(home, "-1")?;
    let longest = least.into_iter().max_by_key(|&(_, micros)| micros);
    let (block, always) = longest.unwrap_or((0, MIN_MICROS));
    Ok(LongestCalls { always, once, block })
}

fn noting(home: &mut Home, least: &str) -> Result<(), Failure> {
    let _: String = home.ask(&["CONFIG", "SET", "slowlog-log-slower-than", least, "slowlog-max-len", "1000000"])?;
    let _: String = home.ask(&["SLOWLOG", "RESET"])?;
    Ok(())
}

fn send(connection: &mut Connection, blocks: usize, fill: impl Fn(&mut Pipeline, usize)) -> Result<(), Failure> {
    for block in 0..blocks {
        let mut pipe = redis::pipe();
        pipe.cmd("CLIENT").arg("SETNAME").arg(block);
        fill(&mut pipe, block);
        pipe.exec(connection)?;
    }
    Ok(())
}

/// The longest call of each block that has a long one.
fn of_blocks(home: &mut Home) -> Result<BTreeMap<usize, u64>, Failure> {
    let mut longest = BTreeMap::new();
    let entries: Vec<Entry> = home.ask(&["SLOWLOG", "GET", "-1"])?;
    for (_, _, micros, _, _, name) in entries {
        // Others have no number for a name.
        if let Ok(block) = name.parse::<usize>() {
            let most = longest.entry(block).or_insert(micros);
            *most = micros.max(*most);
        }
    }
    Ok(longest)
}
