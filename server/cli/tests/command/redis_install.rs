//! `tollgate redis install` from end to end, on real servers.

use tollgate_kit::{Cluster, Server};

use crate::support::{json, tollgate};

/// A library of another author with one of our function names.
const FOREIGN: &str = "#!lua name=rdslim\nredis.register_function('sliding_window', function() return 7 end)";

fn libraries(server: &Server) -> Vec<String> {
    let listed: Vec<redis::Value> =
        redis::cmd("FUNCTION").arg("LIST").query(&mut server.connection().unwrap()).unwrap();
    let name = |library: &redis::Value| match library {
        redis::Value::Array(parts) => redis::from_redis_value::<String>(parts[1].clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    let mut names: Vec<String> = listed.iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn libraries_are_new_then_current_then_replaced() {
    let server = Server::start().unwrap();
    let url = server.url();
    let install = |more: &[&str]| tollgate(&[&["redis", "install", url.as_str()], more].concat(), b"");
    let out = install(&["--check"]).ended(1);
    assert!(out.contains("tollgate             12  missing\n"), "{out}");
    assert!(libraries(&server).is_empty(), "a check changes nothing");
    let out = install(&[]).ok();
    assert!(out.contains("tollgate             12  new\n") && out.contains("tollgate_0_1         12  new\n"), "{out}");
    assert_eq!(libraries(&server), ["tollgate", "tollgate_0_1"]);
    let out = install(&[]).ok();
    assert_eq!(out.matches("  current\n").count(), 2, "{out}");
    let document = json(&install(&["--check", "--json"]).ok());
    assert_eq!(document["libraries"][0]["state"], "current");
    let other = "#!lua name=tollgate\nredis.register_function('tollgate', function() return 0 end)";
    let mut connection = server.connection().unwrap();
    redis::cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(other).exec(&mut connection).unwrap();
    let out = install(&["--check"]).ended(1);
    assert!(out.contains("tollgate             12  different\n"), "{out}");
    let out = install(&[]).ok();
    assert!(out.contains("tollgate             12  replaced\n"), "{out}");
    let reply: Vec<i64> =
        redis::cmd("FCALL").arg("tollgate").arg(1).arg("tg:{a}").arg("100/min").query(&mut connection).unwrap();
    assert_eq!(reply, [1, 1, 99, 0, 60_000_000, 0]);
}

#[test]
fn a_name_that_a_foreign_library_holds_is_reported_and_nothing_is_changed() {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    redis::cmd("FUNCTION").arg("LOAD").arg(FOREIGN).exec(&mut connection).unwrap();
    let url = server.url();
    let error = tollgate(&["redis", "install", &url], b"").failed();
    assert!(error.contains("function names are taken, and nothing was changed\n"), "{error}");
    assert!(error.contains("library rdslim holds sliding_window\n"), "{error}");
    assert!(error.contains("FUNCTION DELETE rdslim") && error.contains("--only tollgate_0_1"), "{error}");
    assert_eq!(libraries(&server), ["rdslim"]);
    let out = tollgate(&["redis", "install", &url, "--only", "tollgate_0_1"], b"").ok();
    assert!(out.contains("tollgate_0_1         12  new\n"), "{out}");
    assert_eq!(libraries(&server), ["rdslim", "tollgate_0_1"]);
    let error = tollgate(&["redis", "install", &url, "--only", "nonsense"], b"").failed();
    assert!(error.contains("the name of a library"), "{error}");
}

#[test]
fn scripts_are_loaded_and_told_with_their_names() {
    let server = Server::start().unwrap();
    let url = server.url();
    let install = |more: &[&str]| tollgate(&[&["redis", "install", url.as_str(), "--scripts"], more].concat(), b"");
    assert!(install(&["--check"]).ended(1).contains("        0       0       12\n"));
    let document = json(&install(&["--json"]).ok());
    assert_eq!(document["nodes"][0]["loaded"], 12);
    let sha = document["scripts"][0]["sha"].as_str().unwrap();
    let mut call = redis::cmd("EVALSHA");
    let reply: Vec<i64> =
        call.arg(sha).arg(1).arg("tg:{a}").arg("5/s gcra").query(&mut server.connection().unwrap()).unwrap();
    assert_eq!(reply[..3], [1, 1, 4]);
    assert!(install(&["--check"]).ok().contains("       12       0        0\n"));
    assert!(libraries(&server).is_empty());
}

#[test]
fn a_server_without_functions_is_offered_scripts() {
    let server = Server::builder().args(["--rename-command", "FUNCTION", ""]).start().unwrap();
    let error = tollgate(&["redis", "install", &server.url()], b"").failed();
    assert!(error.contains("knows no function libraries") && error.contains("--scripts"), "{error}");
    tollgate(&["redis", "install", &server.url(), "--scripts"], b"").ok();
}

#[test]
fn passwords_are_not_printed() {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("another").exec(&mut connection).unwrap();
    let port = server.port();
    let error = tollgate(&["check", "a", "1/s", "--store", &server.url()], b"").failed();
    assert!(error.contains("NOAUTH") && error.contains("hint: name user and password"), "{error}");
    for url in [
        format!("redis://ann:verysecret@127.0.0.1:{port}"),
        "redis://ann:verysecret@127.0.0.1:1".to_owned(),
        format!("redis+cluster://:verysecret@127.0.0.1:{port}"),
        "nonsense://ann:verysecret@127.0.0.1".to_owned(),
    ] {
        for command in [["redis", "install"], ["redis", "doctor"]] {
            let error = tollgate(&[command[0], command[1], &url], b"").failed();
            assert!(error.starts_with("error: ") && !error.contains("verysecret"), "{error}");
        }
        let error = tollgate(&["check", "a", "1/s", "--store", &url], b"").failed();
        assert!(error.starts_with("error: ") && !error.contains("verysecret"), "{error}");
    }
}

#[test]
fn every_primary_of_a_cluster_gets_the_libraries_and_every_node_the_scripts() {
    let cluster = Cluster::start().unwrap();
    let node = cluster.node(4).unwrap().port();
    let url = format!("redis+cluster://127.0.0.1:{node}");
    let out = tollgate(&["redis", "install", &url], b"").ok();
    assert_eq!(out.matches("  new\n").count(), 6, "{out}");
    // One node named as if it were one server is enough to find the others.
    let out = tollgate(&["redis", "install", &format!("redis://127.0.0.1:{node}"), "--check"], b"").ok();
    assert_eq!(out.matches("  current\n").count(), 6, "{out}");
    let document = json(&tollgate(&["redis", "install", &url, "--scripts", "--json"], b"").ok());
    assert_eq!(document["nodes"].as_array().unwrap().len(), 6);
    doctor(&cluster, &url);
    crate::bench::on_a_cluster(&cluster, &url);
    let out = tollgate(&["check", "user:42", "2/min", "--store", &url], b"").ok();
    assert_eq!(out, "user:42 allowed: 1 left, as new in 1min\n");
}

fn doctor(cluster: &Cluster, url: &str) {
    let out = tollgate(&["redis", "doctor", url], b"").ok();
    assert!(out.contains("  ok       cluster      state ok, 16384 slots on 3 primaries\n"), "{out}");
    assert!(out.contains("  ok       failover     every primary has a replica\n"), "{out}");
    assert!(out.contains("  warning  replicas     1 and min-replicas-to-write 0"), "{out}");
    assert!(out.contains("  ok       libraries    tollgate and tollgate_0_1 are current\n"), "{out}");
    let left = cluster.scan_all(|_, _| ()).unwrap();
    assert_eq!(left, 0, "nothing is left behind");
    let out = tollgate(&["redis", "doctor", &cluster.urls()[0]], b"").ok();
    assert!(out.contains("  warning  url  ") && out.contains("redis+cluster://127.0.0.1:"), "{out}");
}
