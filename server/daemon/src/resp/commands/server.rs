//! Commands on the server itself.

use super::table::{Command, NONE, Run, line};
use super::{Turn, command};
use crate::access::Scope;
use tollgate_keyspace::Fault;

/// Replies with the machine's time, by which plain keys expire, in seconds and microseconds.
pub(super) fn time(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let now = turn.shared.engine.wall().get();
    turn.out.array(2);
    turn.out.bulk((now / 1_000_000).to_string().as_bytes());
    turn.out.bulk((now % 1_000_000).to_string().as_bytes());
    Ok(())
}

/// The subcommands of CLUSTER by which clients find out whether this server is clustered.
pub(super) static CLUSTER: &[Command] = &[
    line("CLUSTER|INFO", 2, "CLUSTER INFO", Some(Scope::Read), NONE, Run::Plain(no_cluster)),
    line("CLUSTER|SLOTS", 2, "CLUSTER SLOTS", Some(Scope::Read), NONE, Run::Plain(no_cluster)),
    line("CLUSTER|SHARDS", 2, "CLUSTER SHARDS", Some(Scope::Read), NONE, Run::Plain(no_cluster)),
    line("CLUSTER|NODES", 2, "CLUSTER NODES", Some(Scope::Read), NONE, Run::Plain(no_cluster)),
    line("CLUSTER|MYID", 2, "CLUSTER MYID", Some(Scope::Read), NONE, Run::Plain(no_cluster)),
    line("CLUSTER|HELP", 2, "CLUSTER HELP", None, NONE, Run::Plain(command::help)),
];

fn no_cluster(_: &mut Turn<'_>) -> Result<(), Fault> {
    Err(Fault::wrong("This instance has cluster support disabled"))
}

/// Replies as a master without replicas.
pub(super) fn role(turn: &mut Turn<'_>) -> Result<(), Fault> {
    turn.out.array(3);
    turn.out.bulk(b"master");
    turn.out.int(0);
    turn.out.array(0);
    Ok(())
}
