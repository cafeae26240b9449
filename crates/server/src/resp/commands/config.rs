//! CONFIG GET: what tools ask before they measure, answered as it is. Nothing can be set here: a server is
//! set up by the command line that starts it.

use tollgate_core::matches;

use super::table::{Command, NONE, Run, line};
use super::{Turn, command};
use crate::access::Scope;
use crate::desk::Home;
use crate::fault::Fault;
use crate::keys::DATABASES;
use crate::resp::decode::Bounds;
use crate::shared::Shared;

/// The parts of CONFIG.
pub(super) static PARTS: &[Command] = &[
    line("CONFIG|GET", -3, "CONFIG GET pattern [pattern …]", Some(Scope::Read), NONE, Run::Plain(get)),
    line("CONFIG|HELP", 2, "CONFIG HELP", None, NONE, Run::Plain(command::help)),
];

/// Most bytes that the embedded home may take; none are known of another.
pub(super) fn cap(shared: &Shared) -> usize {
    match &shared.desk.home {
        Home::Embedded(memory) => memory.stats().cap,
        Home::Redis(_) => 0,
    }
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
