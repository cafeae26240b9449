//! CLUSTER, and the commands of connections to a node of a cluster. Under `--cluster` the server answers as the only
//! node, which owns every slot; otherwise as a server without a cluster.
//!
//! Some clients choose their mode by whether these commands are answered, and in cluster mode refuse databases above 0
//! and calls whose keys are in several slots. So nothing is answered without the option.

use tollgate_redis::{SLOTS, slot};

use super::table::{CommandHandler::Plain, NONE, RespCommand, line};
use super::{CommandContext, command};
use crate::access::Scope;
use crate::cluster::{ClusterAddress, ClusterNode};
use crate::resp::writer::RespWriter;
use tollgate_keyspace::Fault;

/// Clients in cluster mode ask for the slots before they send any command, so these need the scope of a check.
const SCOPE: Option<Scope> = Some(Scope::Check);

/// The subcommands of CLUSTER.
pub(super) static PARTS: &[RespCommand] = &[
    line("CLUSTER|INFO", 2, "CLUSTER INFO", SCOPE, NONE, Plain(info)),
    line("CLUSTER|SLOTS", 2, "CLUSTER SLOTS", SCOPE, NONE, Plain(slots)),
    line("CLUSTER|SHARDS", 2, "CLUSTER SHARDS", SCOPE, NONE, Plain(shards)),
    line("CLUSTER|NODES", 2, "CLUSTER NODES", SCOPE, NONE, Plain(nodes)),
    line("CLUSTER|MYID", 2, "CLUSTER MYID", SCOPE, NONE, Plain(my_id)),
    line("CLUSTER|KEYSLOT", 3, "CLUSTER KEYSLOT key", SCOPE, NONE, Plain(key_slot)),
    line("CLUSTER|HELP", 2, "CLUSTER HELP", None, NONE, Plain(command::help)),
];

/// The last slot; this node owns all from 0.
const LAST: i64 = SLOTS as i64 - 1;

/// Returns this node; the error of Redis, word by word, if the server is not in cluster mode.
fn node<'a>(ctx: &CommandContext<'a>) -> Result<&'a ClusterNode, Fault> {
    ctx.shared.cluster.as_ref().ok_or_else(|| Fault::wrong("This instance has cluster support disabled"))
}

fn node_and_address<'a>(ctx: &CommandContext<'a>) -> Result<(&'a ClusterNode, ClusterAddress), Fault> {
    let node = node(ctx)?;
    Ok((node, node.address(ctx.session.local)))
}

fn info(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    node(ctx)?;
    let facts = [
        ("cluster_state", "ok"),
        ("cluster_slots_assigned", "16384"),
        ("cluster_slots_ok", "16384"),
        ("cluster_slots_pfail", "0"),
        ("cluster_slots_fail", "0"),
        ("cluster_known_nodes", "1"),
        ("cluster_size", "1"),
        ("cluster_current_epoch", "0"),
        ("cluster_my_epoch", "0"),
        ("cluster_stats_messages_sent", "0"),
        ("cluster_stats_messages_received", "0"),
        ("total_cluster_links_buffer_limit_exceeded", "0"),
    ];
    ctx.out.verbatim(&facts.map(|(name, value)| format!("{name}:{value}\r\n")).concat());
    Ok(())
}

fn slots(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let (node, address) = node_and_address(ctx)?;
    ctx.out.array(1);
    ctx.out.array(3);
    ctx.out.int(0);
    ctx.out.int(LAST);
    ctx.out.array(4);
    ctx.out.bulk(address.host().as_bytes());
    ctx.out.int(address.port().into());
    ctx.out.bulk(node.id.as_bytes());
    ctx.out.map(0);
    Ok(())
}

fn shards(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let (node, address) = node_and_address(ctx)?;
    let out = &mut *ctx.out;
    out.array(1);
    out.map(2);
    out.bulk(b"slots");
    out.array(2);
    out.int(0);
    out.int(LAST);
    out.bulk(b"nodes");
    out.array(1);
    out.map(7 + usize::from(address.name().is_some()));
    text(out, "id", &node.id);
    number(out, if node.is_tls { "tls-port" } else { "port" }, address.port().into());
    text(out, "ip", address.host());
    text(out, "endpoint", address.host());
    if let Some(name) = address.name() {
        text(out, "hostname", name);
    }
    text(out, "role", "master");
    number(out, "replication-offset", 0);
    text(out, "health", "online");
    Ok(())
}

fn text(out: &mut RespWriter, name: &str, text: &str) {
    out.bulk(name.as_bytes());
    out.bulk(text.as_bytes());
}

fn number(out: &mut RespWriter, name: &str, number: i64) {
    out.bulk(name.as_bytes());
    out.int(number);
}

/// Replies with the line of this node. A name stands in the place of the IP address too, where most clients look.
fn nodes(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let (node, address) = node_and_address(ctx)?;
    let (id, host, port) = (&node.id, address.host(), address.port());
    // Nodes speak to each other at a port 10,000 above; here there is no other node.
    let bus = port.checked_add(10_000).unwrap_or(0);
    let name = address.name().map_or(String::new(), |name| format!(",{name}"));
    ctx.out.verbatim(&format!("{id} {host}:{port}@{bus}{name} myself,master - 0 0 0 connected 0-{LAST}\n"));
    Ok(())
}

fn my_id(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.out.bulk(node(ctx)?.id.as_bytes());
    Ok(())
}

fn key_slot(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    node(ctx)?;
    ctx.out.int(slot(ctx.args.at(2)).into());
    Ok(())
}

/// READONLY, READWRITE and ASKING: this node is the primary of every slot, so they change nothing.
pub(super) fn accept(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    node(ctx)?;
    ctx.out.simple("OK");
    Ok(())
}
