//! `tollgate redis doctor` from end to end, on real servers.

use tollgate_kit::Server;

use crate::support::{json, tollgate};

fn finding(server: &Server, code: i32, topic: &str) -> (String, String) {
    let document = json(&tollgate(&["redis", "doctor", &server.url(), "--json"], b"").ended(code));
    let found = document["findings"].as_array().unwrap().iter().find(|finding| finding["topic"] == topic).cloned();
    let found = found.unwrap_or_else(|| panic!("{document}"));
    (found["level"].as_str().unwrap().to_owned(), found["text"].as_str().unwrap().to_owned())
}

#[test]
fn a_healthy_server_is_well() {
    let server = Server::builder().option("--appendonly", "yes").start().unwrap();
    tollgate(&["redis", "install", &server.url()], b"").ok();
    let out = tollgate(&["redis", "doctor", &server.url()], b"").ok();
    assert!(out.ends_with("\nall is well\n"), "{out}");
    assert!(out.contains("  ok       server       Redis ") || out.contains("  ok       server       Valkey "), "{out}");
    assert!(out.contains("  ok       persistence  appendonly: a crash forgets a second or two\n"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    assert_eq!(server.scan_all(|_, _| ()).unwrap(), 0, "nothing is left behind");
}

#[test]
fn eviction_of_live_counters_is_a_problem() {
    let server = Server::builder().option("--maxmemory-policy", "allkeys-lru").start().unwrap();
    let (level, text) = finding(&server, 1, "eviction");
    assert_eq!(level, "problem");
    assert!(text.starts_with("allkeys-lru: it may evict counters"), "{text}");
    let out = tollgate(&["redis", "doctor", &server.url()], b"").ended(1);
    assert!(
        out.contains("  problem  eviction     allkeys-lru") && out.contains("maxmemory-policy noeviction"),
        "{out}"
    );
    let server = Server::builder().option("--maxmemory-policy", "volatile-lru").start().unwrap();
    assert_eq!(finding(&server, 0, "eviction").0, "warning");
}

#[test]
fn the_loss_at_a_restart_is_reported() {
    let server = Server::start().unwrap();
    assert_eq!(finding(&server, 0, "persistence"), ("warning".into(), "none: a restart forgets every counter".into()));
    assert_eq!(finding(&server, 0, "libraries").1, "missing: tollgate, tollgate_0_1");
    let server = Server::builder().option("--save", "60 1").start().unwrap();
    assert_eq!(finding(&server, 0, "persistence").0, "ok");
}

#[test]
fn a_replica_is_no_place_to_decide() {
    let primary = Server::start().unwrap();
    let replica = Server::builder().args(["--replicaof", "127.0.0.1", &primary.port().to_string()]).start().unwrap();
    assert_eq!(finding(&replica, 1, "role").0, "problem");
}

#[test]
fn a_clock_that_is_off_is_a_warning() {
    let server = Server::builder().moveable_clock().start().unwrap();
    server.set_clock_offset(-90).unwrap();
    let (level, text) = finding(&server, 0, "clock");
    assert_eq!(level, "warning");
    assert!(text.contains(" is 1min 30s behind this machine") || text.contains(" is 1min 31s behind"), "{text}");
}

#[test]
fn rights_that_a_user_lacks_are_named() {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    let mut user = |name: &str, rules: &[&str]| {
        redis::cmd("ACL").arg("SETUSER").arg(name).arg("on").arg(">pw").arg(rules).exec(&mut connection).unwrap();
        let url = format!("redis://{name}:pw@127.0.0.1:{}", server.port());
        tollgate(&["redis", "doctor", &url, "--json"], b"")
    };
    let text = |out: String, topic: &str| {
        let document = json(&out);
        let found = document["findings"].as_array().unwrap().iter().find(|finding| finding["topic"] == topic).cloned();
        found.unwrap()["text"].as_str().unwrap().to_owned()
    };
    let out = user("keyless", &["~other:*", "+@all"]).ended(1);
    assert!(text(out, "rights").starts_with("the user may not EVALSHA, FCALL, EVAL on tg:* keys"));
    let out = user("reader", &["~*", "+@all", "-set", "-function"]).ended(1);
    assert_eq!(text(out.clone(), "rights"), "the user may not SET on tg:* keys");
    assert_eq!(text(out, "loading"), "the user may not FUNCTION LIST, FUNCTION LOAD");
    // The permissions of the remedy suffice to decide; the doctor reports what it may not examine.
    let remedy = "~tg:* +ping +hello +select +role +cluster|slots +cluster|info +fcall +fcall_ro +evalsha +eval +time \
                  +get +set +pexpire +pttl +unlink +del +hget +hset +hdel";
    let out = user("least", &remedy.split(' ').collect::<Vec<_>>()).ok();
    assert_eq!(text(out.clone(), "rights"), "calls, and what they do to tg:* keys, are allowed");
    assert_eq!(text(out, "eviction"), "cannot tell: the server refuses INFO");
    let store = format!("redis://least:pw@127.0.0.1:{}", server.port());
    tollgate(&["check", "a", "5/s", "--store", &store], b"").ok();
}

#[test]
fn an_unreachable_server_is_an_error() {
    let error = tollgate(&["redis", "doctor", "redis://127.0.0.1:1"], b"").failed();
    assert_eq!(
        error,
        "error: 127.0.0.1:1 cannot be reached: Connection refused\n\
         hint: is a Redis or Valkey server running at 127.0.0.1:1?\n"
    );
    let server = Server::start().unwrap();
    let error = tollgate(&["redis", "doctor", &format!("redis+cluster://127.0.0.1:{}", server.port())], b"").failed();
    assert!(error.contains("this is one server, not a cluster"), "{error}");
}
