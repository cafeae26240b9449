//! CONFIG GET: the settings that tools ask for before they measure, with their actual values. Nothing can be set here:
//! a server is configured by the command line that starts it.

use tollgate_kernel::matches;

use super::table::{CommandHandler::Plain, NONE, RespCommand, line};
use super::{CommandContext, command};
use crate::access::Scope;
use crate::resp::decode::CommandBounds;
use crate::shared::ServerState;
use tollgate_keyspace::DATABASES;
use tollgate_keyspace::Fault;

/// The subcommands of CONFIG.
pub(super) static PARTS: &[RespCommand] = &[
    line("CONFIG|GET", -3, "CONFIG GET pattern [pattern …]", Some(Scope::Read), NONE, Plain(get)),
    line("CONFIG|HELP", 2, "CONFIG HELP", None, NONE, Plain(command::help)),
];

/// Returns the memory cap of the embedded home in bytes; 0 for another home, whose cap is unknown.
pub(super) fn cap(shared: &ServerState) -> usize {
    shared.engine.home_stats().embedded().map_or(0, |stats| stats.cap)
}

fn values(shared: &ServerState) -> [(&'static str, String); 9] {
    [
        ("appendonly", "no".to_owned()),
        ("cluster-enabled", if shared.cluster.is_some() { "yes" } else { "no" }.to_owned()),
        ("databases", DATABASES.to_string()),
        ("maxmemory", cap(shared).to_string()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("proto-max-bulk-len", CommandBounds::KNOWN.arg.to_string()),
        ("protected-mode", "yes".to_owned()),
        ("save", String::new()),
        ("timeout", "0".to_owned()),
    ]
}

fn get(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let mut values = Vec::from(values(ctx.shared));
    let patterns: Vec<Vec<u8>> = ctx.args.iter().skip(2).map(<[u8]>::to_ascii_lowercase).collect();
    values.retain(|(name, _)| patterns.iter().any(|pattern| matches(pattern, name.as_bytes(), &mut 0)));
    ctx.out.map(values.len());
    for (name, value) in values {
        ctx.out.bulk(name.as_bytes());
        ctx.out.bulk(value.as_bytes());
    }
    Ok(())
}
