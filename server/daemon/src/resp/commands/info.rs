//! INFO: facts about the server in lines of `name:value`, under the names that tools look for.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::Turn;
use super::config::cap;
use super::hello::REDIS_VERSION;
use crate::buffers::Usage;
use tollgate_keyspace::Fault;
use tollgate_keyspace::{DATABASES, Keys};

/// A section: its name, and the function that writes its lines.
type Section = (&'static str, fn(&Turn<'_>, &mut Keys, &mut String) -> std::fmt::Result);

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
pub(super) fn info(turn: &mut Turn<'_>, keys: &mut Keys) -> Result<(), Fault> {
    let args = turn.args;
    let all = args.len() == 1
        || ["default", "all", "everything"].iter().any(|word| (1..args.len()).any(|place| args.is(place, word)));
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if all || (1..args.len()).any(|place| args.is(place, name)) {
            let _ = write!(text, "{}# {name}\r\n", if text.is_empty() { "" } else { "\r\n" });
            let _ = write(turn, keys, &mut text);
        }
    }
    turn.out.verbatim(&text);
    Ok(())
}

fn server(turn: &Turn<'_>, _: &mut Keys, text: &mut String) -> std::fmt::Result {
    let now = turn.shared.engine.now();
    let up = now.since(turn.shared.clients.since).get() / 1_000_000;
    write!(text, "redis_version:{REDIS_VERSION}\r\ntollgate_version:{}\r\n", env!("CARGO_PKG_VERSION"))?;
    write!(text, "redis_mode:standalone\r\nos:{} {}\r\n", std::env::consts::OS, std::env::consts::ARCH)?;
    write!(text, "arch_bits:{}\r\nprocess_id:{}\r\n", usize::BITS, std::process::id())?;
    write!(text, "tcp_port:{}\r\nserver_time_usec:{}\r\n", turn.session.local.port(), turn.shared.engine.wall().get())?;
    write!(text, "uptime_in_seconds:{up}\r\nuptime_in_days:{}\r\n", up / 86_400)
}

fn clients(turn: &Turn<'_>, _: &mut Keys, text: &mut String) -> std::fmt::Result {
    write!(text, "connected_clients:{}\r\nblocked_clients:0\r\n", turn.shared.clients.len())
}

/// Writes the memory that the embedded home, the keys and the bans count themselves: they are the parts that grow.
fn memory(turn: &Turn<'_>, keys: &mut Keys, text: &mut String) -> std::fmt::Result {
    let used = turn.shared.engine.home_stats().embedded().map_or(0, |stats| stats.bytes);
    let used = used + keys.counts().bytes + turn.shared.engine.ban_bytes();
    write!(text, "used_memory:{used}\r\nmaxmemory:{}\r\nmaxmemory_policy:noeviction\r\n", cap(turn.shared))?;
    let held = &turn.shared.buffers;
    for Usage { part, bytes, limit } in held.usage() {
        write!(text, "buffers_{part}_bytes:{bytes}\r\nbuffers_{part}_max_bytes:{limit}\r\n")?;
    }
    write!(text, "buffers_refusals:{}\r\n", held.refused())
}

fn persistence(turn: &Turn<'_>, _: &mut Keys, text: &mut String) -> std::fmt::Result {
    let journal = turn.shared.engine.journal();
    let (enabled, failed) = (journal.is_some(), journal.is_some_and(|journal| journal.trouble.is_some()));
    let status = if failed { "err" } else { "ok" };
    write!(text, "loading:0\r\nrdb_bgsave_in_progress:0\r\naof_enabled:{}\r\n", u8::from(enabled))?;
    write!(text, "aof_last_write_status:{status}\r\n")
}

fn stats(turn: &Turn<'_>, _: &mut Keys, text: &mut String) -> std::fmt::Result {
    let came = turn.shared.next_id.load(Ordering::Relaxed).saturating_sub(1);
    write!(text, "total_connections_received:{came}\r\n")
}

fn replication(_: &Turn<'_>, _: &mut Keys, text: &mut String) -> std::fmt::Result {
    text.write_str("role:master\r\nconnected_slaves:0\r\n")
}

fn cluster(_: &Turn<'_>, _: &mut Keys, text: &mut String) -> std::fmt::Result {
    text.write_str("cluster_enabled:0\r\n")
}

/// Writes the number of keys of each database that has some. How many of them expire is not counted.
fn keyspace(turn: &Turn<'_>, keys: &mut Keys, text: &mut String) -> std::fmt::Result {
    let now = turn.shared.engine.times();
    for db in 0..DATABASES as u8 {
        let count = keys.len(db, now);
        if count > 0 {
            write!(text, "db{db}:keys={count}\r\n")?;
        }
    }
    Ok(())
}
