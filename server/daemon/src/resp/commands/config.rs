//! CONFIG GET: the settings that tools ask for before they measure, with their actual values. Nothing can be set here:
//! a server is configured by the command line that starts it.

use tollgate_kernel::matches;

use super::table::{Command, NONE, Run, line};
use super::{Turn, command};
use crate::access::Scope;
use crate::resp::decode::Bounds;
use crate::shared::Shared;
use tollgate_keyspace::DATABASES;
use tollgate_keyspace::Fault;

/// The subcommands of CONFIG.
pub(super) static PARTS: &[Command] = &[
    line("CONFIG|GET", -3, "CONFIG GET pattern [pattern …]", Some(Scope::Read), NONE, Run::Plain(get)),
    line("CONFIG|HELP", 2, "CONFIG HELP", None, NONE, Run::Plain(command::help)),
];

/// Returns the memory cap of the embedded home in bytes; 0 for another home, whose cap is unknown.
pub(super) fn cap(shared: &Shared) -> usize {
    shared.engine.home_stats().embedded().map_or(0, |stats| stats.cap)
}

fn values(shared: &Shared) -> [(&'static str, String); 9] {
    [
        ("appendonly", "no".to_owned()),
        ("cluster-enabled", "no".to_owned()),
        ("databases", DATABASES.to_string()),
        ("maxmemory", cap(shared).to_string()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("proto-max-bulk-len", Bounds::KNOWN.arg.to_string()),
        ("protected-mode", "yes".to_owned()),
        ("save", String::new()),
        ("timeout", "0".to_owned()),
    ]
}

fn get(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let mut values = Vec::from(values(turn.shared));
    let patterns: Vec<Vec<u8>> = turn.args.iter().skip(2).map(<[u8]>::to_ascii_lowercase).collect();
    values.retain(|(name, _)| patterns.iter().any(|pattern| matches(pattern, name.as_bytes(), &mut 0)));
    turn.out.map(values.len());
    for (name, value) in values {
        turn.out.bulk(name.as_bytes());
        turn.out.bulk(value.as_bytes());
    }
    Ok(())
}
