//! Every dialect over the wire, what its key looks like to other commands, and when it expires.

use crate::keys::support::KeysTestServer;

const UNKNOWN_FUNCTION: &str = "-ERR Function not found; with serve --store redis://HOST the store can run it, for a \
                                connection with the scope script";

const STATE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value: expected a state of tollgate";

#[test]
fn sliding_window() {
    let mut server = KeysTestServer::new();
    server.login();
    server.expect(&[
        ("FCALL sliding_window 1 k 1000 2 10000 3", ":0"),
        ("EXISTS k", ":1"),
        ("TYPE k", "+string"),
        // The largest window.
        ("PTTL k", ":10000"),
        ("FCALL sliding_window 1 k 1000 2 10000 3", ":0"),
        ("FCALL sliding_window 1 k 1000 2 10000 3", ":1"),
        ("GET k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("INCR k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("FCALL sliding_window 1 e 1000 1 500", ":0"),
        ("PTTL e", ":1500"),
    ]);
    // An event still counts exactly its size later.
    server.set(10_000_000);
    server.expect(&[("FCALL sliding_window 1 k 10000 2", ":1"), ("EXISTS k e", ":1"), ("PTTL k", ":0")]);
    server.set(10_000_001);
    server.expect(&[("EXISTS k", ":0"), ("FCALL sliding_window 1 k 10000 2", ":0"), ("DEL k", ":1")]);
    // One that was refused from the start leaves no key.
    server.expect(&[("FCALL sliding_window 1 k 10000 0", ":1"), ("EXISTS k", ":0")]);
}

#[test]
fn fixed_window_and_token_bucket() {
    let mut server = KeysTestServer::new();
    server.expect(&[
        ("FCALL fixed_window 1 f 2 60", "*2 $5 allow *3 $1 2 $2 60 $1 1"),
        ("PTTL f", ":60000"),
        (
            "FCALL token_bucket 1 b 15 60 1",
            "*2 $5 allow *4 $38 15 15;w=60;burst=1;policy=token_bucket $2 60 $2 14 $1 5",
        ),
        ("PTTL b", ":60000"),
    ]);
    server.set(30_000_000);
    assert_eq!(server.ask("FCALL fixed_window 1 f 2 60"), "*2 $5 allow *3 $1 2 $2 30 $1 0");
    assert_eq!(server.ask("FCALL fixed_window 1 f 2 60"), "*2 $5 block *3 $1 2 $2 30 $1 0");
    server.expect(&[("PTTL f", ":30000"), ("PTTL b", ":30000")]);
    server.set(59_999_999);
    server.expect(&[("PTTL f", ":1"), ("FCALL fixed_window 1 f 2 60", "*2 $5 block *3 $1 2 $1 1 $1 0")]);
    server.set(60_000_000);
    server.expect(&[("FCALL fixed_window 1 f 2 60", "*2 $5 allow *3 $1 2 $2 60 $1 1"), ("PTTL f", ":60000")]);
    server.set(60_000_001);
    server.expect(&[("EXISTS b", ":0"), ("EXISTS f", ":1")]);
    server.set(120_000_001);
    server.expect(&[("EXISTS f", ":0")]);
}

#[test]
fn slot_window_and_ar1() {
    let mut server = KeysTestServer::new();
    server.login();
    let limits = "[[1,5,1],[5,3600,600]]";
    let call = |server: &mut KeysTestServer, name: &str, count: &str, ns: &str, limits: &str, now: &str, wait: &str| {
        server.client.ask(&["FCALL", name, "1", "login", count, ns, limits, now, wait])
    };
    assert_eq!(call(&mut server, "slot_window", "1", "ns", limits, "1700000040", "0"), "$-1");
    assert_eq!(call(&mut server, "slot_window", "1", "ns", limits, "1700000040", "0"), ":1");
    assert_eq!(call(&mut server, "slot_window", "0", "ns", limits, "1700000040", "1"), ":5");
    // An hour, by whatever unit.
    server.expect(&[("PTTL ns:{login}", ":3600000"), ("TYPE ns:{login}", "+string"), ("EXISTS login", ":0")]);
    // Another namespace is another state, and so is another limiter.
    assert_eq!(call(&mut server, "slot_window", "1", "other", limits, "1700000040", "0"), "$-1");
    assert_eq!(call(&mut server, "ar1", "4", "ns", "[[2,2,1]]", "1700000040", "1"), ":2");
    assert_eq!(server.ask("FCALL fixed_window 1 login 1 60"), "*2 $5 allow *3 $1 1 $2 60 $1 0");
    assert_eq!(call(&mut server, "slot_window", "0", "ns", limits, "1700000040", "1"), ":5");
    // The name lives as long as any of it.
    server.expect(&[("PTTL ns:{login}", ":3600000"), ("EXISTS login ns:{login} other:{login}", ":3")]);
    // A reset forgets its own.
    assert_eq!(call(&mut server, "slot_window", "-1", "ns", limits, "0", "1"), ":0");
    assert_eq!(call(&mut server, "slot_window", "0", "ns", limits, "1700000040", "1"), ":0");
    assert_eq!(call(&mut server, "slot_window", "1", "other", limits, "1700000040", "0"), ":1");
    assert_eq!(server.ask("FCALL fixed_window 1 login 1 60"), "*2 $5 block *3 $1 1 $2 60 $1 0");
    server.expect(&[("DEL login", ":1"), ("EXISTS login ns:{login} other:{login}", ":0")]);
    // One that is all forgotten is gone, and one that only looks leaves nothing.
    assert_eq!(call(&mut server, "slot_window", "1", "ns", limits, "1700000040", "0"), "$-1");
    server.expect(&[("EXISTS ns:{login}", ":1")]);
    assert_eq!(call(&mut server, "slot_window", "-1", "ns", limits, "0", "0"), "$-1");
    server.expect(&[("EXISTS ns:{login}", ":0")]);
    assert_eq!(call(&mut server, "ar1", "0", "ns", "[[2,2,1]]", "1700000040", "0"), "$-1");
    server.expect(&[("EXISTS ns:{login}", ":0"), ("DEL login", ":0")]);
    // Milliseconds.
    assert_eq!(call(&mut server, "slot_window", "1", "ns", "[[1,5000,1000]]", "1700000040000", "0"), "$-1");
    server.expect(&[("PTTL ns:{login}", ":5000")]);
    server.set(5_000_001);
    server.expect(&[("EXISTS ns:{login}", ":0"), ("DEL login", ":0")]);
}

#[test]
fn the_state_of_slot_window_is_beside_the_key_of_the_application() {
    let mut server = KeysTestServer::new();
    server.login();
    let call = |key: &str, ns: &str| format!("FCALL slot_window 1 {key} 1 {ns} [[1,60,1]] 1700000040 0");
    // What the application keeps at the key is its own, before and after.
    server.expect(&[("SET login hello", "+OK"), (&call("login", "ns"), "$-1"), (&call("login", "ns"), ":1")]);
    server.expect(&[("GET login", "$5 hello"), ("SET login bye", "+OK"), ("EXPIRE login 60", ":1")]);
    server.expect(&[(&call("login", "ns"), ":1"), ("EXISTS ns:{login}", ":1")]);
    // Either name clears it; what another dialect counted at the name stays.
    server.expect(&[("DEL ns:{login}", ":1"), (&call("login", "ns"), "$-1"), ("GET login", "$3 bye")]);
    server.expect(&[("FCALL fixed_window 1 ns:{login} 1 60", "*2 $5 allow *3 $1 1 $2 60 $1 0")]);
    server.expect(&[("DEL login", ":1"), (&call("login", "ns"), "$-1"), ("EXISTS login ns:{login}", ":1")]);
    server.expect(&[("FCALL fixed_window 1 ns:{login} 1 60", "*2 $5 block *3 $1 1 $2 60 $1 0")]);
    // No such name exists: the state is at the key.
    for (key, ns) in [("{user}:login", "ns"), ("plain", "n{s")] {
        server.expect(&[(&call(key, ns), "$-1"), (&call(key, ns), ":1"), (&format!("EXISTS {key}"), ":1")]);
        server.expect(&[(&format!("DEL {key}"), ":1"), (&call(key, ns), "$-1")]);
    }
    // Deleting the key is a reset, and changing the application's own text is none.
    let mut server = KeysTestServer::without_reset();
    let lacks = "-NOPERM expected a token with the scope reset: AUTH token; this connection has check,read";
    server.expect(&[("SET login hello", "+OK"), (&call("login", "ns"), "$-1")]);
    server.expect(&[("DEL login", lacks), ("UNLINK other login", lacks), ("DEL ns:{login}", lacks)]);
    server.expect(&[("SET login bye", "+OK"), ("EXPIRE login 60", ":1"), (&call("login", "ns"), ":1")]);
}

#[test]
fn rolling_keeps_a_state_at_each_of_its_keys() {
    let mut server = KeysTestServer::new();
    server.login();
    let now = "1700000040000000";
    server.expect(&[
        (&format!("FCALL rolling 1 r 1 4 {now} 0 10 100 10000") as &str, "*3 :6 :4 :0"),
        ("PTTL r", ":2000"),
        (&format!("FCALL rolling 2 h m 1 2 {now} 0 0 3 2 360000 6000 10000 10000"), "*3 :0 :2 :3600180000"),
        ("EXISTS h m", ":2"),
        ("PTTL h", ":3601000"),
        ("PTTL m", ":61000"),
        // The state is each key's own, in whatever company.
        (&format!("FCALL rolling 1 m 1 1 {now} 0 2 6000 10000"), "*3 :0 :0 :60003000"),
        (&format!("FCALL rolling 2 m h 1 1 {now} 0 0 2 3 6000 360000 10000 10000"), "*3 :0 :0 :60003000"),
        ("DEL m", ":1"),
        (&format!("FCALL rolling 2 m h 1 1 {now} 0 0 2 3 6000 360000 10000 10000"), "*3 :0 :1 :3600180000"),
        (&format!("FCALL rolling 2 h h 1 1 {now} 0 0 3 2 360000 6000 10000 10000"), "-ERR keys: expected each once, found \"h\""),
        ("SET t text", "+OK"),
        (&format!("FCALL rolling 2 new t 1 1 {now} 0 0 3 2 360000 6000 10000 10000"), STATE),
        ("EXISTS new", ":0"),
        // Refused from the start.
        (&format!("FCALL rolling 2 new newer 1 5 {now} 0 0 3 2 360000 6000 10000 10000"), "*3 :2 :0 :0"),
        ("EXISTS new newer", ":0"),
        (&format!("FCALL rolling 1 u 0 5 {now} 0 3 100 10000"), "*3 :-2 :5 :1000050"),
        (
            &format!("FCALL rolling 1 u 0 9007199254740991 {now} 0 3 100 10000"),
            "-ERR count: expected at most 9007199254740987 more than the 5 counted, 2^53 in all, found \"9007199254740991\"",
        ),
        (&format!("FCALL rolling 1 u 0 1 {now} 0 3 100 10000"), "*3 :-3 :1 :1000050"),
    ]);
    server.set(61_000_000);
    server.expect(&[("EXISTS m h", ":2")]);
    server.set(61_000_001);
    server.expect(&[("EXISTS m h", ":1"), ("EXISTS r u", ":0")]);
}

#[test]
fn cl_throttle() {
    let mut server = KeysTestServer::new();
    server.expect(&[
        ("CL.THROTTLE user123 15 30 60 1", "*5 :0 :16 :15 :-1 :2"),
        ("CL.THROTTLE user123 15 30 60", "*5 :0 :16 :14 :-1 :4"),
        ("PTTL user123", ":4000"),
        ("CL.THROTTLE user123 15 30 60 0", "*5 :0 :16 :14 :-1 :4"),
        ("CL.THROTTLE user123 15 30 60 15", "*5 :1 :16 :14 :2 :4"),
        ("CL.THROTTLE other 15 30 60 0", "*5 :0 :16 :16 :-1 :0"),
        ("EXISTS other", ":0"),
        ("CL.THROTTLE user123 x 30 60", "-ERR max_burst: expected an integer from 0 to 9007199254740991, found \"x\""),
        ("SET text x", "+OK"),
        ("CL.THROTTLE text 15 30 60", STATE),
    ]);
    assert!(server.ask("CL.THROTTLE user123 15 30").starts_with("-ERR wrong number of arguments for 'cl.throttle'"));
    server.set(4_000_001);
    server.expect(&[("EXISTS user123", ":0")]);
}

#[test]
fn wrong_calls_are_told_as_redis_tells_them() {
    let mut server = KeysTestServer::new();
    server.expect(&[
        ("FCALL nosuch 0", UNKNOWN_FUNCTION),
        ("FCALL cl.throttle 1 k 1 1 1", UNKNOWN_FUNCTION),
        ("FCALL FIXED_WINDOW 1 k 1 60", "*2 $5 allow *3 $1 1 $2 60 $1 0"),
        ("FCALL fixed_window x k 1 60", "-ERR Bad number of keys provided"),
        ("FCALL fixed_window -1 k 1 60", "-ERR Number of keys can't be negative"),
        ("FCALL fixed_window 4 k 1 60", "-ERR Number of keys can't be greater than number of args"),
        ("FCALL fixed_window 2 k 1 60", "-ERR keys: expected 1, found 2"),
        ("FCALL fixed_window 1 k 1", "-ERR arguments: expected 2 (limit, window), found 1"),
        ("FCALL fixed_window 1 k 1 0", "-ERR window: expected an integer from 1 to 9007199254, found \"0\""),
        ("FCALL_RO fixed_window 1 k 1 60", "-ERR Can not execute a script with write flag using *_ro command."),
    ]);
    // The empty key is one.
    assert_eq!(server.client.ask(&["FCALL", "fixed_window", "1", "", "1", "60"]), "*2 $5 allow *3 $1 1 $2 60 $1 0");
    assert_eq!(server.client.ask(&["EXISTS", ""]), ":1");
}

#[test]
fn what_a_limiter_counted_is_forgotten_with_the_scope_for_it() {
    let mut server = KeysTestServer::without_reset();
    let lacks = "-NOPERM expected a token with the scope reset: AUTH token; this connection has check,read";
    server.ask("FCALL fixed_window 1 k 1 60");
    for command in ["DEL k", "DEL other k", "UNLINK k", "EXPIRE k 0", "PEXPIRE k 1", "EXPIREAT k 1", "SET k 1"] {
        server.expect(&[(command, lacks), ("EXISTS k", ":1")]);
    }
    // A count below zero resets too.
    let limits = "[[1,60,1]]";
    server.expect(&[(&format!("FCALL slot_window 1 s 2 ns {limits} 1700000040 0"), ":1")]);
    for dialect in ["slot_window", "ar1"] {
        server.expect(&[(&format!("FCALL {dialect} 1 s -1 ns {} 1700000040 0", limits.replace("60", "2")), lacks)]);
    }
    server.expect(&[("INCR plain", ":1"), ("EXPIRE plain 59", ":1"), ("DEL plain", ":1")]);
    server.login();
    server.expect(&[("DEL k", ":1"), ("EXISTS k", ":0")]);
    server.expect(&[(&format!("FCALL slot_window 1 s -1 ns {limits} 1700000040 1"), ":0")]);
    server.expect(&[(&format!("FCALL slot_window 1 s 0 ns {limits} 1700000040 1"), ":0")]);
}

#[test]
fn on_loopback_clients_clear_what_they_counted_and_nothing_else() {
    let mut server = KeysTestServer::new();
    let spent = ("TG.CHECK k 1/h", "*6 :0 :0 :0 :3600000000 :3600000000 :1");
    server.ask("TG.CHECK k 1/h");
    for clear in ["DEL k", "EXPIRE k 0", "FLUSHDB", "FLUSHALL ASYNC"] {
        server.expect(&[("FCALL fixed_window 1 k 1 60", "*2 $5 allow *3 $1 1 $2 60 $1 0")]);
        server.expect(&[("FCALL fixed_window 1 k 1 60", "*2 $5 block *3 $1 1 $2 60 $1 0"), ("INCR n", ":1")]);
        let _ = server.ask(clear);
        // A policy's state is neither a key nor in a database.
        server.expect(&[("EXISTS k", ":0"), spent]);
        let _ = server.ask("DEL n");
    }
    // Both clear the database of the connection alone.
    for (clear, db) in [("FLUSHDB", "1"), ("FLUSHALL", "2")] {
        server.expect(&[("SELECT 0", "+OK"), ("SET a 1", "+OK"), (&format!("SELECT {db}"), "+OK"), ("SET a 1", "+OK")]);
        server.expect(&[(clear, "+OK"), ("EXISTS a", ":0"), ("SELECT 0", "+OK"), ("EXISTS a", ":1")]);
    }
}
