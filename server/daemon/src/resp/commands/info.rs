//! INFO: facts about the server in lines of `name:value`, under the names that tools look for.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::CommandContext;
use super::config::cap;
use super::hello::REDIS_VERSION;
use crate::buffers::BufferUsage;
use tollgate_keyspace::Fault;
use tollgate_keyspace::{DATABASES, Keyspace};

/// A section: its name, and the function that writes its lines.
type Section = (&'static str, fn(&CommandContext<'_>, &mut Keyspace, &mut String) -> std::fmt::Result);

const SECTIONS: [Section; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
];

/// `INFO [section …]`: all sections if none is named; an unknown name yields no lines.
pub(super) fn info(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let args = ctx.args;
    let all = args.len() == 1
        || ["default", "all", "everything"].iter().any(|word| (1..args.len()).any(|place| args.is(place, word)));
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if all || (1..args.len()).any(|place| args.is(place, name)) {
            let _ = write!(text, "{}# {name}\r\n", if text.is_empty() { "" } else { "\r\n" });
            let _ = write(ctx, keys, &mut text);
        }
    }
    ctx.out.verbatim(&text);
    Ok(())
}

fn server(ctx: &CommandContext<'_>, _: &mut Keyspace, text: &mut String) -> std::fmt::Result {
    let now = ctx.shared.engine.now();
    let up = now.since(ctx.shared.clients.since).get() / 1_000_000;
    write!(text, "redis_version:{REDIS_VERSION}\r\ntollgate_version:{}\r\n", env!("CARGO_PKG_VERSION"))?;
    let mode = ctx.shared.mode();
    write!(text, "redis_mode:{mode}\r\nos:{} {}\r\n", std::env::consts::OS, std::env::consts::ARCH)?;
    write!(text, "arch_bits:{}\r\nprocess_id:{}\r\n", usize::BITS, std::process::id())?;
    write!(text, "tcp_port:{}\r\nserver_time_usec:{}\r\n", ctx.session.local.port(), ctx.shared.engine.wall().get())?;
    write!(text, "uptime_in_seconds:{up}\r\nuptime_in_days:{}\r\n", up / 86_400)
}

fn clients(ctx: &CommandContext<'_>, _: &mut Keyspace, text: &mut String) -> std::fmt::Result {
    write!(text, "connected_clients:{}\r\nblocked_clients:0\r\n", ctx.shared.clients.len())
}

/// Writes the memory that the embedded home, the keys and the bans count themselves: they are the parts that grow.
fn memory(ctx: &CommandContext<'_>, keys: &mut Keyspace, text: &mut String) -> std::fmt::Result {
    let used = ctx.shared.engine.home_stats().embedded().map_or(0, |stats| stats.bytes);
    let used = used + keys.counts().bytes + ctx.shared.engine.ban_bytes();
    write!(text, "used_memory:{used}\r\nmaxmemory:{}\r\nmaxmemory_policy:noeviction\r\n", cap(ctx.shared))?;
    let buffers = &ctx.shared.buffers;
    for BufferUsage { part, bytes, limit } in buffers.usage() {
        write!(text, "buffers_{part}_bytes:{bytes}\r\nbuffers_{part}_max_bytes:{limit}\r\n")?;
    }
    write!(text, "buffers_refusals:{}\r\n", buffers.refused())
}

fn persistence(ctx: &CommandContext<'_>, _: &mut Keyspace, text: &mut String) -> std::fmt::Result {
    let journal = ctx.shared.engine.journal();
    let (enabled, failed) = (journal.is_some(), journal.is_some_and(|journal| journal.trouble.is_some()));
    let status = if failed { "err" } else { "ok" };
    write!(text, "loading:0\r\nrdb_bgsave_in_progress:0\r\naof_enabled:{}\r\n", u8::from(enabled))?;
    write!(text, "aof_last_write_status:{status}\r\n")
}

fn stats(ctx: &CommandContext<'_>, _: &mut Keyspace, text: &mut String) -> std::fmt::Result {
    let came = ctx.shared.next_id.load(Ordering::Relaxed).saturating_sub(1);
    write!(text, "total_connections_received:{came}\r\n")
}

fn replication(_: &CommandContext<'_>, _: &mut Keyspace, text: &mut String) -> std::fmt::Result {
    text.write_str("role:master\r\nconnected_slaves:0\r\n")
}

fn cluster(ctx: &CommandContext<'_>, _: &mut Keyspace, text: &mut String) -> std::fmt::Result {
    write!(text, "cluster_enabled:{}\r\n", u8::from(ctx.shared.cluster.is_some()))
}

/// Writes the number of keys of each database that has some. How many of them expire is not counted.
fn keyspace(ctx: &CommandContext<'_>, keys: &mut Keyspace, text: &mut String) -> std::fmt::Result {
    let now = ctx.shared.engine.times();
    for db in 0..DATABASES as u8 {
        let count = keys.len(db, now);
        if count > 0 {
            write!(text, "db{db}:keys={count}\r\n")?;
        }
    }
    Ok(())
}
