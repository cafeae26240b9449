//! At the cap: plain keys are refused, limiters of new keys are limited together, and memory stays bounded.

use tollgate_daemon::ServerSettings;

use crate::keys::support::KeysTestServer;

fn small() -> KeysTestServer {
    KeysTestServer::with(ServerSettings { keys: 256 << 10, ..ServerSettings::default() })
}

#[test]
fn plain_keys_are_refused_and_told_what_to_do() {
    let mut server = small();
    let mut made = 0;
    let error = loop {
        let reply = server.ask(&format!("INCR k:{made}"));
        if reply != ":1" {
            break reply;
        }
        made += 1;
        assert!(made < 5_000);
    };
    assert!(error.starts_with("-OOM expected room for"), "{error}");
    assert!(error.contains("DEL keys, EXPIRE them, or start the server with more memory"), "{error}");
    assert!(made > 500, "{made}");
    server.expect(&[
        ("INCR k:0", ":2"),
        ("EXPIRE k:0 10", ":1"),
        ("GET k:1", "$1 1"),
        ("DEL k:1", ":1"),
        ("INCR new", ":1"),
    ]);
    assert!(server.ask("SET newer x").starts_with("-OOM"));
    server.set(10_000_001);
    server.expect(&[("INCR newer", ":1")]);
}

#[test]
fn limiters_of_new_keys_are_limited_together() {
    let mut server = small();
    server.expect(&[("FCALL fixed_window 1 old 2 60", "*2 $5 allow *3 $1 2 $2 60 $1 1")]);
    let mut made = 0;
    while server.ask(&format!("INCR k:{made}")) == ":1" {
        made += 1;
        assert!(made < 5_000);
    }
    // What is known goes on by itself.
    server.expect(&[
        ("FCALL fixed_window 1 old 2 60", "*2 $5 allow *3 $1 2 $2 60 $1 0"),
        ("FCALL fixed_window 1 old 2 60", "*2 $5 block *3 $1 2 $2 60 $1 0"),
    ]);
    // New keys: some pass, not all, and none leaves a key.
    for call in [
        "FCALL fixed_window 1 KEY 2 60",
        "FCALL sliding_window 1 KEY 60000 2",
        "CL.THROTTLE KEY 1 2 60",
        "FCALL api_counter 1 {api:KEY} 2",
        "FCALL token_bucket 1 KEY 2 60 2",
        "FCALL slot_window 1 KEY 1 ns [[2,60,1]] 1700000040 0",
        "FCALL rolling 2 KEYa KEYb 1 1 1700000040000000 0 0 2 2 6000 6000 10000 10000",
    ] {
        let mut allowed = 0;
        for place in 0..400 {
            let reply = server.ask(&call.replace("KEY", &format!("new:{place}")));
            assert!(!reply.starts_with('-'), "{call}: {reply}");
            let passes = ["*2 $5 allow", ":0", "*5 :0", "$-1"].iter().any(|start| reply.starts_with(start))
                && !call.contains("api_counter")
                || reply.starts_with("*5 :1") && call.contains("api_counter")
                || call.contains("rolling") && reply.split(' ').nth(2) == Some(":1");
            allowed += u32::from(passes);
        }
        assert!((2..=200).contains(&allowed), "{call}: {allowed} of 400");
        assert_eq!(server.ask("EXISTS new:0 new:1 {api:new:0}:14 new:0a"), ":0", "{call}");
    }
    // Forgotten when it is over.
    server.set(200_000_000);
    let reply = server.ask("FCALL fixed_window 1 new:0 2 60");
    assert!(reply.starts_with("*2 $5 allow"), "{reply}");
}

#[test]
fn no_policies_of_callers_make_memory_grow_beyond_the_cap() {
    let mut server = small();
    let (mut full, mut decided) = (0, 0);
    for place in 0..20_000 {
        // Each call another key and other limits.
        let limits = format!("[[5,{},1],[5,{},1]]", 60 + place, 90_000 + place);
        let reply = server.ask(&format!("FCALL slot_window 1 k:{place} 1 ns {limits} 1700000040 0"));
        match reply.as_str() {
            "$-1" | ":1" => decided += 1,
            error => {
                assert!(error.starts_with("-OOM expected room for another limiter"), "{error}");
                full += 1;
            }
        }
    }
    assert!(full > 0 && decided > 100, "{full} {decided}");
}
