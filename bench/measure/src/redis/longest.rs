//! The longest call while the log of a key grows to 100,000 events, beside as many empty scripts, and the
//! bytes it has then.

use tollgate_kernel::Policy;
use tollgate_redis::lua::{algorithms, compact, script};

use crate::RunOptions;
use crate::home::{Failure, Home};
use crate::slowlog::{LongestCalls, longest};
use crate::table::{Table, Value};

const EVENTS: usize = 100_000;
const BLOCK: usize = 20;
const ROUNDS: (usize, usize) = (4, 3);
const POLICY: &str = "100000/h";
/// Microseconds.
const TARGET: u64 = 1_000;

pub(crate) fn measure(home: &mut Home, options: &RunOptions) -> Result<Table, Failure> {
    let mut table = Table::new(
        "longest",
        "the longest of 100,000 calls by SLOWLOG, in microseconds: if it was so in every round, and at all",
        &["calls", "always", "at all", "target", "met", "found at call"],
    );
    let policy: Policy = POLICY.parse()?;
    let small = script("tollgate", &algorithms(&policy)).ok_or("no such call")?;
    home.load(&small)?;
    home.flush()?;
    let (empty, compact) = (home.empty.sha.clone(), compact(&policy));
    let ways = [
        ("empty script", "EVALSHA", empty.as_str(), "", None),
        ("a log grows, function", "FCALL", "tollgate", POLICY, Some(TARGET)),
        ("a log grows, script", "EVALSHA", small.sha.as_str(), compact.as_str(), Some(TARGET)),
    ];
    let rounds = options.size(ROUNDS.0, ROUNDS.1);
    for (name, command, call, policy, target) in ways.into_iter().take(options.size(3, 2)) {
        eprint!("{name}: ");
        home.flush()?;
        let before = home.memory()?;
        let found = longest(home, rounds, EVENTS / BLOCK, |pipe, round, _| {
            let key = format!("tg:{{u:{round:05}}}");
            for _ in 0..BLOCK {
                pipe.cmd(command).arg(call).arg(1).arg(&key).arg(policy);
            }
        })?;
        eprintln!("{} us", found.always);
        table.row(row(name, found, target));
        if target.is_some() {
            let taken = (home.memory()? - before) / rounds as f64;
            let told = home.memory_of("tg:{u:00000}")?;
            table.note(format!(
                "{name}: {:.2} bytes an event by MEMORY USAGE, {:.2} by used_memory (target 16)",
                told / EVENTS as f64,
                taken / EVENTS as f64
            ));
        }
    }
    home.flush()?;
    Ok(table)
}

fn row(name: &str, found: LongestCalls, target: Option<u64>) -> Vec<Value> {
    vec![
        Value::text(name),
        Value::number(found.always as f64, 0),
        Value::number(found.once as f64, 0),
        Value::maybe(target.map(|target| target as f64), 0),
        Value::met(target.map(|target| found.always < target)),
        Value::number((found.block * BLOCK) as f64, 0),
    ]
}
