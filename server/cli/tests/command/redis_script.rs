//! `tollgate redis script` and `compact` from end to end: the text runs as it is printed.

use std::process::Command;

use tollgate_kit::Server;

use crate::support::{json, tollgate};

fn cli(server: &Server, args: &[&str]) -> String {
    let output = Command::new("redis-cli").args(["-p", &server.port().to_string()]).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim_end().replace('\n', " ")
}

fn script(args: &[&str]) -> String {
    tollgate(&[&["redis", "script"], args].concat(), b"").ok()
}

#[test]
fn scripts_run_in_redis_cli() {
    let server = Server::start().unwrap();
    assert_eq!(cli(&server, &["EVAL", &script(&["tollgate"]), "1", "tg:{a}", "100/min"]), "1 1 99 0 60000000 0");
    assert_eq!(cli(&server, &["EVAL", &script(&["sliding_window"]), "1", "w", "60000", "1"]), "0");
    assert_eq!(cli(&server, &["EVAL", &script(&["sliding_window"]), "1", "w", "60000", "1"]), "1");
    let policy = "10/s gcra burst=20";
    let compact = tollgate(&["redis", "compact", policy], b"").ok();
    let smaller = script(&["tollgate_peek", "--policy", policy]);
    assert!(smaller.len() < script(&["tollgate_peek"]).len());
    assert_eq!(cli(&server, &["EVAL", &smaller, "1", "tg:{b}", compact.trim()]), "1 1 20 0 0 0");
    assert_eq!(cli(&server, &["FUNCTION", "LOAD", &script(&["library"])]), "tollgate");
    assert_eq!(cli(&server, &["FUNCTION", "LOAD", &script(&["library_0_1"])]), "tollgate_0_1");
    let out = tollgate(&["redis", "install", &server.url(), "--check"], b"").ok();
    assert_eq!(out.matches("  current\n").count(), 2, "{out}");
}

#[test]
fn without_a_name_all_are_listed() {
    let out = script(&[]);
    for name in ["tollgate ", "tollgate_refund ", "sliding_window ", "api_counter ", "library "] {
        assert!(out.contains(&format!("  {name}")), "{out}");
    }
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    let document = json(&script(&["--json"]));
    assert_eq!(document["scripts"].as_array().unwrap().len(), 12);
    let one = json(&script(&["ar1", "--json"]));
    assert_eq!(
        one["sha"],
        document["scripts"].as_array().unwrap().iter().find(|script| script["name"] == "ar1").unwrap()["sha"]
    );
}

#[test]
fn mistakes_say_what_there_is() {
    let error = tollgate(&["redis", "script", "nonsense"], b"").failed();
    assert_eq!(error, "error: script \"nonsense\": expected a name that tollgate redis script lists\n");
    let error = tollgate(&["redis", "script", "ar1", "--policy", "1/s"], b"").failed();
    assert!(error.contains("expected with --policy, a call such as tollgate"), "{error}");
    assert!(tollgate(&["redis", "compact", "1/parsec"], b"").failed().contains("expected a unit"));
}
