//! redis-limiter: its application runs unmodified, and `api_counter` decides on the same keys.

use crate::keys::support::{KeysTestServer, T};

/// What the application does for a request; whether it allows it.
fn application(server: &mut KeysTestServer, token: &str, minute: u64, threshold: u64) -> bool {
    let counter = format!("{{api:{token}}}:{minute}");
    let mut connection = server.redis();
    let ops: Option<u64> = redis::cmd("GET").arg(&counter).query(&mut connection).unwrap();
    if ops.unwrap_or_default() >= threshold {
        return false;
    }
    let (ops, expires): (u64, u64) =
        redis::pipe().atomic().incr(&counter, 1).expire(&counter, 59).query(&mut connection).unwrap();
    ops <= threshold && expires == 1
}

#[test]
fn the_application_runs_and_its_data_is_kept() {
    let mut server = KeysTestServer::new();
    let allowed: Vec<bool> = (0..4).map(|_| application(&mut server, "0ubo9qku7y", 14, 3)).collect();
    assert_eq!(allowed, [true, true, true, false]);
    server.expect(&[
        ("HGETALL {api:0ubo9qku7y}:data", "*4 $4 last $10 1700000040 $3 ops $1 3"),
        ("TTL {api:0ubo9qku7y}:data", ":31622400"),
        ("TTL {api:0ubo9qku7y}:14", ":59"),
    ]);
    server.set(59_000_001);
    server.expect(&[("EXISTS {api:0ubo9qku7y}:14", ":0"), ("EXISTS {api:0ubo9qku7y}:data", ":1")]);
    assert!(application(&mut server, "0ubo9qku7y", 14, 3));
    server.expect(&[
        ("HGETALL {api:0ubo9qku7y}:data", "*4 $4 last $10 1700000099 $3 ops $1 4"),
        ("INCRBY {api:0ubo9qku7y}:15 10", ":10"),
        // One operation, by however much.
        ("HGET {api:0ubo9qku7y}:data ops", "$1 5"),
    ]);
    // 366 days after the last use.
    let year = 366 * 86_400_000_000;
    server.set(59_000_001 + year);
    server.expect(&[("EXISTS {api:0ubo9qku7y}:data", ":1")]);
    server.set(59_000_002 + year);
    server.expect(&[("EXISTS {api:0ubo9qku7y}:data", ":0"), ("INCR {api:0ubo9qku7y}:0", ":1")]);
    server.expect(&[("HGET {api:0ubo9qku7y}:data ops", "$1 1")]);
}

#[test]
fn other_names_are_just_incremented() {
    let mut server = KeysTestServer::new();
    for key in ["{api:x}", "{api:x:5", "api:x:5", "{apix}:5", "{api:y}:data"] {
        assert_eq!(server.ask(&format!("INCR {key}")), ":1", "{key}");
        assert_eq!(server.ask(&format!("DECR {key}")), ":0", "{key}");
    }
    server.expect(&[("DBSIZE", ":5"), ("TYPE {api:y}:data", "+string")]);
    // As the trigger has it, any last part is a counter's.
    server.expect(&[("INCR {api:z}:a:b", ":1"), ("HGET {api:z}:a:data ops", "$1 1")]);
}

#[test]
fn api_counter_and_the_application_count_together() {
    let mut server = KeysTestServer::new();
    server.expect(&[
        ("FCALL api_counter 1 {api:k} 3", "*5 :1 :1 :14 :1700000040 :1"),
        ("GET {api:k}:14", "$1 1"),
        ("PTTL {api:k}:14", ":60000"),
        ("INCR {api:k}:14", ":2"),
        ("FCALL api_counter 1 {api:k} 3", "*5 :1 :3 :14 :1700000040 :3"),
        ("FCALL api_counter 1 {api:k} 3", "*5 :0 :3 :14 :1700000040 :3"),
        ("FCALL api_counter 1 {api:k} 9", "*5 :1 :4 :14 :1700000040 :4"),
        ("HGETALL {api:k}:data", "*4 $4 last $10 1700000040 $3 ops $1 4"),
        ("TTL {api:k}:data", ":31622400"),
    ]);
    server.set(59_999_999);
    server.expect(&[("FCALL api_counter 1 {api:k} 4", "*5 :0 :4 :14 :1700000040 :4"), ("PTTL {api:k}:14", ":1")]);
    server.set(60_000_000);
    server.expect(&[
        ("FCALL api_counter 1 {api:k} 4", "*5 :1 :1 :15 :1700000100 :5"),
        ("PTTL {api:k}:15", ":60000"),
        ("FCALL api_counter_0_1 1 {api:k} 4", "*5 :1 :2 :15 :1700000100 :6"),
    ]);
    server.set(60_000_001);
    server.expect(&[("EXISTS {api:k}:14", ":0"), ("EXISTS {api:k}:15", ":1")]);
    // A clock set back counts on in the minute that was counted last.
    server.set(59_000_000);
    server.expect(&[
        ("FCALL api_counter 1 {api:k} 3", "*5 :1 :3 :15 :1700000100 :7"),
        ("FCALL api_counter 1 {api:k} 3", "*5 :0 :3 :15 :1700000100 :7"),
    ]);
}

#[test]
fn api_counter_leaves_no_key_when_it_counts_nothing_and_touches_no_other_kind() {
    let mut server = KeysTestServer::new();
    server.expect(&[
        ("FCALL api_counter 1 {api:k} 0", "*5 :0 :0 :14 $-1 :0"),
        ("DBSIZE", ":0"),
        ("SET {api:k}:14 text", "+OK"),
        ("FCALL api_counter 1 {api:k} 5", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("DEL {api:k}:14", ":1"),
        ("SET {api:k}:data text", "+OK"),
        ("FCALL api_counter 1 {api:k} 5", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("EXISTS {api:k}:14", ":0"),
        ("FCALL api_counter 1 user:1 5", "-ERR key: expected {api:TOKEN}, found \"user:1\""),
    ]);
    assert_eq!(T % 60_000_000, 0);
}
