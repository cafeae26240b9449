//! Where a long log may live, by plain commands: in one string that grows, written and read by ranges, or in
//! a hash with a field for every chunk.
//!
//! Both are given the same chunks of 494 bytes, 38 events of 13 bytes; after each the oldest is read, as a
//! decision does.

use redis::Pipeline;

use crate::RunOptions;
use crate::home::{Failure, Home};
use crate::slowlog::longest;
use crate::table::{Table, Value};

const CHUNK: usize = 494;
const EVENTS_A_CHUNK: usize = 38;
/// Events: logs of 1.3 MB and of 13 MB.
const SIZES: [usize; 2] = [100_000, 1_000_000];
const BLOCK: usize = 20;
const ROUNDS: usize = 4;

/// How a chunk is written and the oldest read.
type ChunkMethod = (&'static str, fn(&mut Pipeline, &str, usize, &[u8]));

const WAYS: [ChunkMethod; 2] = [("a string, by ranges", in_string), ("a hash of chunks", in_hash)];

pub(crate) fn measure(home: &mut Home, _asked: &RunOptions) -> Result<Table, Failure> {
    let mut table = Table::new(
        "experiment",
        "a log by plain commands: longest in us (in every round, at all), and bytes an event of 13",
        &["log", "events", "always", "at all", "MEMORY USAGE", "used_memory"],
    );
    let chunk: Vec<u8> = (0..CHUNK).map(|place| (place % 251) as u8).collect();
    for events in SIZES {
        let chunks = events / EVENTS_A_CHUNK / BLOCK * BLOCK;
        for (name, put) in WAYS {
            eprintln!("{name}, {events} events");
            home.flush()?;
            let before = home.memory()?;
            let found = longest(home, ROUNDS, chunks / BLOCK, |pipe, round, block| {
                let key = format!("tg:{{u:{round:05}}}");
                for place in block * BLOCK..(block + 1) * BLOCK {
                    put(pipe, &key, place, &chunk);
                }
            })?;
            let held = (chunks * EVENTS_A_CHUNK) as f64;
            let taken = (home.memory()? - before) / ROUNDS as f64;
            table.row(vec![
                Value::text(name),
                Value::number(events as f64, 0),
                Value::number(found.always as f64, 0),
                Value::number(found.once as f64, 0),
                Value::number(home.memory_of("tg:{u:00000}")? / held, 2),
                Value::number(taken / held, 2),
            ]);
        }
    }
    home.flush()?;
    Ok(table)
}

fn in_string(pipe: &mut Pipeline, key: &str, place: usize, chunk: &[u8]) {
    pipe.cmd("SETRANGE").arg(key).arg(place * CHUNK).arg(chunk);
    pipe.cmd("GETRANGE").arg(key).arg(0).arg(CHUNK - 1);
}

/// The names of the fields are as long as those of the Lua: a tag and a number.
fn in_hash(pipe: &mut Pipeline, key: &str, place: usize, chunk: &[u8]) {
    let field = |place: usize| format!("{place:08}");
    pipe.cmd("HSET").arg(key).arg(field(place)).arg(chunk);
    pipe.cmd("HGET").arg(key).arg(field(0));
}
