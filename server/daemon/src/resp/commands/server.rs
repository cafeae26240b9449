//! Commands on the server itself.

use super::table::{CommandHandler::Plain, NONE, RespCommand, line};
use super::{CommandContext, command};
use crate::access::Scope;
use tollgate_keyspace::Fault;

/// Replies with the machine's time, by which plain keys expire, in seconds and microseconds.
pub(super) fn time(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let now = ctx.shared.engine.wall().get();
    ctx.out.array(2);
    ctx.out.bulk((now / 1_000_000).to_string().as_bytes());
    ctx.out.bulk((now % 1_000_000).to_string().as_bytes());
    Ok(())
}

/// The subcommands of CLUSTER by which clients find out whether this server is clustered.
pub(super) static CLUSTER: &[RespCommand] = &[
    line("CLUSTER|INFO", 2, "CLUSTER INFO", Some(Scope::Read), NONE, Plain(no_cluster)),
    line("CLUSTER|SLOTS", 2, "CLUSTER SLOTS", Some(Scope::Read), NONE, Plain(no_cluster)),
    line("CLUSTER|SHARDS", 2, "CLUSTER SHARDS", Some(Scope::Read), NONE, Plain(no_cluster)),
    line("CLUSTER|NODES", 2, "CLUSTER NODES", Some(Scope::Read), NONE, Plain(no_cluster)),
    line("CLUSTER|MYID", 2, "CLUSTER MYID", Some(Scope::Read), NONE, Plain(no_cluster)),
    line("CLUSTER|HELP", 2, "CLUSTER HELP", None, NONE, Plain(command::help)),
];

fn no_cluster(_: &mut CommandContext<'_>) -> Result<(), Fault> {
    Err(Fault::wrong("This instance has cluster support disabled"))
}

/// Replies as a master without replicas.
pub(super) fn role(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.out.array(3);
    ctx.out.bulk(b"master");
    ctx.out.int(0);
    ctx.out.array(0);
    Ok(())
}
