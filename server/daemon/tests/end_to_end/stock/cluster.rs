//! The server in cluster mode beside a redis-server that is a cluster of one node.

use std::net::SocketAddr;

use tollgate_daemon::{ClusterSettings, Server, ServerSettings};

use super::commands::agrees;
use super::wire::{Reply, ask, command};

/// A server in cluster mode, on an address of each kind.
fn clustered(announced: Option<&str>) -> Server {
    let settings = ServerSettings {
        resp: Some(([127, 0, 0, 1], 0).into()),
        more_resp: vec!["[::1]:0".parse().unwrap()],
        http: None,
        threads: 1,
        cluster: Some(ClusterSettings { announced: announced.map(|text| text.parse().unwrap()) }),
        ..ServerSettings::default()
    };
    Server::start(settings).expect("free ports")
}

/// A redis-server that owns every slot and announces the address that it listens on.
fn redis() -> tollgate_kit::Server {
    let server = tollgate_kit::Server::builder().cluster_node().start().unwrap();
    let done = said(server.addr(), &["CLUSTER ADDSLOTSRANGE 0 16383", "CONFIG SET cluster-announce-ip 127.0.0.1"]);
    assert_eq!(done, [Reply::Simple("OK".to_owned()), Reply::Simple("OK".to_owned())]);
    server
}

fn said(addr: SocketAddr, commands: &[&str]) -> Vec<Reply> {
    let words = commands.iter().map(|text| text.split(' ').collect::<Vec<_>>());
    let pipeline: Vec<u8> = words.flat_map(|words| command(&words)).collect();
    ask(addr, &[&pipeline]).replies
}

fn id(addr: SocketAddr) -> String {
    let Some(Reply::Bulk(id)) = said(addr, &["CLUSTER MYID"]).pop() else { panic!("expected a name") };
    assert!(id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    id
}

/// The last reply, with what differs between two nodes under one word: its name and its ports.
fn plain(addr: SocketAddr, commands: &[&str]) -> Reply {
    fn replace(reply: Reply, id: &str, port: u16) -> Reply {
        let bus = port.checked_add(10_000).unwrap_or(0);
        let line = format!("127.0.0.1:{port}@{bus} ");
        let text = |text: String| {
            // A node that was just started waits for others before it says that the cluster is well.
            text.replace(id, "ID").replace(&line, "ADDRESS ").replace("cluster_state:fail", "cluster_state:ok")
        };
        match reply {
            Reply::Bulk(found) => Reply::Bulk(text(found)),
            Reply::Verbatim(found) => Reply::Verbatim(text(found)),
            Reply::Int(found) if found == i64::from(port) => Reply::Simple("PORT".to_owned()),
            Reply::Many(sign, all) => {
                Reply::Many(sign, all.into_iter().map(|reply| replace(reply, id, port)).collect())
            }
            other => other,
        }
    }
    replace(said(addr, commands).pop().unwrap(), &id(addr), addr.port())
}

#[test]
fn a_cluster_of_one_node_is_described_as_redis_describes_it() {
    let (ours, theirs) = (clustered(None), redis());
    let ours = ours.resp_addr().unwrap();
    for protocol in ["HELLO 2", "HELLO 3"] {
        for asked in [
            "CLUSTER SLOTS",
            "CLUSTER SHARDS",
            "CLUSTER NODES",
            "CLUSTER INFO",
            "CLUSTER MYID",
            "cluster keyslot foo",
            "CLUSTER KEYSLOT {user}.a",
            "CLUSTER KEYSLOT",
            "READONLY",
            "READWRITE",
            "ASKING",
            "READONLY x",
            "SELECT 0",
            "SELECT 1",
            "SELECT 16",
            "INFO cluster",
            "CONFIG GET cluster-enabled",
            "ROLE",
        ] {
            let (our, their) = (plain(ours, &[protocol, asked]), plain(theirs.addr(), &[protocol, asked]));
            assert!(agrees(&our, &their), "{protocol}, {asked}\n  ours   {our:?}\n  theirs {their:?}");
        }
    }
    assert!(format!("{:?}", said(ours, &["HELLO 3"])).contains(r#"Bulk("mode"), Bulk("cluster")"#));
    assert!(format!("{:?}", said(ours, &["INFO server"])).contains("redis_mode:cluster"));
}

/// The hosts and ports of CLUSTER SLOTS, SHARDS and NODES.
fn addresses(addr: SocketAddr) -> [String; 3] {
    let replies = said(addr, &["CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES"]);
    let shown = |reply: &Reply| format!("{reply:?}").replace(&id(addr), "ID");
    let [slots, shards, Reply::Bulk(nodes)] = &replies[..] else { panic!("{replies:?}") };
    let nodes = nodes.split(' ').nth(1).unwrap();
    [shown(slots), shown(shards), nodes.to_owned()]
}

#[test]
fn each_client_is_told_the_address_that_it_connected_to() {
    let server = clustered(None);
    for addr in server.resp_addrs() {
        let (host, port) = (addr.ip(), addr.port());
        let [slots, shards, nodes] = addresses(*addr);
        assert!(slots.contains(&format!("Bulk(\"{host}\"), Int({port}), Bulk(\"ID\")")), "{slots}");
        assert!(shards.contains(&format!("Bulk(\"port\"), Int({port}), Bulk(\"ip\"), Bulk(\"{host}\")")), "{shards}");
        assert!(nodes.starts_with(&format!("{host}:{port}@")), "{nodes}");
    }
}

#[test]
fn behind_other_addresses_a_client_is_told_the_announced_one() {
    let server = clustered(Some("gate.example:7000"));
    for addr in server.resp_addrs() {
        let [slots, shards, nodes] = addresses(*addr);
        assert!(slots.contains("Bulk(\"gate.example\"), Int(7000)"), "{slots}");
        assert!(shards.contains("Bulk(\"endpoint\"), Bulk(\"gate.example\"), Bulk(\"hostname\")"), "{shards}");
        assert_eq!(nodes, "gate.example:7000@17000,gate.example");
    }
}

#[test]
fn keys_of_any_slot_are_decided_together() {
    let server = clustered(None);
    let addr = server.resp_addr().unwrap();
    let replies = said(addr, &["TG.CHECKALL a 2/min AND b 2/min", "EXISTS a b", "FCALL fixed_window 1 c 2 60"]);
    assert!(replies.iter().all(|reply| !matches!(reply, Reply::Error(_))), "{replies:?}");
}
