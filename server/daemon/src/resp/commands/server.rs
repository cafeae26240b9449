//! Commands on the server itself.

use super::CommandContext;
use tollgate_keyspace::Fault;

/// Replies with the machine's time, by which plain keys expire, in seconds and microseconds.
pub(super) fn time(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let now = ctx.shared.engine.wall().get();
    ctx.out.array(2);
    ctx.out.bulk((now / 1_000_000).to_string().as_bytes());
    ctx.out.bulk((now % 1_000_000).to_string().as_bytes());
    Ok(())
}

/// Replies as a master without replicas.
pub(super) fn role(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.out.array(3);
    ctx.out.bulk(b"master");
    ctx.out.int(0);
    ctx.out.array(0);
    Ok(())
}
