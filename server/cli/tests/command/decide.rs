//! `tollgate check`, `peek`, `reset`, `refund` and `explain --key` from end to end, on a real server.

use tollgate_kit::Server;

use crate::support::{CommandResult, json, tollgate};

struct Store(Server);

impl Store {
    fn run(&self, args: &[&str]) -> CommandResult {
        tollgate(&[args, &["--store", &self.0.url()]].concat(), b"")
    }
}

fn store() -> Store {
    Store(Server::start().unwrap())
}

#[test]
fn a_key_is_allowed_until_it_is_denied_and_again_after_a_reset() {
    let store = store();
    assert_eq!(store.run(&["check", "user:42", "2/min"]).ok(), "user:42 allowed: 1 left, as new in 1min\n");
    assert_eq!(store.run(&["check", "user:42", "2/min"]).ok(), "user:42 allowed: 0 left, as new in 1min\n");
    let out = store.run(&["check", "user:42", "2/min"]).ended(1);
    assert!(out.starts_with("user:42 denied: 0 left, retry after 59."), "{out}");
    assert!(out.contains("limited by\n2/min") || out.contains("limited by 2/min"), "{out}");
    assert!(store.run(&["peek", "user:42", "2/min"]).ended(1).starts_with("user:42 would be denied: 0 left"));
    store.run(&["check", "user:42", "2/min", "--name", "login"]).ok();
    assert_eq!(store.run(&["reset", "user:42", "2/min"]).ok(), "forgotten: user:42 under 2/min\n");
    assert_eq!(store.run(&["peek", "user:42", "2/min"]).ok(), "user:42 would be allowed: 2 left\n");
    assert!(store.run(&["peek", "user:42", "2/min", "--name", "login"]).ok().contains("1 left"), "another's stays");
    let libraries: Vec<redis::Value> =
        redis::cmd("FUNCTION").arg("LIST").query(&mut store.0.connection().unwrap()).unwrap();
    assert!(libraries.is_empty(), "deciding installs nothing");
}

#[test]
fn json_has_the_names_of_the_reply() {
    let store = store();
    let first = json(&store.run(&["check", "k", "3/min, 5/h gcra", "--cost", "2", "--json"]).ok());
    for (name, expected) in [
        ("allowed", serde_json::json!(true)),
        ("granted", 2.into()),
        ("charged", 2.into()),
        ("remaining", 1.into()),
        ("retry_after_us", 0.into()),
        ("limited_by", serde_json::Value::Null),
        ("source", "home".into()),
    ] {
        assert_eq!(first[name], expected, "{name}");
    }
    assert_eq!(first["limits"][1]["count"], 5);
    let denied = json(&store.run(&["check", "k", "3/min, 5/h gcra", "--cost", "2", "--json"]).ended(1));
    assert_eq!((&denied["limited_by"], &denied["charged"]), (&"3/min".into(), &0.into()));
    assert!(denied["retry_after_us"].as_i64().is_some_and(|us| us > 50_000_000 && us <= 60_000_000));
    let never = json(&store.run(&["check", "k", "3/min, 5/h gcra", "--cost", "4", "--json"]).ended(1));
    assert_eq!((&never["retry_after_us"], &never["next_after_us"]), (&(-1).into(), &(-1).into()));
    let part = json(&store.run(&["check", "n", "3/min", "--cost", "9", "--mode", "nary", "--json"]).ok());
    assert_eq!((&part["granted"], &part["allowed"]), (&3.into(), &true.into()));

    let at = first["at_us"].to_string();
    let refunded = store.run(&["refund", "k", "3/min", "2", &at, "--json"]).ok();
    assert_eq!(refunded, "{\"refunded\":2}\n");
    assert_eq!(store.run(&["refund", "k", "3/min", "2", &at]).ok(), "given back: 0 of 2 to k\n");
    assert_eq!(store.run(&["reset", "k", "5/h gcra", "--json"]).ok(), "{\"reset\":true}\n");
}

#[test]
fn a_decision_in_full_has_a_row_for_each_limit() {
    let store = store();
    let out = store.run(&["check", "k", "3/min, 10/h", "--cost", "3", "--full"]).ok();
    let table = "\
k allowed: 0 left, as new in 1h
  limit  fits  count  left  retry after  as new in
  3/min  yes       3     0         1min       1min
  10/h   yes      10     7            -         1h
";
    assert_eq!(out, table);
    let out = store.run(&["explain", "3/min, 10/h", "--key", "k"]).ok();
    assert!(
        out.starts_with("  policy  3/min, 10/h\n") && out.contains("\nnow, asked for 1 unit:\nk would be denied"),
        "{out}"
    );
    assert!(out.contains("\nit would first pass at 20") && out.lines().all(|line| line.chars().count() <= 80), "{out}");
    let document = json(&store.run(&["explain", "3/min, 10/h", "--key", "k", "--json"]).ok());
    assert_eq!(document["now"]["limited_by"], "3/min");
    assert_eq!(json(&store.run(&["peek", "k", "3/min, 10/h", "--json"]).ended(1))["charged"], 0);
}

#[test]
fn without_a_store_nothing_is_decided() {
    for command in
        [&["check", "k", "1/s"][..], &["peek", "k", "1/s"], &["reset", "k", "1/s"], &["refund", "k", "1/s", "1", "5"]]
    {
        let error = tollgate(&[command, &["--store", "redis://127.0.0.1:1"]].concat(), b"").failed();
        assert!(error.starts_with("error: 127.0.0.1:1 cannot be reached: Connection refused\nhint: "), "{error}");
    }
}

#[test]
fn mistakes_are_pointed_at() {
    let store = store();
    assert!(store.run(&["check", "k", "1/parsec"]).failed().contains("expected a unit"));
    assert!(store.run(&["check", "", "1/s"]).failed().contains("expected a key of 1 to 512 bytes"));
    assert!(store.run(&["check", "k", "1/s", "--name", "a b"]).failed().contains("--name \"a b\": expected a name"));
    assert!(store.run(&["check", "k", "1/s", "--cost", "9007199254740992"]).failed().contains("expected units from 0"));
    redis::cmd("LPUSH").arg("tg:{list}").arg(1).exec(&mut store.0.connection().unwrap()).unwrap();
    assert!(store.run(&["check", "list", "1/s"]).failed().contains("WRONGTYPE"));
}
